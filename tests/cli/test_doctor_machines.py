"""`gnnqlab doctor --nodes`: the same command on each machine, and the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gnnqlab import cli
from tests.launch.test_cluster import free_port
from tests.slow_down import HANG_S


def examined(*roots: Path) -> list[subprocess.CompletedProcess[str]]:
    command = [sys.executable, "-m", "gnnqlab", "doctor", "--port", str(free_port()), "--json"]
    command += ["--nodes", ",".join(["127.0.0.1"] * len(roots))]
    machines = [
        subprocess.Popen(
            [*command, "--node-rank", str(node), "--out", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node, root in enumerate(roots)
    ]
    answers = [machine.communicate(timeout=HANG_S) for machine in machines]
    return [subprocess.CompletedProcess("", machine.returncode, *answer) for machine, answer in zip(machines, answers)]


@pytest.mark.slow
def test_machines_get_the_same_rows(tmp_path: Path) -> None:
    machines = examined(tmp_path / "a", tmp_path / "a", tmp_path / "a")
    assert [machine.returncode for machine in machines] == [0, 0, 0], machines[0].stderr
    tables = [json.loads(machine.stdout.splitlines()[-1])["checks"] for machine in machines]
    assert tables[0] == tables[1] == tables[2]
    checks = {row["check"]: row for row in tables[0]}
    assert {f"link {i} to {j}" for i, j in ((0, 1), (0, 2), (1, 2))} <= checks.keys()
    assert all(checks[name]["ok"] == "yes" for name in ("shared folder", "versions", "name 127.0.0.1"))
    assert " bit/s" not in checks["link 0 to 1"]["found"] and "bit/s, " in checks["link 0 to 1"]["found"]


@pytest.mark.slow
def test_folder_that_is_not_shared_is_a_row(tmp_path: Path) -> None:
    first, second = examined(tmp_path / "a", tmp_path / "b")
    for machine in (first, second):
        rows = json.loads(machine.stdout.splitlines()[-1])["checks"]
        [row] = [row for row in rows if row["check"] == "shared folder"]
        assert row["ok"] == "no" and "rank(s) 1 do not find the file of rank 0" in row["way_out"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nodes", "a,b"], "each machine of --nodes starts this command with its number, got no --node-rank"),
        (["--node-rank", "1"], "--node-rank is a number in --nodes, got 1 without; add --nodes"),
        (["--nodes", "a", "--node-rank", "0"], "node-rank must be a number below the machines, of which there are at"),
        (["--nodes", "a,b", "--node-rank", "2"], "got 2 of 2; name all of them in --nodes"),
        (["--nodes", "127.0.0.1,b", "--node-rank", "0", "--interface", "no9"], "interface must be one of this machine"),
        (["--nodes", "192.0.2.1,b", "--node-rank", "0"], "192.0.2.1"),
    ],
)
def test_wrong_numbers_are_refused(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor", *words])
    assert end.value.code == 2 and text in capsys.readouterr().err
