"""Connections within hosts and between them: tables, charts, and forecasts by tier."""

from __future__ import annotations

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.course.experiments.host_connections import (
    connection_table,
    connections_by_gamma,
    draw_by_gamma,
    draw_connections,
    tier_table,
)


def test_lines_are_those_of_the_cuts() -> None:
    graph = gq.load("rmat:10,8")
    found = connections_by_gamma(graph, gammas=(0.0, 0.2), hosts=2, per_host=2)
    for gamma in (0.0, 0.2):
        quality = gq.partition(graph, gq.partitioners.EBV(gamma=gamma), hosts=2, per_host=2).quality
        assert found.loc[gamma, ["inner", "outer"]].tolist() == [quality.inner, quality.outer]
        assert found.loc[gamma, "edge imbalance"] == quality.edge_imbalance
    assert found.loc[0.2, "outer"] < found.loc[0.0, "outer"] and found.loc[0.2, "inner"] > found.loc[0.0, "inner"]


def test_both_tiers_of_both_kinds_of_cut_are_drawn():
    graph = gq.load("sbm:200,4,8")
    several = {
        "random": gq.partition(graph, gq.partitioners.Random(), hosts=2, per_host=2),
        "EBV": gq.partition(graph, gq.partitioners.EBV(), hosts=2, per_host=2),
    }
    table = connection_table(several)
    for name, parts in several.items():
        quality = parts.quality
        assert table.loc[name].tolist() == [
            quality.most_inner, quality.most_outer, quality.replication, quality.edge_imbalance,
        ]  # fmt: skip
    drawn = draw_connections(several, dark=True)
    assert {trace.name: list(trace.x) for trace in drawn.figure.data} == {
        f"{tier} connections": table[tier].tolist() for tier in ("inner", "outer")
    }


TABLE = pd.DataFrame({"inner": [100, 160], "outer": [80, 50]}, index=pd.Index([0.0, 0.1], name="γ"))


def test_both_tiers_over_gamma() -> None:
    drawn = draw_by_gamma(TABLE)
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in drawn.figure.data] == [
        ("within hosts", [0.0, 0.1], [100, 160]),
        ("between hosts", [0.0, 0.1], [80, 50]),
    ]
    assert drawn.figure.layout.xaxis.title.text.startswith("γ") and drawn.frame is TABLE
    with pytest.raises(ValueError, match="at least one γ"):
        draw_by_gamma(TABLE[:0])


def test_forecasts_side_by_side() -> None:
    probe = gq.probe("sbm:60,3,8", workers=2, layers=2, hidden=4, launched=False, epochs=3, theorem=False)
    found = tier_table({name: probe.forecast(system=name) for name in ("vanilla", "fixed-bits")})
    assert found.loc[("vanilla", "inner"), "bytes"] > found.loc[("fixed-bits", "inner"), "bytes"] > 0
    assert found.loc[("vanilla", "outer"), "bytes"] == 0
