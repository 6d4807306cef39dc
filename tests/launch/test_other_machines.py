"""A machine of a run ends soon after another one has failed, with its cause."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gnnqlab.launch.other_machines import OtherMachines
from gnnqlab.run import folder as files
from tests.launch.conftest import config
from tests.slow_down import HANG_S

FAILED = {"state": "failed", "cause": "no port", "time": 7.0}


def test_a_failure_counts_after_some_seconds_unless_it_is_of_an_earlier_start(tmp_path: Path) -> None:
    first = OtherMachines(tmp_path, 1, 3)
    assert first.failure(10.0) == ""
    files.write_json(tmp_path / "status-node2.json", FAILED)
    assert [first.failure(now) for now in (11.0, 13.0, 15.0)] == ["", "", "machine 2 has failed: no port"]
    files.write_json(tmp_path / "status-node1.json", {"state": "failed", "time": 8.0})
    again = OtherMachines(tmp_path, 1, 3)
    assert [again.failure(now) for now in (20.0, 30.0)] == ["", ""]
    files.write_json(tmp_path / "status-node2.json", FAILED | {"time": 9.0})
    assert [again.failure(now) for now in (31.0, 40.0)] == ["", "machine 2 has failed: no port"]
    files.write_json(tmp_path / "status-node2.json", {"state": "running", "time": 9.0})
    assert again.failure(50.0) == ""


def guard(folder: Path, *, node: int, interface: str = "lo", endpoint: str = "") -> subprocess.CompletedProcess[str]:
    words = ["--machines=2", f"--node={node}", f"--config={json.dumps(config(2).to_json())}", str(folder)]
    waiting = ["sh", "-c", f"sleep {10 * HANG_S}", f"--rdzv-endpoint={endpoint}"]  # as a torchrun whose peer is missing
    command = [sys.executable, "-m", "gnnqlab.launch.guard", *words, "--", *waiting]
    environment = {"GLOO_SOCKET_IFNAME": interface, "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S)


def test_both_machines_end_with_one_cause_if_an_interface_is_missing(tmp_path: Path) -> None:
    refused = guard(tmp_path / "run", node=0, interface="no9")
    assert refused.returncode == 2 and "interface must be one of this machine, lo" in refused.stderr
    other = guard(tmp_path / "run", node=1)
    assert other.returncode == 1
    cause = str((files.read_json(tmp_path / "run" / "status-node1.json") or {})["cause"])
    assert cause.startswith("machine 0 has failed: interface must be one of") and "got 'no9'" in cause


def test_both_machines_end_with_one_cause_if_the_address_is_wrong(tmp_path: Path) -> None:
    refused = guard(tmp_path / "run", node=0, endpoint="192.0.2.1:29500")
    assert refused.returncode == 2 and "address must be one of the first machine, got 192.0.2.1" in refused.stderr
    assert guard(tmp_path / "run", node=1, endpoint="192.0.2.1:29500").returncode == 1
    cause = str((files.read_json(tmp_path / "run" / "status-node1.json") or {})["cause"])
    assert cause.startswith("machine 0 has failed: address must be one of the first machine, got 192.0.2.1")
