"""The live model of a growing folder."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training import live_model
from gnnqlab.lab.training.live_model import GrowingColumns
from gnnqlab.lab.training.live_views import live_values
from gnnqlab.run.folder import append_event
from tests.lab.synthetic_folder import Folder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the clock of the live model by one that a test advances."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(live_model, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_live_model_reads_on_and_names_long_epochs(make: Callable[..., Folder], clock: SimpleNamespace) -> None:
    folder = make()
    model = folder.model
    assert not model.poll() or model.status.state == "running"
    assert model.recorded_epochs == 0 and "epoch 0/100" in model.sentence and model.remaining_s is None
    folder.write(range(4))
    assert model.poll() and model.recorded_epochs == 4
    folder.write(range(4, 6), ranks=[0])
    assert model.poll() and model.recorded_epochs == 4, "worker 1 has not written epoch 4"
    assert not model.poll()
    assert model.records[0]["loss"].tolist() == [2.0 / (epoch + 1) for epoch in range(6)]
    assert (
        model.sentence
        == "run 20260101-000000-run · running · epoch 4/100 · 00:09 left · loss 0.3333 · validation 25.0 %"
    )
    clock.now += live_model._SHORT_EPOCH_S
    model.poll()
    assert "epoch 4/100" in model.sentence and "starting its workers" in model.sentence, "no epoch ended for a while"


def test_torn_lines_are_read_when_they_are_whole(make: Callable[..., Folder]) -> None:
    folder = make(workers=1)
    model = folder.model
    folder.write(range(2))
    path = folder.path / "records-rank0.jsonl"
    text = path.read_text()
    path.write_text(text[:-30])
    model.poll()
    assert len(model.records[0]) == 1
    path.write_text(text)
    model.poll()
    assert model.records[0]["epoch"].tolist() == [0, 1]


def test_new_live_model_has_the_same_values_as_an_incremental_one(make: Callable[..., Folder]) -> None:
    folder = make()
    first = folder.model
    for begin in range(0, 20, 5):
        folder.write(range(begin, begin + 5))
        first.poll()
    second = folder.read()
    assert live_values(first) == live_values(second)


def test_failed_or_stalled_worker_is_reported_at_the_next_poll(make: Callable[..., Folder]) -> None:
    folder = make()
    model = folder.read()
    assert model.under_way and model.trouble == ""
    folder.state("stalled", "rank 1 stands still in epoch 3")
    assert model.poll_status() and model.trouble == "rank 1 stands still in epoch 3" and model.under_way
    folder.state("running")
    append_event(folder.path, "slow", text="rank 0 computes for 40 s")
    assert model.poll_status() and model.trouble == "rank 0 computes for 40 s"
    append_event(folder.path, "recovered")
    assert model.poll_status() and model.trouble == ""
    folder.state("failed", "rank 1 was killed by SIGKILL in epoch 3")
    assert model.poll_status() and not model.under_way
    assert model.sentence.endswith("rank 1 was killed by SIGKILL in epoch 3")
    assert not model.poll_status(), "no change"


def test_epochs_of_long_runs_are_passed_over_among_messages_only(make: Callable[..., Folder]) -> None:
    folder = make(epochs=3000)
    model = folder.read(range(3000))
    assert len(model.records[0]) == 3000 == model.recorded_epochs
    epochs = sorted(model.traffic[0].elements)
    assert 64 <= len(epochs) <= 1024 and epochs[0] == 0 and epochs[-1] == 2999
    folder.write(range(3000, 6000))
    model.poll()
    later = [epoch for epoch in sorted(model.traffic[0].elements) if epoch >= 2999]
    assert max(after - before for before, after in itertools.pairwise(later)) < 3000 / 8, "no long gap"
    assert model.traffic[1].bytes_by_sender.tolist() == [1216.0, 0.0], "800 + 400 and twice 8 bytes of parameters"


def test_widths_are_summed_over_epochs_that_all_workers_have(make: Callable[..., Folder]) -> None:
    folder = make(epochs=6000)
    model = folder.model
    for begin in range(0, 6000, 2000):
        folder.write(range(begin, begin + 2000), ranks=[0], bits=4)
        folder.write(range(begin, begin + 2000), ranks=[1], bits=8)
        model.poll()
    folder.write(range(6000, 6003), ranks=[0], bits=4)
    model.poll()
    assert 64 <= len(model.common_epochs) <= 1024 and max(model.common_epochs) == 5999
    means = live_values(model)[4 + 2 * len(PHASES)]["y"]
    assert max(means) == min(means) == 6, "as many elements of 4 bits as of 8"


def test_a_glance_at_a_long_run_is_followed_by_all_of_it(make: Callable[..., Folder]) -> None:
    folder = make(epochs=5000)
    folder.write(range(3000), traffic=False)
    folder.write(range(3000, 3001), ranks=[0], traffic=False)  # rank 1 still trains it
    model = folder.model
    model.preview()
    first, second = (growing["epoch"].tolist() for growing in model.records)
    assert first[-1] == 3000 and second == first[:-1] and 200 <= len(first) <= 220
    whole = folder.read()
    assert model.recorded_epochs == 3000 and model.remaining_s == whole.remaining_s
    assert model.poll()
    assert model.records[0]["epoch"].tolist() == list(range(3001))
    assert live_values(model) == live_values(whole)


def test_a_glance_at_a_short_run_is_a_look(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(5))
    model = folder.model
    model.preview()
    assert len(model.records[0]) == 5 and not model.poll()


def test_numbers_of_growing_records_survive_growth() -> None:
    growing = GrowingColumns()
    for begin in range(0, 1000, 7):
        growing.add({"epoch": epoch, "loss": epoch / 2} for epoch in range(begin, min(begin + 7, 1000)))
    assert growing["epoch"].tolist() == list(range(1000)) and np.isnan(growing["val_score"]).all()


def test_slow_worker_is_named_while_a_run_trains_and_after_it(make: Callable[..., Folder]) -> None:
    folder = make()  # rank 1 computes twice as long as rank 0
    model = folder.read(range(12))
    assert model.trouble == "", "too few epochs"
    folder.write(range(12, 20))
    model.poll()
    text = "rank 1 computes 2.0 times as long as the median of the others"
    assert model.trouble == text and text in model.sentence
    folder.state("stopped")
    model.poll()
    assert model.trouble == text
    append_event(folder.path, "slow", text="rank 0 computes for 40 s")
    folder.state("running")
    model.poll()
    assert model.trouble == "rank 0 computes for 40 s", "a delay of this moment comes first"
