import importlib
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.launch import launch, local
from gnnqlab.run import folder as files
from tests.cases import each
from tests.launch.conftest import config


def test_names_sort_by_time_and_never_meet() -> None:
    names = {files.new_id("adaqp") for _ in range(50)}
    assert all(re.fullmatch(r"\d{8}-\d{6}-adaqp-[0-9a-f]{4}", name) for name in names)
    assert files.new_id("../../etc").count("/") == 0


def test_the_place_of_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GNNQLAB_RUNS", raising=False)
    assert files.default_root() == tmp_path / "runs"
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "elsewhere"))
    assert files.default_root() == tmp_path / "elsewhere"


@each("place", ["/proc/gnnqlab-runs", "file/runs"])
def test_a_place_that_cannot_be_written_is_named(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no folder")
    said = f"the folder of a run must be writable, got .*{place}.*pass out=.*GNNQLAB_RUNS"
    with pytest.raises(RuntimeError, match=said):
        launch(config(), root=place)


def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ValueError, match="device must be one that PyTorch .* finds here, got 'cuda'; choose 'cpu'"):
        launch(config(device="cuda"), root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_slow_kernels_that_nobody_asked_for_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GNNQLAB_KERNELS", raising=False)
    assert local._slow_kernels("cpu") == ""
    reason = "no library was built; run make kernels"
    missing = {"backend": "reference", "reason": reason, "cuda_reason": "built without"}
    monkeypatch.setattr(native, "status", lambda: missing)
    said = "several times slower than compiled ones: no library was built; run make kernels"
    assert said in local._slow_kernels("cpu")
    assert "plain PyTorch on the GPU, several times slower than compiled ones: built" in local._slow_kernels("cuda")
    monkeypatch.setattr(native, "status", lambda: {"backend": "reference", "reason": None, "cuda_reason": None})
    assert local._slow_kernels("cpu") == local._slow_kernels("cuda") == ""
    monkeypatch.setattr(native, "status", lambda: missing)
    monkeypatch.setenv("GNNQLAB_KERNELS", "reference")
    assert local._slow_kernels("cpu") == "", "who turned them off is not told that they are off"


def test_kernels_and_gpus_that_are_not_there_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNNQLAB_KERNELS", "foo")
    with pytest.raises(ValueError, match="GNNQLAB_KERNELS must be one of .*, got 'foo'"):
        launch(config(), root=tmp_path / "runs")
    monkeypatch.delenv("GNNQLAB_KERNELS")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"'nccl' takes a GPU for each worker, got 3 workers and 1 GPU\(s\); choose"):
        launch(config(device="cuda", backend="nccl"), root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_disk_without_room_is_named_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int = 12345

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage())
    with pytest.raises(RuntimeError, match="needs 64 MB of free space, got 12345 bytes under .*runs"):
        launch(config(), root=tmp_path / "runs")
    assert not list((tmp_path / "runs").iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"x": 1})
    files.write_json(tmp_path / "a.json", {"x": 2})
    assert files.read_json(tmp_path / "a.json") == {"x": 2} and os.listdir(tmp_path) == ["a.json"]
    (tmp_path / "a.json").write_text('{"x":')
    assert files.read_json(tmp_path / "a.json") is None


def test_a_failed_write_keeps_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_json(tmp_path / "a.json", {"x": 1})

    def full(self: Path, text: str, **_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        files.write_json(tmp_path / "a.json", {"x": 2})
    files.append_event(tmp_path / "missing", "anything")  # never raises
    assert files.read_json(tmp_path / "a.json") == {"x": 1}


def test_a_folder_that_another_machine_has_made_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int = 12345

    folder = files.create(tmp_path, "both")
    (folder / "records-rank0.jsonl").write_text("{}")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage())
    with pytest.raises(RuntimeError, match="needs 64 MB of free space"):
        files.create(tmp_path, "both", exist_ok=True)
    assert (folder / "records-rank0.jsonl").exists()


def test_the_end_of_a_log_begins_at_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first line\nsecond\nthird\n")
    assert files.tail(tmp_path / "log", 10) == "third\n"
    assert files.tail(tmp_path / "log") == "first line\nsecond\nthird\n"
    assert files.tail(tmp_path / "nothing") == ""


def test_modules_that_moved_to_the_room_run_are_deprecated_aliases() -> None:
    with pytest.warns(DeprecationWarning, match=r"gnnqlab\.launch\.folder is gnnqlab\.run\.folder now"):
        assert importlib.import_module("gnnqlab.launch").folder is files
