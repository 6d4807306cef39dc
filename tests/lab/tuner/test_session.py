"""Runs that the tuner launches: their status line, their settings, and predicted and measured values."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gnnqlab.lab.figures.updates import Updater
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.session import OwnRecords, TunerSession
from gnnqlab.launch.slurm import Slurm
from gnnqlab.run.run import Run
from tests.slow_down import HANG_S, wait_until


class FakeRun:
    """A run that a test trains to a given epoch."""

    id = "20260101-000000-adaqp-abcd"

    def __init__(self, config: Any, folder: Path) -> None:
        self.config, self.folder, self.status = config, folder, "running"
        self.errors: list[Any] = []
        self.pulses: list[Any] = []
        self.sent_changes: list[dict[str, Any]] = []
        self.path = folder / "records-rank0.jsonl"
        self.path.write_text("")

    def train(self, epochs: int, seconds: float = 0.5) -> None:
        start = self.path.read_text().count("\n")
        with open(self.path, "a") as file:
            for epoch in range(start, start + epochs):
                record = {"epoch": epoch, "epoch_s": seconds, "assign_s": 0.0, "time_s": seconds * (epoch + 1)}
                file.write(json.dumps({**record, "val_score": None if epoch % 2 else 0.9}) + "\n")

    def control(self, **changes: Any) -> int:
        self.sent_changes.append(changes)
        return len(self.sent_changes)

    def stop(self) -> None:
        self.status = "stopped"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TunerSession:
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    model = TunerModel("sbm:200,4,8", workers=2, hidden=8, layers=2, link="loopback", epochs=20)
    return TunerSession(model, start=lambda config: FakeRun(config, tmp_path))  # type: ignore[arg-type, return-value]


def test_before_the_first_run(session: TunerSession) -> None:
    assert "No run yet" in session.sentence and session.measurement is None and not session.under_way
    session.stop()
    assert session.steer() == {}


def test_session_sentence_shows_run_progress_and_a_second_run_is_refused(session: TunerSession) -> None:
    run: Any = session.train()
    assert run.config == session.model.config and session.under_way
    run.train(7)
    words = session.sentence
    assert "epoch 7/20 · 00:06 left · validation 90.0 % · measured 500 ms per epoch, estimated" in words
    with pytest.raises(RuntimeError, match="a tuner trains one run at a time, got run .* in progress; stop it"):
        session.train()
    session.stop()
    assert "stopped" in session.sentence and "left" not in session.sentence and not session.under_way


def test_next_run_goes_to_the_queue_if_it_was_chosen(
    session: TunerSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[Any] = []

    def submit(place: Slurm, run: Run) -> Any:
        submitted.append((place.workers_per_node, run.status, run.config))
        return FakeRun(run.config, tmp_path)

    monkeypatch.setattr(Slurm, "submit", submit)
    session.in_queue = True
    run: Any = session.train()
    assert submitted == [(2, "prepared", session.model.config)] and session.under_way
    run.stop()
    session.in_queue = False
    session.train()
    assert len(submitted) == 1


def test_speed_ups_need_a_timed_vanilla(session: TunerSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TunerModel, "is_timed", True)
    run: Any = session.train()
    vanilla_s = session.model.forecast.vanilla_s
    run.train(10, seconds=vanilla_s / 2)
    session.sentence  # noqa: B018  (reads)
    assert session.speedup == pytest.approx(2) and "measured 2.00×, predicted" in session.sentence


def test_steer_sends_only_changed_steerable_settings_once(session: TunerSession) -> None:
    run: Any = session.train()
    assert session.steer() == {}
    session.model.choose(lam=0.9, period=5, bit_widths=(4, 8), hidden=16)
    assert session.steer() == {"lam": 0.9, "period": 5, "bit_widths": (4, 8)}
    assert session.steer() == {} and len(run.sent_changes) == 1
    run.stop()
    session.model.choose(lam=0.1)
    assert session.steer() == {} and len(run.sent_changes) == 1


def test_measurement_is_hidden_when_the_settings_differ_from_the_run(session: TunerSession) -> None:
    run: Any = session.train()
    assert "starting its workers" in session.sentence, "there is a sentence before the first epoch too"
    run.train(4)
    session.model.choose(lam=0.1)
    assert session.measurement is not None, "a run that trains follows"
    assert session.steer() == {"lam": 0.1}
    run.status = "finished"
    assert session.measurement is not None and "other settings" not in session.sentence
    session.model.choose(lam=0.9)
    assert session.measurement is None and "with other settings than the current ones" in session.sentence
    session.model.choose(lam=0.1)
    assert session.measurement is not None
    run.status = "running"
    session.model.choose(hidden=16)
    assert session.measurement is None, "another model applies from the next run on"


def test_a_failure_is_named(session: TunerSession) -> None:
    run: Any = session.train()
    run.status, run.errors = "failed", [SimpleNamespace(cause="rank 1 was killed (SIGKILL)")]
    assert "failed" in session.sentence and session.sentence.endswith("rank 1 was killed (SIGKILL)")


def test_records_are_read_on_and_half_lines_wait(tmp_path: Path) -> None:
    path = tmp_path / "records-rank0.jsonl"
    growing = OwnRecords(path)
    assert not growing.poll() and growing.median_s() is None and growing.remaining_s(9) is None
    lines = [
        json.dumps({"epoch": epoch, "epoch_s": 1.0 + epoch, "assign_s": 0.5, "time_s": 2.0 * epoch, "val_score": None})
        for epoch in range(5)
    ]
    path.write_text("\n".join(lines)[:-4])
    assert growing.poll() and growing.epochs == [0, 1, 2, 3]
    path.write_text("\n".join(lines) + "\n")
    assert growing.poll() and growing.epochs == [0, 1, 2, 3, 4] and growing.epoch_s[4] == 4.5
    assert not growing.poll() and growing.median_s() == 4.0 and growing.remaining_s(10) == 10.0
    with open(path, "a") as file:  # a line truncated by a full disk is skipped, the lines after it count
        file.write('{"epoch":5,"epo\n' + lines[4].replace('"epoch": 4', '"epoch": 6') + "\n")
    assert growing.poll() and growing.epochs == [0, 1, 2, 3, 4, 6]


def test_updater_draws_once_for_all_calls_during_a_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnnqlab.lab.figures.updates._IDLE_S", 0.05)
    begun, go, drawn = threading.Event(), threading.Event(), []

    def draw() -> None:
        drawn.append(len(drawn))
        begun.set()
        go.wait(HANG_S)

    updater = Updater(draw)
    updater.request()
    assert begun.wait(HANG_S)
    for _ in range(10):
        updater.request()
    assert updater.is_requested
    go.set()
    wait_until(lambda: updater._thread is None or len(drawn) > 2, what="the thread ends once nothing is left to draw")
    assert drawn == [0, 1]
