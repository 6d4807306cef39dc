"""Runs over emulated hosts: the same results, bytes that really cross the wire, and nothing left after any end."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.errors import WorkerFailed
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.launch import hosts
from gnnqlab.launch.hosts import enter
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.run import Run
from gnnqlab.train.link import Link
from tests.launch.conftest import GONE_S, REPOSITORY, Bench, wait_until
from tests.slow_down import HANG_S


def namespaces(run: Run) -> list[Path]:
    """Return the existing hosts of the run."""
    names = Link.from_folder(run.folder, 2).namespaces
    assert len(names) == 2
    return [path for name in names if (path := Path("/run/netns", name)).exists()]


def gone(run: Run) -> bool:
    """Return True if no host and no guard is left."""
    return not namespaces(run) and not any(processes.is_alive(pid, start) for pid, start in run._guards())


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    yield
    for folder in (tmp_path / "runs").iterdir():
        wait_until(functools.partial(gone, Run(folder)), promised_s=GONE_S, what="the end of hosts and guard")


def train(root: Path, **settings: object) -> Run:
    return gq.launch("digits", workers=2, epochs=4, evaluate_every=0, out=root, wait=True, **settings)  # type: ignore[arg-type]


@pytest.mark.usefixtures("possible", "nothing_left")
def test_a_run_over_two_hosts_gives_the_results_of_a_loopback(tmp_path: Path) -> None:
    system = {"system": "fixed-bits", "bits": 4}
    apart = train(tmp_path / "runs", link="100mbit", **system)
    together = train(tmp_path / "together", **system)
    losses = [run.records.pivot(index="epoch", columns="rank", values="loss").to_numpy() for run in (apart, together)]
    assert (losses[0] == losses[1]).all()
    summary = apart.summary
    assert (summary["link"], summary["hosts"]) == ("100mbit emulated, 2 hosts", 2)
    assert together.summary["link"] == "loopback"
    assert summary["link_bytes_per_s"] == 12.5e6
    assert 0 < summary["goodput_bytes_per_s"] / 12.5e6 < 1.05  # however busy the machine is
    # Everything crossed the wire: messages, and the gradients, which two workers exchange once in each direction. A
    # busy machine may count bytes in the next epoch, and those of the last of four epochs not at all.
    counted = apart.records[["bytes_payload", "bytes_params", "bytes_gradients"]].sum().sum()
    assert 0.75 < apart.records["bytes_wire"].sum() / counted < 1.1
    assert [event["event"] for event in apart.events if "link" in event["event"]] == ["emulated link"]
    assert together.records["bytes_wire"].isna().all()


def test_paced_run_has_the_results_of_loopback_and_records_its_link(tmp_path: Path) -> None:
    paced = train(tmp_path / "runs", link="50mbit", wire="paced")
    together = train(tmp_path / "together")
    assert paced.records["loss"].tolist() == together.records["loss"].tolist()
    assert paced.summary["link"] == "50mbit paced, 2 hosts"
    assert Link.from_folder(paced.folder, 2).reason == "requested by the setting wire"
    # Four messages per epoch and worker, 250 kB in all, at 6.25 MB/s.
    sent = paced.records.query("epoch > 0 and rank == 0")["bytes_payload"].median()
    assert paced.records.query("epoch > 0")["wire_s"].median() > 0.95 * sent / 6.25e6


def pipelined(root: Path, **settings: object) -> Run:
    """Train PipeGCN over a link on which its messages take longer than its computation."""
    system = replace(gq.systems.pipegcn(), partition=gq.partitioners.Random())
    launch = {"system": system, "workers": 2, "epochs": 16, "hidden": 64, "link": "50mbit", "out": root}
    return gq.launch("digits", **launch, **settings, wait=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", ["emulated", "paced"])
def test_a_pipelined_epoch_is_not_shorter_than_its_bytes(
    wire: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Over an emulated link it was shorter, by a fifth, if every epoch followed an evaluation."""
    if wire == "emulated":
        request.getfixturevalue("possible")
    run = pipelined(tmp_path / "runs", wire=wire)
    summary = run.summary
    assert summary["evaluate_every"] == 10
    # Half of the bytes are from one worker, which has a host's 6.25 MB/s alone: 0.12 s. The 2 % are bursts that a
    # shaper lets through early.
    wire_s = summary["bytes_sent"] / 2 / 6.25e6
    assert summary["epoch_s"] > 0.98 * wire_s
    records = run.records
    assert sorted(records.query("after_evaluation == 1")["epoch"].unique()) == [1, 11]
    by_itself = records.groupby("epoch")["epoch_s"].max()
    others = by_itself.drop([0, 1, 11])
    assert summary["epoch_s"] == others.median()
    # Time to accuracy counts each such epoch as the mean of its neighbours, except for the first, which includes the
    # setup.
    whole = by_itself[0] + others.sum() + others[2] + (others[10] + others[12]) / 2
    assert by_epoch(records)["train_s"].iloc[-1] == pytest.approx(whole)


