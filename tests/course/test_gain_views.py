"""The reported gain of a block is that of the trainings that ran."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gnnqlab.course.gain_views import AS_IT_IS, INSIDE, draw_gain, gain_table, train_both


class _Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, graph: object, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def test_both_start_from_the_same_weights_and_only_one_is_inside() -> None:
    entered: list[nn.Module] = []

    class Block:
        def __init__(self, model: nn.Module) -> None:
            self.model = model

        def __enter__(self) -> None:
            entered.append(self.model)

        def __exit__(self, *_: object) -> None:
            pass

    generator = torch.Generator().manual_seed(0)
    x, labels = torch.randn(60, 4, generator=generator), torch.arange(60) % 3
    half = torch.arange(60) < 30
    found = train_both(_Linear, Block, None, x, labels, half, ~half, epochs=4)
    assert len(entered) == 4 and len({id(model) for model in entered}) == 1
    losses = {way: found.loc[found["way"] == way, "loss"].tolist() for way in (AS_IT_IS, INSIDE)}
    assert losses[AS_IT_IS] == losses[INSIDE] and losses[INSIDE][-1] < losses[INSIDE][0]
    assert found.groupby("way")["score"].count().tolist() == [1, 1]
    assert found.groupby("way")["seconds"].apply(lambda spent: spent.is_monotonic_increasing).all()
    with pytest.raises(ValueError, match="epochs must be at least 1, got 0"):
        train_both(_Linear, Block, None, x, labels, half, ~half, epochs=0)


def test_the_figure_shows_seconds_of_each_way() -> None:
    import pandas as pd

    ways = {"way": [AS_IT_IS, INSIDE], "epoch": 0, "loss": [1.0, 0.9], "score": [0.9, 0.8]}
    found = {"GCN": pd.DataFrame({**ways, "seconds": [3.0, 2.0]}), "GAT": pd.DataFrame({**ways, "seconds": [2.0, 4.0]})}
    drawn = draw_gain(found).figure
    assert [list(trace.x) for trace in drawn.data] == [[3.0], [2.0], [2.0], [4.0]]
    assert gain_table(found).loc["GAT", "in tango(), score (%)"] == 80.0
    with pytest.raises(ValueError, match="at least one model"):
        draw_gain({})
