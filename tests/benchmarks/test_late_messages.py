"""Messages that depend on earlier ones, on rows of a training: the rows are those of consecutive epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from benchmarks.studies.late_messages import late_error, late_rows
from gnnqlab.graph import load
from gnnqlab.message import Difference, Feedback, Linear, NoCache, Stochastic
from gnnqlab.nn.models.registry import ModelSettings


def test_rows_are_the_same_ones_in_the_last_epochs():
    graph, shape = load("sbm:60,3,6"), ModelSettings(layers=2, hidden=8)
    recipe = replace(gq.systems.vanilla(), partition=gq.partitioners.Random())
    found = late_rows(graph, shape, 6, last=4, most=20, system=recipe)
    again = late_rows(graph, shape, 6, last=2, most=20, system=recipe)
    for place, rows in found.items():
        assert rows.shape[:2] == (4, 20)
        assert torch.allclose(rows[2:], again[place], rtol=1e-4, atol=1e-6), (
            "equal but for the order of the two threads"
        )
        change = (rows[1:] - rows[:-1]).norm() / rows[1:].norm()
        assert 0 < change < 0.9, f"{place}: rows of a node change by less than their norm"
    with pytest.raises(ValueError, match="last must lie between 2 and the 6 epochs"):
        late_rows(graph, shape, 6, last=7, system=recipe)


def test_errors_are_of_one_message_and_of_all():
    """Constant rows: a difference reduces its own range by a step in each epoch, and feedback the bias of the mean."""
    rows = torch.randn(30, 16, generator=torch.Generator().manual_seed(0)).expand(10, 30, 16)
    plain, late = (late_error(cache, Stochastic(), rows, 2) for cache in (NoCache(), Difference()))
    assert plain.squared > 0.05 and late.squared < 1e-3 * plain.squared
    nearest, fed = (late_error(cache, Linear(), rows, 2) for cache in (NoCache(), Feedback()))
    assert nearest.of_mean == pytest.approx(nearest.squared, rel=1e-6), "the same error in every epoch"
    assert fed.of_mean < nearest.of_mean / 10 and fed.squared > nearest.squared / 2
    assert late_error(NoCache(), Stochastic(), rows, 32).squared == 0


def test_the_bench_has_lines_of_both_where_rows_change(monkeypatch):
    from benchmarks.studies import codecs

    monkeypatch.setattr(codecs, "GOALS", {1: None, 4: None})
    lines = codecs._stateful_rows("few", load("digits"), ModelSettings(layers=2, hidden=80), 4)
    places = {tuple(line["case"].split(", ")[1:3]) for line in lines}
    assert places == {("forward", "layer 1"), ("backward", "layer 1")}, "features never change, and have no gradient"
    assert len(lines) == 2 * 2 * 2 and all(line["value"] > 0 and line["ratio"] > 0 for line in lines)
    assert "rotated codes of differences, 36 B a row" in lines[0]["figure"], "at one bit min-max errors would grow"
    assert "last 4 of 4 epochs" in lines[0]["case"]
