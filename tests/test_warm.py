"""A run that is started from a process with PyTorch imported trains as one started from nothing, and ends as it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.launch import processes
from gnnqlab.launch.guarded import STARTER
from tests.slow_down import wait_until

ROOT = Path(__file__).parent.parent
SETTINGS = {"system": "fixed-bits", "bits": 2, "workers": 2, "layers": 2, "hidden": 8}


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    command = [sys.executable, str(ROOT / "tests" / "warm.py")]
    address = str(tmp_path / "warm")
    with subprocess.Popen([*command, "serve", address], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}) as server:
        monkeypatch.setenv(STARTER, f"{command[0]} -I -S {command[1]} start {address}")
        wait_until((tmp_path / "warm").exists, what="the socket")
        yield
        server.terminate()


def test_warm_run_has_the_losses_of_a_cold_one(warm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [gq.launch("sbm:60,3,6", **SETTINGS, epochs=3, out=tmp_path / "warm-runs", wait=True)]
    monkeypatch.delenv(STARTER)
    runs.append(gq.launch("sbm:60,3,6", **SETTINGS, epochs=3, out=tmp_path / "cold-runs", wait=True))
    assert [run.status for run in runs] == ["finished"] * 2
    assert runs[0].records["loss"].tolist() == runs[1].records["loss"].tolist()


def test_warm_run_stops_and_leaves_nothing(warm: None, tmp_path: Path) -> None:
    run = gq.launch("sbm:60,3,6", **SETTINGS, epochs=10**6, out=tmp_path / "runs")
    wait_until(lambda: run.epoch >= 1, what="the first epoch")
    left = [run._guards()[0], *((each.pid, each.start) for each in processes.tree(run._guards()[0][0]))]
    assert len(left) >= 4, "a guard, an agent and two workers"
    run.stop()
    wait_until(lambda: not any(processes.alive(*each) for each in left), what="the end of all processes")
    assert run.status == "stopped"


def test_starter_stands_before_the_command_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTER, "env GNNQLAB_MARK='two words'")
    run = gq.launch("sbm:60,3,6", **SETTINGS, epochs=10**6, out=tmp_path)
    with run:
        wait_until(lambda: run.epoch >= 1, what="the first epoch")
        assert b"GNNQLAB_MARK=two words" in Path(f"/proc/{run._guards()[0][0]}/environ").read_bytes()
