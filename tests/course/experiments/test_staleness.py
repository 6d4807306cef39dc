"""Stale rows: ages by schedule, distances, and one whole epoch."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab import course
from gnnqlab.course.experiments.staleness import draw_epoch, draw_stale_row_errors, stale_row_errors, staleness_by_epoch
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.partition.parts import partition

FALLING = [10.0 - epoch for epoch in range(9)]


def test_ages_follow_the_schedule() -> None:
    assert staleness_by_epoch(Overlapped(), FALLING)["age"].tolist() == [0] * 9
    assert staleness_by_epoch(Pipelined(), FALLING)["age"].tolist() == [0] + [1] * 8


def test_no_more_stale_epochs_in_a_row_than_allowed() -> None:
    table = staleness_by_epoch(AdaptivePipeline(bound=2), FALLING)
    assert "1, 1, 1" not in str(table["age"].tolist())
    assert table["why"][3] == "fresh rows: 2 stale epochs in a row, 2 are allowed"


def test_an_older_row_is_further_away(small) -> None:
    frame = stale_row_errors(small, ages=(1, 3), smoothing=(0.0, 0.9), bits=(1, 8), hidden=8, epochs=20)
    assert (frame["3 epochs old"] > frame["1 epoch old"]).iloc[5:].all()
    assert (frame["fresh, 1 bit"] > frame["fresh, 8 bits"]).all()
    pd.testing.assert_series_equal(frame["γ = 0"], frame["1 epoch old"], check_names=False)
    assert frame["1 epoch old"].isna().tolist() == [True] + [False] * 19


def test_stale_rows_have_no_error_when_weights_do_not_change(small) -> None:
    frame = stale_row_errors(small, ages=(1,), lr=1e-12, epochs=4)
    assert frame["1 epoch old"].iloc[1:].max() < 1e-6


def test_dropout_by_owner_makes_rows_stale_and_by_receiver_does_not(small) -> None:
    """Frozen weights: rows before dropout stay the same; with a new mask in each epoch, half of each row is new."""
    settings = {"ages": (1,), "lr": 1e-12, "epochs": 8, "hidden": 64, "dropout": 0.5}
    assert stale_row_errors(small, **settings)["1 epoch old"].iloc[1:].max() < 1e-6
    # Elements double or vanish, drawn again each time: the expected squared distance is 2 |h|², that of a row itself 2
    # |h|².
    assert 0.7 < stale_row_errors(small, dropped_by="owner", **settings)["1 epoch old"].iloc[1:].mean() < 1.3
    with pytest.raises(ValueError, match="dropped_by must be 'receiver' or 'owner', got 'nobody'"):
        stale_row_errors(small, dropped_by="nobody")


def test_rows_must_travel() -> None:
    with pytest.raises(ValueError, match="stale rows need a cut edge"):
        stale_row_errors(partition(course.ten_nodes(), course.Halves(), workers=1))


def test_a_panel_for_every_frame(small) -> None:
    frame = stale_row_errors(small, hidden=4, epochs=12)
    figure = draw_stale_row_errors({"one": frame, "two": frame}).figure.to_dict()
    assert len(figure["data"]) == 2 * len(frame.columns)


def _timeline(lead_s: float) -> pd.DataFrame:
    """Make three epochs of two layers; transfers start ``lead_s`` before their layer."""
    lines = []
    for epoch in range(3):
        for layer in range(2):
            begin = 10.0 * epoch + 0.01 * layer
            lines += [
                (epoch, layer, "forward", 0, "transfer", 1, begin - lead_s, begin - lead_s + 0.004),
                (epoch, layer, "forward", 0, "wait", -1, begin, begin + 0.004),
                (epoch, layer, "forward", 0, "central", -1, begin + 0.004, begin + 0.006),
            ]
    columns = ["epoch", "layer", "direction", "rank", "what", "peer", "start_s", "end_s"]
    return pd.DataFrame(lines, columns=columns)


def test_an_epoch_shows_bytes_of_the_epoch_before() -> None:
    bundle = draw_epoch({"sync": _timeline(0.0), "async": _timeline(0.5)})
    bytes_ = bundle.frame[bundle.frame["part"] == "bytes forward"]
    assert bytes_.loc["sync", "start (ms)"].min() == pytest.approx(0.0, abs=1e-6)
    assert bytes_.loc["async", "end (ms)"].max() < 0
    assert "sync takes 16 ms to the end of its last layer and waits 8 ms" in bundle.figure.layout.meta["caption"]


def test_an_epoch_of_an_unknown_worker_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was recorded of worker 3"):
        draw_epoch({"run": _timeline(0.0)}, rank=3)
