"""Figures of notebook 27: rows at a point, shares of variance, gains, and runs that continue exactly."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from gnnqlab.course.experiments.rounded_rows import RoundedRows
from gnnqlab.course.rounding_point_views import (
    draw_gains,
    draw_rows,
    draw_since,
    draw_variance,
    price_table,
    shares,
)  # fmt: skip
from tests.course.records import training_records

NOISE = pd.DataFrame(
    [
        (epoch, seed, point, value * (1 + seed))
        for epoch in (5, 60)
        for seed in (0, 1)
        for point, value in (("forward 0", 3.0), ("backward 0", 1.0), ("everything", 5.0))
    ],
    columns=["epoch", "seed", "point", "relative"],
)


def test_rows_are_drawn_beside_their_error_in_one_scale() -> None:
    before = torch.tensor([[1.0, -1.0], [1.0, 1.0]])
    message = RoundedRows("forward 1", 3, 0, 1, torch.tensor([4, 7]), torch.tensor([2, 2]), before, before * 1.5, 12)
    bundle = draw_rows(message)
    panels = bundle.figure.to_dict()["data"]
    assert [panel["z"] for panel in panels] == [before.tolist(), (before * 1.5).tolist(), (before * 0.5).tolist()]
    assert all(panel["y"] == ["4", "7"] and panel["coloraxis"] == "coloraxis" for panel in panels)
    assert bundle.figure.layout.coloraxis.cmin == -1 and bundle.figure.layout.coloraxis.cmax == 1
    assert "2 rows in 2 bits arrive with a relative error of 50 %" in bundle.figure.layout.meta["caption"]
    assert bundle.frame["error"].tolist() == pytest.approx([0.5**0.5] * 2, abs=1e-4)
    mixed = draw_rows(replace(message, bits=torch.tensor([2, 1])))
    assert "2 rows in 1 bit and 2 bits arrive" in mixed.figure.layout.meta["caption"]


def test_shares_are_of_each_seed_and_leave_the_whole_out() -> None:
    found = shares(NOISE, 5)
    assert found["mean"].tolist() == [75.0, 25.0] and found["half"].tolist() == [0.0, 0.0]
    bundle = draw_variance(NOISE)
    assert [trace.name for trace in bundle.figure.data] == ["after 5 epochs", "after 60 epochs"]
    assert list(bundle.figure.data[1].y) == [75.0, 25.0]
    assert bundle.frame["variance / squared gradient"].tolist() == [7.5] * 4


def test_gains_are_thousandths_relative_to_every_point_quantized() -> None:
    lines = [(0, "nothing", 0.040, 0.0), (0, "forward 0", 0.038, 0.002), (1, "forward 0", 0.036, 0.004)]
    bundle = draw_gains(pd.DataFrame(lines, columns=["seed", "exact", "loss", "gained"]))
    each, mean = bundle.figure.data
    assert list(each.y) == [2.0, 4.0] and list(mean.x) == ["forward 0"] and list(mean.y) == [3.0]
    assert "(0.0400 with every point quantized)" in bundle.figure.layout.meta["caption"]
    assert bundle.frame.loc["forward 0"].tolist() == [3.0, pytest.approx(12.706, abs=0.01)]


def test_runs_are_held_against_one_and_bytes_are_of_all_workers() -> None:
    runs = {
        "coded": SimpleNamespace(records=training_records((1.1, 1.2), bytes_payload=900, bytes_params=100)),
        "Vanilla": SimpleNamespace(records=training_records((1.0, 1.0), bytes_payload=9900, bytes_params=100)),
    }
    bundle = draw_since(runs, 1, beside="Vanilla")  # type: ignore[arg-type]
    assert list(bundle.figure.data[0].y) == [10.0, 20.0] and list(bundle.figure.data[1].y) == [2.0, 2.0]
    assert len(bundle.figure.data) == 3 and list(bundle.figure.data[2].y) == [20.0, 20.0]
    assert bundle.frame.loc["coded"].tolist() == [10.0, 20.0, 2.0, 2.0]
    whole = draw_since(runs, 0, beside="Vanilla")  # type: ignore[arg-type]
    assert "coded 15 % after, 2 kB." in whole.figure.layout.meta["caption"]
    with pytest.raises(ValueError, match=r"the baseline must be one of the runs, \['coded', 'Vanilla'\], got 'other'"):
        draw_since(runs, 1, beside="other")  # type: ignore[arg-type]


def test_price_table_has_extra_bytes_and_share_of_variance() -> None:
    columns = {"kB in codes": [2.0, 2.0], "kB exact": [16.0, 8.0], "times": [4.5, 2.5]}
    sent = pd.DataFrame(columns, index=["forward 0", "backward 0"])
    found = price_table(NOISE, sent, 60)
    assert found["kB more an epoch"].tolist() == [14.0, 6.0] and found["variance (%)"].tolist() == [75.0, 25.0]
