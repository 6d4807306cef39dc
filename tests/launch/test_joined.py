"""One command per machine, typed with its number: it trains as a plain launch, or all machines get one error."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.launch import Run, joined
from gnnqlab.launch.joined import JoinedMachine, _Refusal, join_machines
from gnnqlab.launch.same_versions import own_versions
from tests.launch.conftest import Bench
from tests.launch.test_cluster import free_port
from tests.launch.test_existing_rank import SETTINGS, losses
from tests.launch.test_meeting import together
from tests.slow_down import HANG_S

GRAPH = "sbm:60,3,4"


def typed(bench: Bench, *words: str, workers: int = 2, nnodes: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """Run one command per machine on this one; return what each has printed."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SETTINGS, "workers": workers}.items()]
    port = free_port()
    command = [sys.executable, "-m", "gnnqlab", "train", *(words or ("--graph", GRAPH, *options))]
    command += ["--out", str(bench.root / "runs"), "--nnodes", str(nnodes), "--address", f"127.0.0.1:{port}", "--json"]
    machines = [
        subprocess.Popen(
            [*command, "--node-rank", str(node)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in reversed(range(nnodes))
    ]
    answers = [machine.communicate(timeout=HANG_S) for machine in machines]
    return [subprocess.CompletedProcess(machine.args, machine.returncode, *answer)
            for machine, answer in zip(machines, answers)][::-1]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "nnodes"), [(2, 2), (3, 3)])
def test_typed_machines_train_as_a_plain_launch(bench: Bench, workers: int, nnodes: int) -> None:
    plain = gq.launch(GRAPH, out=bench.root / "plain", wait=True, **{**SETTINGS, "workers": workers})
    first, *others = typed(bench, workers=workers, nnodes=nnodes)
    assert [machine.returncode for machine in (first, *others)] == [0] * nnodes, [first.stderr, others[0].stderr]
    summary = json.loads(first.stdout.splitlines()[-1])
    [folder] = (bench.root / "runs").iterdir()
    assert summary["workers"] == workers and Run(folder).status == "finished"
    assert losses(folder) == losses(plain.folder)
    for node, machine in enumerate(others, start=1):
        assert json.loads(machine.stdout) == {"run": str(folder), "node_rank": node}
        assert machine.stderr.endswith(f"{folder.name}: finished\n")
    assert f"machine 0 of {nnodes} waits for the other machines at 127.0.0.1:" in first.stderr
    assert (folder / "report.html").exists() and (folder / "token").stat().st_mode & 0o077 == 0
    machines = Run(folder).machines
    assert machines is not None and len(machines.links) == nnodes * (nnodes - 1) // 2


@pytest.mark.slow
def test_typed_machines_resume(bench: Bench) -> None:
    root = bench.root / "runs"
    whole = gq.launch(GRAPH, out=bench.root / "whole", wait=True, **SETTINGS)
    old = gq.launch(GRAPH, out=bench.root / "old", wait=True, **{**SETTINGS, "epochs": 4})
    machines = typed(bench, "--resume", str(old.folder), "--epochs", "6")
    assert [machine.returncode for machine in machines] == [0, 0], machines[0].stderr
    [folder] = root.iterdir()
    assert losses(folder) == losses(whole.folder)


def machine(
    bench: Bench, node: int, port: int, *, root: str = "runs", address: str = "127.0.0.1", **changes: Any
) -> JoinedMachine:
    interface = changes.pop("interface", None)
    config = gq.configure(GRAPH, workers=2, **changes)
    threading.current_thread().name = f"machine {node}"
    return join_machines(
        config, nnodes=2, node=node, address=address, port=port, interface=interface, root=bench.root / root
    )


