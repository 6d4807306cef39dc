"""Connections by tier are those of the partitions, in the table and in the figure."""

from __future__ import annotations

import gnnqlab as gq
from gnnqlab.course.cut_views import connection_table, draw_connections


def test_both_tiers_of_both_kinds_of_cut_are_drawn():
    graph = gq.load("sbm:200,4,8")
    several = {
        "random": gq.partition(graph, gq.Random(), hosts=2, per_host=2),
        "EBV": gq.partition(graph, gq.EBV(), hosts=2, per_host=2),
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
    assert all(name in drawn.figure.layout.meta["caption"] for name in several)
