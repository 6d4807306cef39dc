"""Commands for several machines, printed from Python: as on the command line, with the same errors, and a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.cli import main
from gnnqlab.launch import Run
from gnnqlab.launch.machines import MachineLines
from tests.launch.test_cluster import free_port
from tests.slow_down import HANG_S


def test_they_are_those_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr("gnnqlab.launch.machines.new_id", lambda system: f"new-{system}")
    where = {"address": "10.1.2.3", "port": 29501, "interface": "eth1"}
    asked = {"system": "adaqp", "workers": 4, "epochs": 7, "lam": 0.25}
    lines = gq.launch.on_machines("digits", nnodes=2, out=tmp_path, **where, **asked)
    words = [word for name, value in {**where, **asked}.items() for word in (f"--{name}", str(value))]
    main(["train", "--graph", "digits", "--nnodes", "2", "--print-command", "--out", str(tmp_path), *words])
    assert capsys.readouterr().out == f"{lines}\n"
    assert len(lines.commands) == 2 and all("10.1.2.3:29501" in line for line in lines.commands)
    assert lines.folder == tmp_path / "new-adaqp" and str(lines.folder) in lines.requirement


def test_a_worker_a_machine_is_the_default() -> None:
    lines = gq.launch.on_machines("digits", nnodes=3, address="10.0.0.1")
    assert all("--nnodes=3 --nproc-per-node=1" in line for line in lines.commands)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 3}, "workers must be a multiple of the machines, got 3 workers on 2 machines"),
        ({"workers": 4, "link": "1gbit"}, "emulated hosts work on one machine only, got hosts 2"),
        ({"workers": 4, "retries": 2}, "restarts work on one machine only, got retries 2"),
        ({"system": "adapq"}, "adaqp"),
        ({"nnodes": 0, "workers": 4}, "nnodes must be at least 1, got 0"),
    ],
)
def test_invalid_machine_options_raise_value_error_and_write_no_files(tmp_path: Path, options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gq.launch.on_machines("digits", **{"nnodes": 2, "address": "10.0.0.1", "out": tmp_path / "runs", **options})
    assert not (tmp_path / "runs").exists()


def test_a_graph_in_memory_lies_on_the_shared_disk_and_the_run_is_found(tmp_path: Path) -> None:
    graph = gq.load("sbm:60,3,6", name="mine")
    where = {"address": "127.0.0.1", "interface": "lo", "port": free_port(), "out": tmp_path}
    lines = gq.launch.on_machines(graph, nnodes=2, epochs=3, layers=2, hidden=8, **where)
    with pytest.raises(FileNotFoundError, match="a run exists once its commands were started, got no folder"):
        _ = lines.run
    [kept] = (tmp_path / "graphs").glob("*/mine")
    assert str(kept) in lines.commands[0] and gq.load(kept).content_hash == graph.content_hash
    run = started(lines, tmp_path)
    assert run.status == "finished" and run.summary["epochs"] == 3
    assert torch.isfinite(run.predict()).all() and len(run.predict()) == graph.num_nodes


def started(lines: MachineLines, place: Path) -> Run:
    """Return the run once all its commands have ended, each started as on a machine of its own."""
    shell = {"shell": True, "cwd": place, "stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    machines = [subprocess.Popen(line, env=env, executable="/bin/bash", **shell) for line in lines.commands]
    for each in machines:
        _, errors = each.communicate(timeout=HANG_S)
        assert each.returncode == 0, errors
    return lines.run


def test_run_resumes_on_several_machines(tmp_path: Path) -> None:
    shape = {"layers": 2, "hidden": 8, "seed": 3, "workers": 2, "threads_per_worker": 1}
    whole = gq.launch("sbm:60,3,6", epochs=6, **shape, out=tmp_path, wait=True)
    old = gq.launch("sbm:60,3,6", epochs=4, checkpoint_every=2, **shape, out=tmp_path, wait=True)
    where = {"address": "127.0.0.1", "interface": "lo", "port": free_port()}
    lines = gq.launch.resume_on_machines(old, nnodes=2, epochs=6, **where)
    assert lines.folder.parent == tmp_path and not lines.folder.exists(), "nothing is copied before the start"
    run = started(lines, tmp_path)
    assert run.status == "finished" and list(run.records["epoch"].unique()) == [0, 1, 2, 3, 4, 5]
    [resumed] = [event for event in run.events if event["event"] == "resumed"]
    assert (resumed["of"], resumed["epoch"]) == (old.id, 4)
    assert (run.records.groupby("epoch")["loss"].first() == whole.records.groupby("epoch")["loss"].first()).all()
    again = started(lines, tmp_path)
    assert list(again.records["epoch"].unique()) == [0, 1, 2, 3, 4, 5], "its own history, not the old run's again"
    assert [event["event"] for event in again.events].count("resumed") == 1
    with pytest.raises(ValueError, match="has trained 4 epochs already, got epochs 4"):
        gq.launch.resume_on_machines(old, nnodes=2, **where)
    with pytest.raises(
        ValueError, match="nnodes must be at least 1, got 0; use gq.resume for a run on this machine only"
    ):
        gq.launch.resume_on_machines(old, nnodes=0, **where)


def test_machine_without_readable_checkpoints_refuses_to_resume(tmp_path: Path) -> None:
    words = ["--machines=2", "--node=1", "--config={}", f"--past={tmp_path}", "--from-epoch=4", str(tmp_path / "new")]
    command = [sys.executable, "-m", "gnnqlab.launch.guard", *words, "--", "true"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2 and not (tmp_path / "new").exists()
    assert f"must have checkpoints that this machine can read, got none in {tmp_path}" in ended.stderr


def test_an_untrainable_graph_is_refused(tmp_path: Path) -> None:
    bare = gq.Graph.from_edges([0, 1], [1, 2], num_nodes=3)
    with pytest.raises(ValueError, match="features"):
        gq.launch.on_machines(bare, nnodes=2, address="10.0.0.1", out=tmp_path)
    assert not list(tmp_path.iterdir())
