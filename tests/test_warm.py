"""Runs and kernels forked from a process with PyTorch imported behave and end as those started in the ordinary way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

import gnnqlab as gq
from gnnqlab.launch.guarded import STARTER
from gnnqlab.run import processes
from tests.slow_down import HANG_S, wait_until
from tests.warm import specify_kernel

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


def test_warm_run_stops_without_leaving_processes(warm: None, tmp_path: Path) -> None:
    run = gq.launch("sbm:60,3,6", **SETTINGS, epochs=10**6, out=tmp_path / "runs")
    wait_until(lambda: run.epoch >= 1, what="the first epoch")
    left = [run._guards()[0], *((each.pid, each.start) for each in processes.tree(run._guards()[0][0]))]
    assert len(left) >= 4, "a guard, an agent and two workers"
    run.stop()
    wait_until(lambda: not any(processes.is_alive(*each) for each in left), what="the end of all processes")
    assert run.status == "stopped"


def test_warm_kernel_is_interrupted_and_ends_with_its_client(
    warm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specify_kernel(tmp_path / "jupyter", os.environ[STARTER].split())
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    manager, client = start_new_kernel(startup_timeout=HANG_S, kernel_name="python3")
    try:
        found: dict[str, str] = {}
        client.execute_interactive(
            "import os, sys; print(os.getpid(), 'torch' in sys.modules)",
            output_hook=lambda message: found.update(message["content"]),
            timeout=HANG_S,
        )
        pid, imported = found["text"].split()
        assert imported == "True" and int(pid) != manager.provisioner.pid
        answer = client.execute("print('runs')\nwhile True: pass")
        while client.get_iopub_msg(timeout=HANG_S)["content"].get("text") != "runs\n":
            pass
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=HANG_S)
        assert reply["parent_header"]["msg_id"] == answer and reply["content"]["ename"] == "KeyboardInterrupt"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    wait_until(lambda: not Path("/proc", pid).exists(), what="the end of the kernel")


def test_starter_prefixes_the_command_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTER, "env GNNQLAB_MARK='two words'")
    run = gq.launch("sbm:60,3,6", **SETTINGS, epochs=10**6, out=tmp_path)
    with run:
        wait_until(lambda: run.epoch >= 1, what="the first epoch")
        assert b"GNNQLAB_MARK=two words" in Path(f"/proc/{run._guards()[0][0]}/environ").read_bytes()
