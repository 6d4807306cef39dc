"""Runs of a queue: submitit's own one on this machine, and SLURM's commands as scripts."""

import itertools
import json
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.cli import main
from gnnqlab.launch import Run
from gnnqlab.launch.slurm import JobTask, Slurm, lost_ranks, slurm_place
from gnnqlab.run import folder as files
from gnnqlab.run.job import Job, mark_queued, write_job
from tests.launch.conftest import Bench
from tests.launch.fakes import UNHURRIED
from tests.launch.test_existing_rank import SETTINGS, losses, prepared
from tests.slow_down import HANG_S, wait_until

TRAINING = {name: value for name, value in SETTINGS.items() if name != "workers"}


def test_number_of_workers_is_that_of_the_tasks() -> None:
    assert Slurm(nodes=2, workers_per_node=3).require_workers(None) == 6
    assert Slurm(time="1-02:03:30").minutes == 1563.5 and Slurm(time=7).minutes == 7


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"nodes": 0}, "nodes must be at least 1, got 0"),
        ({"nodes": 2, "local": True}, "the local queue has one machine, got nodes 2"),
        ({"time": "soon"}, "time must be minutes or a text such as 90m, 2h, H:MM:SS or D-HH:MM:SS, got 'soon'"),
        ({"time": 0}, "time must be above 0 minutes, got 0"),
    ],
)
def test_impossible_places_raise(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Slurm(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "workers", "place"),
    [
        ("slurm", 2, Slurm(workers_per_node=2)),
        ("slurm:nodes=2,partition=gpu,time=2h", 8, Slurm(nodes=2, workers_per_node=4, partition="gpu", time="2h")),
        ("slurm:workers-per-node=3,qos=low,exclusive", 2,
         Slurm(workers_per_node=3, options={"qos": "low", "exclusive": True})),
        ("slurm:local,time=30,nodelist=n7", 1, Slurm(local=True, time="30", options={"nodelist": "n7"})),
    ],
)  # fmt: skip
def test_place_of_the_command_line(text: str, workers: int, place: Slurm) -> None:
    assert slurm_place(text, workers) == place


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("pbs:nodes=2", "on must be slurm or slurm:NAME=VALUE,..., got 'pbs:nodes=2'"),
        ("slurm:partion=gpu", "options of sbatch, got 'partion'; did you mean partition"),
        ("slurm:nodes=two", "nodes of slurm must be a whole number, got 'two'"),
        ("slurm:nodes=3", "workers must be a multiple of the nodes, got 2 workers on 3 nodes; give another number"),
        ("slurm:time=soon", "time must be minutes or a text such as 90m"),
    ],
)
def test_wrong_place_of_the_command_line_is_refused(text: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--on", text])
    assert end.value.code == 2 and error in capsys.readouterr().err


def test_times_have_units() -> None:
    assert [Slurm(time=text).minutes for text in ("90", "90m", "1.5h", "2d")] == [90, 90, 90, 2880]


def test_lost_rank_is_one_whose_guard_has_not_ended(tmp_path: Path) -> None:
    seconds = itertools.count()
    settings = {"wait_s": 3.0, "clock": lambda: float(next(seconds))}
    for rank, state in enumerate(("failed", "running", "stopped")):
        (tmp_path / files.node_name("status", rank)).write_text(json.dumps({"state": state}))
    assert lost_ranks(tmp_path, 4, **settings) == [1]  # the fourth has never been started
    (tmp_path / "status-node1.json").write_text('{"state": "failed"}')
    assert lost_ranks(tmp_path, 4, **settings) == []


def attempt(bench: Bench, run: Run, epoch: int, states: tuple[str, str]) -> bool:
    """Return the answer of task 0 after its rank has failed in an epoch, with these states of both ranks."""
    for rank, state in enumerate(states):
        status = {"state": state, "epoch": epoch, "errors": []}
        (run.folder / files.node_name("status", rank)).write_text(json.dumps(status))
    return JobTask(str(run.folder))._requeue_after_loss(
        {"SLURM_PROCID": "0", "SLURM_JOB_ID": "17", "SLURM_NTASKS": "2"}
    )


def test_job_with_a_lost_rank_is_requeued_once_per_progress(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnnqlab.launch.slurm._LOST_S", 0.0)
    commands(bench, scontrol=f"echo $* >> {bench.root}/requeued", squeue='echo "PENDING|BeginTime"')
    run = queued(bench)
    assert not attempt(bench, run, 3, ("failed", "failed")) and not (bench.root / "requeued").exists()
    assert attempt(bench, run, 3, ("failed", "running"))
    assert (bench.root / "requeued").read_text() == "requeue 17\n" and run.status == "queued"
    [lost] = [event for event in run.events if event["event"] == "node lost"]
    assert lost["ranks"] == [1] and lost["epoch"] == 3
    assert not attempt(bench, run, 3, ("failed", "running")), "it failed there before"
    assert attempt(bench, run, 4, ("failed", "running"))


def test_contradicting_number_of_workers_raises(bench: Bench) -> None:
    with pytest.raises(ValueError, match="got workers 3 for 2 times 1; leave out workers"):
        gq.launch("digits", workers=3, on=Slurm(nodes=2))


def commands(bench: Bench, **answers: str) -> None:
    """Put scripts in the place of SLURM's commands."""
    folder = bench.root / "commands"
    folder.mkdir(exist_ok=True)
    for name, script in answers.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    bench.set(PATH=f"{folder}:/usr/bin:/bin")


def queued(bench: Bench) -> Run:
    folder = prepared(bench, 2)
    mark_queued(folder)
    write_job(folder, Job(queue="slurm", id="17", since=0.0))
    (folder / "tmp" / "reserve").unlink()
    (folder / "tmp").rmdir()
    return Run(folder)


def test_queued_run_names_the_reason(bench: Bench) -> None:
    commands(bench, squeue='[[ "$*" == *--jobs=17* ]] && echo "PENDING|Resources"')
    run = queued(bench)
    assert run.status == "queued" and run.cause.startswith("job 17 waits in the queue since ")
    assert run.cause.endswith(": Resources")
    commands(bench, squeue='echo "RUNNING|None"')
    assert (Run(run.folder).status, Run(run.folder).cause) == ("starting", "job 17 is running, its ranks start")
    commands(bench, squeue="echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert Run(run.folder).status == "failed"
    assert "job 17 has left the queue before its ranks had started" in Run(run.folder).cause
    commands(bench, squeue="echo 'Unable to contact slurm controller' >&2; exit 1")
    assert Run(run.folder).status == "queued"


def test_stop_cancels_a_queued_job(bench: Bench) -> None:
    commands(bench, squeue='echo "PENDING|Priority"', scancel=f"echo $1 > {bench.root}/cancelled")
    run = queued(bench).stop()
    assert (bench.root / "cancelled").read_text() == "17\n"
    assert (run.status, run.cause) == ("stopped", "job 17 was cancelled")


def test_stop_names_a_refusal(bench: Bench) -> None:
    commands(bench, squeue='echo "PENDING|Priority"', scancel="echo 'Access denied' >&2; exit 1")
    with pytest.raises(RuntimeError, match="scancel must end job 17, got Access denied; end it by hand"):
        queued(bench).stop()


def test_interrupted_run_counts_as_queued_between_attempts(bench: Bench) -> None:
    commands(bench, squeue='echo "RUNNING|None"')
    run = queued(bench)
    status = {"state": "stopped", "cause": "interrupted", "signal": 12, "epoch": 3, "errors": []}
    (run.folder / "status.json").write_text(json.dumps(status))
    assert (run.status, run.cause) == ("queued", "job 17 goes back into the queue")
    (run.folder / "status.json").write_text(json.dumps({**status, "signal": 15}))
    assert run.status == "stopped"


def test_queue_without_slurm_is_refused(bench: Bench) -> None:
    pytest.importorskip("submitit")
    commands(bench)
    bench.set(PATH=bench.root / "commands")
    with pytest.raises(RuntimeError, match='the queue must accept the job of run .*Could not detect "srun"'):
        gq.launch("sbm:60,3,4", out=bench.root / "runs", on=Slurm(), **TRAINING)
    [run] = gq.runs(bench.root / "runs")
    assert run.status == "stopped"


@pytest.mark.slow
def test_command_line_submits_and_returns(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("submitit")
    words = ["--graph", "sbm:60,3,4", "--epochs", "3", "--hidden", "8", "--out", str(bench.root / "runs")]
    main(["train", *words, "--workers", "3", "--on", "slurm:local", "--json"])
    answer = json.loads(capsys.readouterr().out)
    run = Run(answer["run"])
    assert answer["status"] in ("queued", "starting", "running") and ":" in answer["job"]
    assert run.wait(HANG_S).status == "finished" and run.summary["workers"] == 3


@pytest.mark.slow
def test_local_queue_trains_stops_and_requeues(bench: Bench) -> None:
    pytest.importorskip("submitit")
    root: Path = bench.root / "runs"
    plain = gq.launch("sbm:60,3,4", out=root, workers=2, wait=True, **TRAINING)
    run = gq.launch("sbm:60,3,4", out=root, on=Slurm(workers_per_node=2, local=True), **TRAINING)
    assert run.status in ("queued", "starting", "running")
    assert run.wait(HANG_S).status == "finished" and losses(run.folder) == losses(plain.folder)
    with pytest.warns(UserWarning, match="was started by a queue and resumes on this machine only, with all its 2"):
        gq.resume(run, epochs=8, wait=True)

    endless = {**TRAINING, "epochs": 1_000_000, "observers": UNHURRIED, "checkpoint_every": 1000}
    # The signal comes 15 s after the start of each attempt.
    place = Slurm(workers_per_node=2, local=True, time=1, signal_delay_s=30)
    long = gq.launch("sbm:60,3,4", out=root, on=place, **endless)
    wait_until(lambda: '"event": "queued"' in (long.folder / "events.jsonl").read_text().partition("queued")[2],
               what="the second attempt")  # fmt: skip
    lines = (long.folder / "records-rank0.jsonl").read_text().splitlines()
    epoch = max(json.loads(line)["epoch"] for line in lines if line.endswith("}"))
    wait_until(lambda: long.epoch > epoch, what="an epoch of the second attempt")
    again = Run(long.folder)  # as from another kernel
    assert again.status == "running"
    assert again.stop(HANG_S).status == "stopped" and "interrupted by SIGTERM" in again.cause
    found = losses(long.folder)[0]
    assert found[:6] == losses(plain.folder)[0] and len(found) > epoch
