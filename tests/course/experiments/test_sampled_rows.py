"""Boundary sampling: rows left out, sums without bias, their variance, and the chart of shares."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from gnnqlab.course.experiments.sampled_rows import (
    draw_shares,
    draw_sums,
    sampled_sums,
    unsampled_nodes,
    variance_by_share,
)
from gnnqlab.lab.figures.graph_drawing import draw_shards
from gnnqlab.message.samplers import BoundarySampling

ROWS = torch.arange(1.0, 11.0)


def test_rows_left_out_are_drawn_as_such(small) -> None:
    gone = unsampled_nodes(small, BoundarySampling(p=0.5), epoch=1)
    assert any(gone.values()) and any(len(nodes) < 2 for nodes in gone.values())
    frame = draw_shards(small, left_out=gone).frame
    drawn = frame[frame["kind"] == "left out"]
    assert {rank: drawn.loc[[rank], "node"].tolist() if rank in drawn.index else [] for rank in gone} == gone
    assert "left out" not in set(draw_shards(small).frame["kind"])


def test_a_sum_by_hand(small) -> None:
    # Node 4 (degree 5 with itself) has neighbours 2, 3, itself, and 5 and 7 on the other worker; weights are 1/sqrt(5
    # d_u).
    frame = sampled_sums(small, 4, BoundarySampling(p=0.5), rows=ROWS, epochs=40)
    weight = {u: 1 / (5 * int(small.graph.in_degrees[u])) ** 0.5 for u in (2, 3, 4, 5, 7)}
    own = sum(weight[u] * float(ROWS[u]) for u in (2, 3, 4))
    far = {u: weight[u] * float(ROWS[u]) for u in (5, 7)}
    values = {"none": own, "5": own + 2 * far[5], "7": own + 2 * far[7], "5, 7": own + 2 * far[5] + 2 * far[7]}
    assert frame["all rows"].iloc[0] == pytest.approx(own + far[5] + far[7], rel=1e-5)
    assert set(frame["kept"]) == set(values)
    assert frame["sum"].tolist() == pytest.approx([values[kept] for kept in frame["kept"]], rel=1e-5)
    assert frame["mean so far"].iloc[-1] == pytest.approx(frame["sum"].mean())


def test_sampling_with_p_1_gives_the_sums_of_all_rows(small) -> None:
    frame = sampled_sums(small, 4, BoundarySampling(p=1.0), rows=ROWS, epochs=3)
    assert frame["sum"].tolist() == pytest.approx(frame["all rows"].tolist())
    assert sampled_sums(small, 0, BoundarySampling(p=0.1), rows=ROWS, epochs=1)["kept"].tolist() == ["none"]


def test_variance_is_that_of_the_formula(small) -> None:
    epochs = 2000
    table = variance_by_share(small, torch.eye(10), [0.25, 0.5], epochs=epochs)
    # An epoch's squared distance is a sum over four halo rows that are drawn independently, each (1/p - 1)^2 or 1 times
    # a constant; its standard deviation is below twice its mean, so five standard errors are 10 / sqrt(epochs).
    assert (table["measured"] / table["formula"] - 1).abs().max() < 10 / epochs**0.5
    assert table.loc[0.25, "formula"] == pytest.approx(3 * table.loc[0.5, "formula"], rel=1e-5)


def test_share_0_raises_value_error(small) -> None:
    with pytest.raises(ValueError, match="shares must be above 0"):
        variance_by_share(small, torch.eye(10), [0.0])


def test_charts_have_axis_titles_captions_and_mean_values(small) -> None:
    bundle = draw_sums(sampled_sums(small, 4, BoundarySampling(p=0.5), rows=ROWS, epochs=9), node=4)
    layout = bundle.figure.to_dict()["layout"]
    assert layout["xaxis"]["title"]["text"] == "epoch" and "of node 4 in 9 epochs" in layout["meta"]["caption"]
    columns = ["p", "seed", "accuracy (%)", "final loss", "MB an epoch"]
    runs = pd.DataFrame([(0.0, 0, 80.0, 1.0, 0.0), (1.0, 0, 90.0, 0.5, 2.0), (1.0, 1, 92.0, 0.7, 2.0)], columns=columns)
    shares = draw_shares(runs)
    assert shares.frame.loc[1.0, "accuracy (%)"] == 91.0
    titles = [shares.figure.layout[axis].title.text for axis in ("yaxis", "yaxis2", "yaxis3")]
    assert titles == ["test accuracy (%)", "training loss at the end", "sent (MB per epoch)"]
    with pytest.raises(ValueError, match="a line for each run"):
        draw_shares(runs.iloc[:0])
