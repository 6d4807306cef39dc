"""The measurement of vertex-cuts has the common format, and its goals are the paper's figures."""

from __future__ import annotations

from benchmarks.studies.cuts import BY_HOST, OURS, PLAIN, cuts, format_rows, means


def test_every_partitioner_is_compared_with_plain_ebv(capsys):
    rows = cuts(graph="rmat:9,8;no-such-graph")
    assert "no-such-graph.npz is missing" in capsys.readouterr().out
    table = format_rows(rows)
    lines = {(line["case"], line["cut"]): line for line in table}
    cases = [f"rmat:9,8, 2 x {number}" for number in (2, 4, 8)]
    names = [PLAIN, BY_HOST, OURS, f"{OURS} as printed", "HEP", "DNE", "HDRF", "random"]
    assert [key for key in lines if "mean" not in key[0]] == [(case, name) for case in cases for name in names]
    assert all(lines[case, "random"]["outer"].endswith("%)") and lines[case, PLAIN]["RF"] for case in cases)
    inner = [row for row in rows if row["figure"] == f"{OURS}: inner connections, most of a worker"]
    assert len(inner) == 3 and all(row["rival"] == PLAIN and row["value"] > row["rival_value"] for row in inner)
    limits = [row for row in rows if "edge imbalance" in row["figure"] and row["goal"]]
    assert len(limits) == 6 and all(row["reached"] == (row["value"] <= 1.01) for row in limits)


def test_masters_alone_change_connections_but_no_copies():
    rows = {(row["case"], row["figure"]): row["value"] for row in cuts(graph="rmat:10,16")}
    case = "rmat:10,16, 2 x 4"
    assert rows[case, f"{BY_HOST}: replication factor"] == rows[case, f"{PLAIN}: replication factor"]
    outer = "outer connections, most of a worker"
    assert rows[case, f"{OURS}: {outer}"] < rows[case, f"{BY_HOST}: {outer}"] < rows[case, f"{PLAIN}: {outer}"]


def test_goals_are_those_of_the_mean_and_of_two_by_four():
    rows = means({OURS: {("a", 2): 0.1, ("a", 4): 0.26, ("a", 8): 0.4}, "other": {("a", 4): 0.5}})
    goals = {row["case"]: (row["goal"], row["reached"]) for row in rows if row["figure"].startswith(f"{OURS}: ")}
    assert goals["2 x 4, mean"] == (0.25, True) and goals["mean of all"] == (0.31, False)
    assert goals["2 x 2, mean"] == (None, None)
    assert all(row["goal"] is None for row in rows if row["figure"].startswith("other"))
