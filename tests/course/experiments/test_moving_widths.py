"""Bit-widths that change during training: replayed, decided and drawn."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.bits.policy import Fixed
from gnnqlab.course.experiments.moving_widths import (
    base_by_epoch,
    draw_decisions,
    draw_importance,
    draw_signs,
    importance_table,
    replay,
    rows_by_width,
)

LEVELS_OFF = [0.2 + 0.9**epoch for epoch in range(61)]


def _run(bits: object = None) -> SimpleNamespace:
    losses = LEVELS_OFF[:20]
    records = pd.DataFrame(
        [(e, r, loss, 0.5, 0.5, 0.5, 1.0) for e, loss in enumerate(losses) for r in (0, 1)],
        columns=["epoch", "rank", "loss", "train_score", "val_score", "test_score", "epoch_s"],
    )
    decisions = pd.DataFrame(
        [(8, "base width 2", "slower"), (9, "fresh rows", "slower"), (12, "base width 4", "slower still")],
        columns=["epoch", "what", "why"],
    )
    traffic = pd.DataFrame(
        [(e, b, n) for e in range(20) for b, n in ((1, 30), (8, 10))], columns=["epoch", "bits", "rows"]
    )
    settings = SimpleNamespace(system=SimpleNamespace(bits=bits or Orchestrated()))
    return SimpleNamespace(
        records=records,
        decisions=decisions,
        read_traffic=lambda epochs: traffic[traffic["epoch"].isin(epochs)],
        config=settings,
    )


def test_importance_of_the_ten_nodes(small) -> None:
    table = importance_table(small)
    assert table["in-degree"].tolist() == [5, 5, 5, 6]
    assert table["p"].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert table["base 1"].tolist() == [1, 1, 1, 8] and table["base 4"].tolist() == [4, 4, 4, 8]


def test_the_bit_map_shows_them(small) -> None:
    assert sorted(draw_importance(small).frame["bits"].tolist()) == [1, 1, 1, 8]
    assert set(draw_importance(small, base=8).frame["bits"]) == {8}


def test_the_sign_decides_where_a_training_ends() -> None:
    seconds = [1.0] * len(LEVELS_OFF)
    right, wrong = replay(LEVELS_OFF, seconds), replay(LEVELS_OFF, seconds, as_printed=True)
    assert right["base"].iloc[-1] == 8 and wrong["base"].iloc[-1] == 1
    assert (right["rate"] == -wrong["rate"]).iloc[1:].all()


def test_first_decision_is_made_after_two_measured_rates() -> None:
    table = replay(LEVELS_OFF, [1.0] * 61, settings=Orchestrated(delta=7, momentum=0.0))
    assert set(table["base"].iloc[:9]) == {1} and table["base"].iloc[9] == 2


def test_every_loss_needs_its_seconds() -> None:
    with pytest.raises(ValueError, match="got 2 losses and 1"):
        replay([1.0, 0.5], [1.0])


def test_base_and_shares_of_a_run() -> None:
    assert base_by_epoch(_run()).tolist() == [1] * 8 + [2] * 4 + [4] * 8
    shares = rows_by_width(_run())
    assert shares.loc[3].tolist() == [0.75, 0.25] and len(shares) == 20


def test_of_a_long_run_every_third_epoch_is_read() -> None:
    asked = []
    traffic = pd.DataFrame([(0, 1, 30), (3, 8, 10)], columns=["epoch", "bits", "rows"])
    records = pd.DataFrame({"epoch": range(1001), "rank": 0})
    run = SimpleNamespace(records=records, read_traffic=lambda epochs: asked.append(epochs) or traffic)
    rows_by_width(run)
    assert asked == [range(0, 1001, 3)] and len(asked[0]) <= 400


def test_drawing_decisions_of_fixed_bits_raises_value_error() -> None:
    with pytest.raises(ValueError, match="bits must be Orchestrated"):
        draw_decisions(_run(Fixed(bits=2)))


def test_figure_of_decisions() -> None:
    bundle = draw_decisions(_run())
    figure = bundle.figure.to_dict()
    assert "2 decisions about the base bit-width: 1 in 40 % of epochs" in figure["layout"]["meta"]["caption"]
    marks = next(trace for trace in figure["data"] if trace["name"].startswith("decision"))
    assert [list(each) for each in marks["customdata"]] == [["2 bits", "slower"], ["4 bits", "slower still"]]
    bars = {trace["name"]: trace["hovertemplate"] for trace in figure["data"] if trace["type"] == "bar"}
    assert bars["1 bit"].startswith("1 bit: ") and bars["8 bits"].startswith("8 bits: ")
    assert all(figure["layout"][f"yaxis{n}"]["title"]["text"] for n in ("", 2, 3, 4))


def test_figure_of_both_signs() -> None:
    frame = draw_signs(_run()).frame
    assert frame["descent rate (the text)"].iloc[-1] == 8
    assert frame["as printed"].iloc[-1] < 8
