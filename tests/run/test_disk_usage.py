"""Sizes and removal of runs and of the cache; files in use, or that cannot be computed again, stay."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from gnnqlab import cli
from gnnqlab.cli.lists import Runs
from gnnqlab.run import disk_usage
from gnnqlab.run import folder as files
from gnnqlab.run.run import Run, runs
from gnnqlab.units import human_bytes
from tests.lab.synthetic_folder import Folder


def ended(root: Path, *, days: float = 0.0, state: str = "finished") -> Run:
    folder = Folder(root)
    folder.write(range(3))
    folder.state(state)
    then = time.time() - days * 24 * 3600
    os.utime(folder.path / "status.json", (then, then))
    return Run(folder.path.rename(root / f"2026020{len(runs(root))}-000000-run"))


def test_run_is_deleted_by_name_and_its_size_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ended(tmp_path), ended(tmp_path)
    size = disk_usage.disk_bytes(first.folder)
    assert size == sum(path.stat().st_size for path in first.folder.rglob("*") if path.is_file()) > 0
    cli.main(["runs", "--out", str(tmp_path), "--json"])
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert {row["size"] for row in listed} == {human_bytes(size)}
    cli.main(["runs", "--out", str(tmp_path), "--delete", first.id, "--json"])
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["deleted"]
    assert told == [{"deleted": first.id, "size": human_bytes(size)}]
    assert not first.folder.exists() and [run.id for run in runs(tmp_path)] == [second.id]


def test_folder_deleted_during_the_count_adds_no_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends at this moment: its guard removes temporary files."""
    (tmp_path / "run" / "tmp" / "attempt").mkdir(parents=True)
    (tmp_path / "run" / "records").write_text("four")
    scandir = os.scandir

    def gone(path: Path | str) -> object:
        if Path(path).name == "attempt" and Path(path).exists():
            Path(path).rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert disk_usage.disk_bytes(tmp_path / "run") == 4
    assert not (tmp_path / "run" / "tmp" / "attempt").exists()


def test_unknown_run_name_deletes_no_run_and_suggests_the_nearest(tmp_path: Path) -> None:
    run = ended(tmp_path)
    with pytest.raises(ValueError, match=f"got '{run.id}x'; did you mean {run.id}"):
        Runs(delete=f"{run.id},{run.id}x", out=tmp_path).run()
    assert run.folder.exists()


def test_only_ended_runs_of_that_age_go(tmp_path: Path) -> None:
    old, new, live = ended(tmp_path, days=40), ended(tmp_path, days=2), ended(tmp_path, days=40, state="running")
    assert live.status == "running"
    assert [run.id for run in disk_usage.find_ended_before(30, tmp_path)] == [old.id]
    assert {run.id for run in disk_usage.find_ended_before(0, tmp_path)} == {old.id, new.id}
    with pytest.raises(RuntimeError, match=f"got running run {live.id}; stop it first"):
        disk_usage.delete_run(live)
    with pytest.raises(RuntimeError, match=f"all runs must have ended .*{live.id}"):
        disk_usage.prune_cache(tmp_path)
    with pytest.raises(ValueError, match="a number of days, at least 0, got -1"):
        disk_usage.find_ended_before(-1, tmp_path)
    assert live.folder.exists()


def test_a_removal_that_broke_off_is_listed_and_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ended(tmp_path)
    (run.folder / "a").mkdir()

    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("gnnqlab.run.disk_usage.shutil.rmtree", refuse)
        with pytest.raises(RuntimeError, match="must be removable, got .*Permission denied"):
            disk_usage.delete_run(run)
    assert [one.id for one in runs(tmp_path)] == [run.id]
    disk_usage.delete_run(run)
    assert runs(tmp_path) == []


def test_prune_cache_retains_graphs_of_runs_and_locked_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("GNNQLAB_CACHE", str(cache))
    run = ended(tmp_path / "runs")
    for kind, name in (("shards", "a"), ("shards", "making"), ("graphs", "named"), ("graphs", "forgotten")):
        (cache / kind / name).mkdir(parents=True)
        (cache / kind / name / "rank0.npz").write_bytes(bytes(2_000_000))
    (cache / "shards" / "making.lock").touch()
    for kind in ("sources", "timings"):
        (cache / kind).mkdir()
        (cache / kind / "b.json").write_text("{}")
    settings = files.read_json(run.folder / "config.json")
    files.write_json(run.folder / "config.json", settings | {"graph": str(cache / "graphs" / "named")})
    cli.main(["runs", "--out", str(tmp_path / "runs"), "--prune-cache"])
    out = capsys.readouterr().out
    assert out.count("2 MB") == 2 and "shards of the cache" in out and "graphs of the cache" in out
    left = sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())
    assert left == ["graphs/named/rank0.npz", "shards/making.lock", "shards/making/rank0.npz"]
    assert disk_usage.prune_cache(tmp_path / "runs") == {"shards": 0, "sources": 0, "timings": 0, "graphs": 0}


def test_a_run_moved_aside_comes_back_or_goes_with_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "runs"
    root.mkdir()
    run, live = ended(root), ended(root, state="running")
    aside = disk_usage.set_aside(run)
    assert [one.id for one in runs(root)] == [live.id]
    assert disk_usage.restore_run(aside).folder == run.folder and len(runs(root)) == 2
    with pytest.raises(RuntimeError, match=f"got running run {live.id}; stop it first"):
        disk_usage.set_aside(live)
    (live.folder / "status.json").write_text('{"state": "finished"}')
    size = disk_usage.disk_bytes(disk_usage.set_aside(run).folder)
    assert disk_usage.prune_cache(root)["deleted runs"] >= size > 0
    with pytest.raises(RuntimeError, match="must be movable"):
        disk_usage.restore_run(aside)