def errors(bench: Bench, first: dict[str, Any], second: dict[str, Any]) -> str:
    """Return the one error of two machines, which leave no run."""
    port = free_port()
    found = together(lambda: machine(bench, 0, port, **first), lambda: machine(bench, 1, port, **second))
    assert all(isinstance(each, RuntimeError) for each in found), found
    assert not list(bench.root.glob("runs/*")) and not list(bench.root.glob("other/*"))
    [text] = {str(each) for each in found}
    return text


def test_machines_with_different_settings_get_one_error(bench: Bench) -> None:
    text = errors(bench, {"lr": 0.1}, {"lr": 0.2})
    assert text.startswith(
        "all machines must get the same settings, got train.lr 0.1 on machine 0 and 0.2 on machine 1"
    )


def test_machine_that_cannot_work_ends_all(bench: Bench) -> None:
    text = errors(bench, {}, {"interface": "no9"})
    assert text.startswith("machine 1 (") and "interface must be one of this machine" in text and "got 'no9'" in text


def test_machines_without_a_shared_folder_get_one_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "wait_until_exists", Path.exists)
    port = free_port()
    found = together(lambda: machine(bench, 0, port), lambda: machine(bench, 1, port, root="other"))
    for each in found:
        assert "machines of one run must share its folder, got" in str(each) and "machine(s) 1 do not find it" in str(
            each
        )
    assert not list(bench.root.glob("runs/*"))


def test_machines_with_different_versions_get_one_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def versions() -> dict[str, str]:
        return own_versions() | ({"torch": "0.1"} if threading.current_thread().name == "machine 1" else {})

    monkeypatch.setattr(joined, "own_versions", versions)
    assert "machines of one run must have the same version of torch, got 0.1 on" in errors(bench, {}, {})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_wrong_address_ends_both_with_one_cause(bench: Bench, order: tuple[int, int]) -> None:
    """Without waiting for the end of any limit."""
    address = "127.0.0.1"
    with socket.socket() as taken:  # by another program, which the second machine reaches
        taken.bind((address, 0))
        taken.listen()
        port = taken.getsockname()[1]
        if order == (0, 1):
            causes = together(lambda: machine(bench, 0, port))
            [later] = together(lambda: machine(bench, 1, port))
        else:
            taken.close()  # nothing answers there
            [later, *causes] = together(
                lambda: machine(bench, 1, port, interface="lo", address="127.0.0.1"),
                lambda: refused(bench, port),
            )
    assert "port must be free on the first machine" in str(causes[0])
    assert str(later) == f"machine 0: {causes[0]}"


def refused(bench: Bench, port: int) -> Any:
    """Return the error of a first machine whose port is taken."""
    _Refusal(bench.root / "runs", "127.0.0.1", port).write(text := "port must be free on the first machine, got it")
    raise ValueError(text)


def test_machines_that_agree_get_the_same_run(bench: Bench) -> None:
    port = free_port()
    first, second = together(lambda: machine(bench, 0, port), lambda: machine(bench, 1, port))
    assert first.folder == second.folder and first.folder.parent == bench.root / "runs"
    assert second.options == ("--machines=2", "--node=1") and f"--rdzv-endpoint=127.0.0.1:{port}" in second.workers
    assert first.environment["GLOO_SOCKET_IFNAME"] == "lo"
    for path in bench.root.glob("runs/*/tmp"):
        for each in path.iterdir():
            each.unlink()
        path.rmdir()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"workers": 3}, "workers must be a multiple of the machines, got 3 workers on 2 machines"),
        ({"workers": 2, "retries": 1}, "restarts work on one machine only, got retries 1"),
        ({"workers": 4, "link": "1gbit"}, "emulated hosts work on one machine only, got hosts 2"),
    ],
)
def test_impossible_machines_are_refused_without_waiting(settings: dict[str, Any], text: str) -> None:
    config = gq.configure(GRAPH, **settings)
    with pytest.raises(ValueError, match=text):
        join_machines(config, nnodes=2, node=0, address="127.0.0.1", port=1)
    assert dataclasses.is_dataclass(config)
