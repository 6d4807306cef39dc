"""Limits of processes, in fake control groups and by ulimit; a launch beyond them is refused before it starts."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from gnnqlab.errors import LaunchRefused
from gnnqlab.launch import process_limit

V2, V1 = "0::/app/run\n", "5:memory:/x\n4:pids:/app/run\n"


@pytest.mark.parametrize(
    ("files", "membership", "free"),
    [
        ({}, V2, None),
        ({"pids.max": "100", "pids.current": "30"}, V2, 70),
        ({"pids.max": "max", "pids.current": "30"}, V2, None),
        ({"pids.max": "100"}, V2, None),
        # The smallest of the own group and of all groups above it, but not of another group.
        ({"app/pids.max": "50", "app/pids.current": "45", "pids.max": "90", "pids.current": "80"}, V2, 5),
        ({"app/other/pids.max": "50", "app/other/pids.current": "45"}, V2, None),
        ({"pids/app/run/pids.max": "40", "pids/app/run/pids.current": "1"}, V1, 39),
    ],
)
def test_threads_left_in_a_fake_tree(files: dict[str, str], membership: str, free: int | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(f"{text}\n")
    (tmp_path / "membership").write_text(membership)
    assert process_limit._free_in_groups(tmp_path / "groups", tmp_path / "membership") == free


def test_limit_of_a_user_counts_its_threads_and_none_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1000, 2000))
    monkeypatch.setattr(process_limit, "_free_in_groups", lambda: None)
    monkeypatch.setattr(process_limit, "_own_threads", lambda: 900)
    for user, free in ((1000, 100), (0, None)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert process_limit.free_threads() == free


def test_own_threads_include_a_new_one() -> None:
    end = threading.Event()
    others = [threading.Thread(target=end.wait, daemon=True) for _ in range(50)]
    before = process_limit._own_threads()
    for thread in others:
        thread.start()
    # Other processes of this user may end meanwhile, but hardly 40 threads of them.
    assert process_limit._own_threads() > before + 10
    end.set()


def test_too_many_workers_are_refused_with_the_number_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_limit, "free_threads", lambda: 25)
    process_limit.require_threads(3)
    with pytest.raises(
        LaunchRefused, match=r"4 workers need at least 32 .* leaves 25; raise it \(ulimit -u, .*or choose"
    ):
        process_limit.require_threads(4)