def test_evaluation_after_every_pipelined_epoch_warns_about_epoch_times(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning,
        match=r"pipegcn need epochs that do not follow an evaluation.*, got evaluate_every 1; choose evaluate_every 10",
    ) as w:
        run = pipelined(tmp_path / "runs", evaluate_every=1, wire="paced")
    assert len(w) == 1
    summary = run.summary
    assert summary["epoch_s"] == run.records.query("epoch > 0").groupby("epoch")["epoch_s"].max().median()


def test_auto_wire_without_emulation_rights_is_paced_and_records_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("emulated hosts need the right to run 'ip netns add', got no")

    monkeypatch.setattr(hosts.EmulatedHosts, "up", refuse)
    launch = {"hosts": 2, "link": "1gbit", "wire": "auto"}
    link = hosts.RunLink(tmp_path, launch)
    link.up()
    found = Link.from_folder(tmp_path, 2)
    assert (found.label, found.reason[:14]) == ("1gbit paced, 2 hosts", "emulated hosts")
    assert link.spared == frozenset()
    link.down()
    with pytest.raises(RuntimeError, match="emulated hosts need the right to run"):
        hosts.RunLink(tmp_path, {**launch, "wire": "emulated"}).up()


def test_launch_with_emulated_wire_but_no_ip_command_raises_runtime_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="the guard of the run did not start.*emulated hosts need the command ip"):
        gq.launch("digits", link="1gbit", wire="emulated", out=tmp_path)


def test_a_host_that_is_gone_cannot_be_entered() -> None:
    with pytest.raises(RuntimeError, match="the emulated host gnnq-nowhere must be up, got No such file"):
        enter("gnnq-nowhere")


_LAUNCHER = """
import os, signal
from tests.launch.conftest import FAKE, config
from gnnqlab.launch import launch
run = launch(config(2, link="1gbit"), root={root!r}, fit=FAKE)
print(run.folder, flush=True)
signal.pause()
"""


@pytest.mark.usefixtures("possible", "nothing_left")
@pytest.mark.parametrize("victim", ["launcher", "guard", "worker"])
def test_namespaces_are_removed_after_launcher_guard_or_worker_is_killed(bench: Bench, victim: str) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    command = [sys.executable, "-c", _LAUNCHER.format(root=str(bench.root / "runs"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as launcher:
        try:
            assert launcher.stdout is not None
            run = bench.running(Run(launcher.stdout.readline().strip()))
            assert len(namespaces(run)) == 2
            known = files.read_json(run.folder / "guard.json")
            assert known is not None
            pids = {name: known[name][0] for name in ("launcher", "guard")} | {"worker": run._pulses()[0].pid}
            os.kill(pids[victim], signal.SIGKILL)
            wait_until(lambda: not namespaces(run), promised_s=GONE_S, what="the end of the hosts")
        finally:
            launcher.kill()
    if victim == "launcher":
        assert run.wait(timeout=HANG_S).status == "stopped"
    else:
        with pytest.raises(WorkerFailed):
            run.wait(timeout=HANG_S)
    run.stop()
