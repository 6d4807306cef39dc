"""The measurement of adaptive bit-widths has the common format, and they are better at equal bytes."""

from __future__ import annotations

from benchmarks.engine.graphs import find_graph
from benchmarks.studies.variance import variance


def test_adaptive_widths_have_less_variance_than_random_ones():
    rows = variance(repeats=6, graphs=("sbm:300,3,8",))
    assert [row["rival"].split(",")[0] for row in rows] == ["widths drawn from 2", "4 bits everywhere"] * 2
    chance = rows[0::2]
    assert all(row["goal"] == 2.0 and row["reached"] == (row["ratio"] >= 2.0) for row in chance)
    assert all(row["ratio"] > 1 for row in chance)


def test_a_graph_that_is_not_here_is_left_out(capsys):
    assert find_graph("no-such-graph") is None
    assert variance(graphs=("no-such-graph",)) == []
    assert "no-such-graph.npz is missing" in capsys.readouterr().out
