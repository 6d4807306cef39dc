"""Files that several processes write at once are complete, and work under a lock is done once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from gnnqlab.atomic import locked, put_folder, replacing, sweep, write_text
from tests.slow_down import HANG_S

_CONTEXT = multiprocessing.get_context("forkserver")


def test_two_writers_of_one_file_never_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as first:
        first.write_text("first")
        with replacing(path) as second:
            assert second != first
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["a.txt"]


def test_error_during_replacement_leaves_only_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(KeyError), replacing(tmp_path / "a.txt") as partial:
        partial.write_text("new")
        raise KeyError
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_replacing_with_first_leaves_the_existing_file_unchanged(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with replacing(tmp_path / "a.npz", first=True) as partial:
            assert partial.suffix == ".npz"  # some writers add the missing file name extension
            partial.write_text(text)
    assert (tmp_path / "a.npz").read_text() == "first" and os.listdir(tmp_path) == ["a.npz"]


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "graph"
    for text in ("first", "second"):
        with replacing(path) as partial:
            partial.mkdir()
            (partial / "a").write_text(text)
    assert (path / "a").read_text() == "second" and os.listdir(tmp_path) == ["graph"]
    (tmp_path / "file").touch()
    (tmp_path / "fresh").mkdir()
    with pytest.raises(NotADirectoryError):
        put_folder(tmp_path / "fresh", tmp_path / "file")


def test_sweep_removes_only_matching_partial_files(tmp_path: Path) -> None:
    with replacing(tmp_path / "rank0.npz") as left, replacing(tmp_path / "cut.npz") as other:
        left.touch(), other.touch(), (tmp_path / "rank1.npz").touch()
        sweep(tmp_path, "rank*.npz")
        assert not left.exists() and other.exists() and (tmp_path / "rank1.npz").exists()
        left.touch()


def _once(folder: Path, ready: Barrier) -> None:
    """Make ``done`` slowly if it is not there, when all processes are ready."""
    ready.wait(HANG_S)
    with locked(folder / "lock") as held:
        assert held
        with open(folder / "order", "a") as order:
            if not (folder / "done").exists():
                order.write("made\n")
                time.sleep(0.05)
                (folder / "done").touch()
            order.write("found\n")


def test_locked_work_is_done_once_and_the_lock_file_is_removed(tmp_path: Path) -> None:
    ready = _CONTEXT.Barrier(6)
    several = [_CONTEXT.Process(target=_once, args=(tmp_path, ready)) for _ in range(6)]
    for process in several:
        process.start()
    for process in several:
        process.join(HANG_S)
    assert [process.exitcode for process in several] == [0] * 6
    assert (tmp_path / "order").read_text().split() == ["made", *["found"] * 6]
    assert sorted(os.listdir(tmp_path)) == ["done", "order"]


def _hold(path: Path) -> None:
    with locked(path):
        path.with_name("held").touch()
        time.sleep(HANG_S)


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    holder = _CONTEXT.Process(target=_hold, args=(tmp_path / "lock",))
    holder.start()
    until = time.monotonic() + HANG_S
    while not (tmp_path / "held").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    with locked(tmp_path / "lock") as held:
        assert held
    holder.join()


def test_locked_yields_false_on_a_disk_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    with locked(tmp_path / "lock") as held:
        assert not held


def test_text_with_a_path_that_is_not_utf8_is_written_with_an_escape(tmp_path: Path) -> None:
    write_text(tmp_path / "page", os.fsdecode(b"J\xfcrgen \xc3\xbc"))
    assert (tmp_path / "page").read_text(encoding="utf-8") == "J\\udcfcrgen ü"
