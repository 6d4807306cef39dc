"""The measurement of adaptive bit-widths has the common format, and they are better at equal bytes."""

from __future__ import annotations

from benchmarks.engine.graphs import find_graph
from benchmarks.studies.variance import variance


def test_adaptive_widths_have_less_variance_than_random_ones():
    rows = variance(repeats=6, graphs=("sbm:300,3,8",), seeds=2)
    assert [row["rival"].split(",")[0] for row in rows] == ["widths drawn from 2", "4 bits everywhere"] * 4
    chance = rows[0:4:2]
    assert all(row["goal"] == 2.0 and row["reached"] == (row["ratio"] >= 2.0) for row in chance)
    assert all(1 < row["lowest"] <= row["ratio"] <= row["highest"] and row["half_interval"] > 0 for row in chance)
    assert chance[0]["case"] == "sbm:300,3,8, 2 workers, groups of 100, 2 seed(s)"
    assert [row["lowest"] for row in rows[4::2]] == [row["lowest"] for row in chance], "the range over graphs and seeds"
    assert chance[0]["lowest"] < chance[0]["highest"], "another seed has other weights and noise"


def test_a_graph_that_is_not_here_is_left_out(capsys):
    assert find_graph("no-such-graph") is None
    assert variance(graphs=("no-such-graph",)) == []
    assert "no-such-graph.npz is missing" in capsys.readouterr().out
