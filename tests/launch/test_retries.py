"""Restarts after a failure: their number and pauses, what remains of the records, and losses identical to the bit."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.errors import WorkerFailed
from gnnqlab.launch.retries import Retries, clear_attempt
from gnnqlab.run import folder as files
from gnnqlab.train.records.history import trim_records
from tests.launch.test_signals import losses
from tests.slow_down import HANG_S

SETTINGS = {"layers": 2, "hidden": 8, "workers": 2, "epochs": 8, "checkpoint_every": 3}


def test_pauses_double_up_to_a_minute() -> None:
    retries = Retries(9)
    assert [retries.pause_s(epoch) for epoch in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert retries.pause_s(9) is None and retries.refusal == "its 9 restart(s) are used"


def test_second_failure_before_the_first_epoch_is_final() -> None:
    retries = Retries(3)
    assert retries.pause_s(-1) == 1 and retries.pause_s(-1) is None
    assert retries.refusal == "it fails for the second time before its first epoch"
    assert Retries(0).pause_s(3) is None


def test_records_are_trimmed_to_the_checkpoint(tmp_path: Path) -> None:
    epochs = [{"epoch": epoch, "loss": 1.0} for epoch in range(6)]
    assignments = [{"epoch": 2, "from_epoch": 3}, {"epoch": 3, "from_epoch": 4}]
    for name, lines in (("records-rank1", epochs), ("assignments", assignments)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text + '{"epoch": 6, "lo')  # killed while writing
    trim_records(tmp_path, 1, 4)
    kept = (tmp_path / "records-rank1.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in kept] == [0, 1, 2, 3]
    trim_records(tmp_path, 0, 4)
    assert len((tmp_path / "assignments.jsonl").read_text().splitlines()) == 2  # for epoch 4, decided after epoch 3
    trim_records(tmp_path, 0, 3)
    assert len((tmp_path / "assignments.jsonl").read_text().splitlines()) == 1


def test_reports_of_an_attempt_are_kept_under_other_names(tmp_path: Path) -> None:
    folder = files.create(tmp_path, "run")
    for name in ("heartbeat/rank0", "errors/rank0.json", "tmp/unfinished"):
        (folder / name).touch()
    clear_attempt(folder, 1)
    left = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*"))
    assert left == ["errors/attempt1-rank0.json", f"tmp/{files.RESERVE}"]


def launched(root: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, object] | None, retries: int = 3) -> gq.Run:
    if fault is None:
        monkeypatch.delenv("GNNQLAB_FAULT", raising=False)
    else:
        monkeypatch.setenv("GNNQLAB_FAULT", json.dumps(fault))
    return gq.launch("sbm:60,3,6", out=root, retries=retries, **SETTINGS)


def test_killed_worker_is_replaced_and_losses_are_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    straight_run = launched(tmp_path, monkeypatch, None).wait()
    fault = {"kind": "kill", "rank": 1, "phase": "wait", "epoch": 4}
    run = launched(tmp_path, monkeypatch, fault).wait(timeout=HANG_S)
    assert run.status == "finished" and losses(run) == losses(straight_run)
    assert run.records["rank"].tolist().count(1) == SETTINGS["epochs"]
    (event,) = [event for event in run.events if event["event"] == "restarting"]
    assert event["epoch"] == 4 and event["text"].startswith("rank 1 was killed (signal 9, SIGKILL) in epoch 4")


def test_second_failure_at_the_same_epoch_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"kind": "exit", "rank": 0, "phase": "compute", "epoch": 4, "repeated": True}
    run = launched(tmp_path, monkeypatch, fault)
    with pytest.raises(WorkerFailed, match=r"exited with code 3 .*; it fails for the second time in epoch 4"):
        run.wait(timeout=HANG_S)
    assert [event["event"] for event in run.events].count("restarting") == 1


@pytest.mark.slow
def test_random_deaths_leave_the_losses_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(7)
    straight_losses = losses(launched(tmp_path, monkeypatch, None).wait())
    for _ in range(10):
        phase = draw.choice(["load", "init", "compute", "encode", "wait", "reduce", "checkpoint"])
        epoch = draw.randrange(8) if phase not in ("load", "init", "checkpoint") else None
        fault = {"kind": draw.choice(["kill", "segv", "exit"]), "rank": draw.randrange(2), "phase": phase}
        run = launched(tmp_path, monkeypatch, {**fault, "epoch": epoch}).wait(timeout=HANG_S)
        assert run.status == "finished" and losses(run) == straight_losses, fault
