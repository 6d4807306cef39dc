"""Predicted bytes on disk: never more than a run writes; full disks are named with their free bytes."""

from __future__ import annotations

import errno
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import gnnqlab as gq
from gnnqlab.atomic import write_text
from gnnqlab.errors import LaunchRefused
from gnnqlab.lab.training.live_model import LiveModel
from gnnqlab.lab.training.report import write_report
from gnnqlab.run.disk_usage import disk_bytes
from gnnqlab.train.config.configure import configure
from gnnqlab.train.disk_space import min_disk, require_disk
from gnnqlab.train.writable import free_space_note, write_failure
from tests.launch.fakes import UNHURRIED
from tests.slow_down import HANG_S, wait_until

SETTINGS = {"workers": 2, "layers": 3, "hidden": 64, "epochs": 6, "checkpoint_every": 1}


def test_bound_is_at_most_the_bytes_that_a_run_writes(tmp_path: Path) -> None:
    run = gq.launch("sbm:60,3,6", out=tmp_path, wait=True, **SETTINGS)
    least = min_disk(run.config)
    kept = disk_bytes(run.folder / "checkpoints")  # two of the three
    assert 0.5 * kept < least["checkpoints"] * 2 / 3 <= kept
    models = [path.stat().st_size for path in run.folder.glob("*model.safetensors")]
    assert 0 < least["models"] / 2 <= min(models)
    written = sum(path.stat().st_size for name in ("records", "traffic") for path in run.folder.glob(f"{name}-rank*"))
    assert least["records"] == 6 * 2 * 500 <= written


def test_little_space_is_refused_or_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure("sbm:60,3,6", **{**SETTINGS, "hidden": 1000})
    total = sum(min_disk(config).values())

    def free(number: int) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=number))

    free(total - 1)
    with pytest.raises(
        LaunchRefused, match=r"must fit on its disk, got at least [\d.]+ MB \(checkpoints 5\d\.\d MB, mod"
    ):
        require_disk(config, tmp_path / "new" / "runs")
    free(total)
    with pytest.warns(UserWarning, match="may become full: it needs at least .* free some space"):
        require_disk(config, tmp_path)
    free(2 * total)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_disk(config, tmp_path)


def test_failed_write_names_path_and_free_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=17))

    def full(path: Path, *arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # as of write(), without a name

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match=r"No space left on device: '\S+/facts.json'") as caught:
        write_text(tmp_path / "facts.json", "{}")
    note = f" (17 bytes free on the disk of {tmp_path})"
    assert free_space_note(caught.value, Path("/elsewhere")) == note
    assert write_failure(caught.value, tmp_path) == f"No space left on device: {tmp_path / 'facts.json'}{note}"
    assert write_failure(OSError(errno.EACCES, "Permission denied"), tmp_path) == f"Permission denied: {tmp_path}"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "runs"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
def test_checkpoint_that_cannot_be_written_is_a_warning_until_the_next_one(small_disk: Path) -> None:
    settings = {**SETTINGS, "epochs": 10_000, "checkpoint_every": 4, "observers": UNHURRIED}
    with gq.launch("sbm:60,3,6", out=small_disk, **settings) as run:
        wait_until(lambda: list(run.folder.glob("checkpoints/*.safetensors")), what="a checkpoint")
        assert run.warning == ""
        with open(small_disk / "filling", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(1 << 16))
        wait_until(lambda: run.warning, what="the warning")
        assert run.warning.startswith(f"checkpoint failed: No space left on device: {run.folder}/checkpoints/epoch-")
        assert "bytes free on the disk of" in run.warning and run.status == "running"
        assert f": {run.warning}" in repr(run)
        model = LiveModel(run)
        model.poll()
        assert run.warning in model.trouble and run.warning in model.sentence
        report = write_report([run], small_disk.parent / "report.html").read_text()
        assert f"checkpoint failed: No space left on device: {run.folder}/checkpoints/epoch-" in report
        (small_disk / "filling").unlink()
        wait_until(lambda: run.warning == "", what="the next checkpoint")
        run.stop(timeout=HANG_S)
