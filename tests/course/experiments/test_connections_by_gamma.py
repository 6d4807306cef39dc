"""What γ saves is told with what it costs."""

import gnnqlab as gq
from gnnqlab.course.experiments.connections_by_gamma import connections_by_gamma


def test_lines_are_those_of_the_cuts() -> None:
    graph = gq.load("rmat:10,8")
    found = connections_by_gamma(graph, gammas=(0.0, 0.2), hosts=2, per_host=2)
    for gamma in (0.0, 0.2):
        quality = gq.partition(graph, gq.EBV(gamma=gamma), hosts=2, per_host=2).quality
        assert found.loc[gamma, ["inner", "outer"]].tolist() == [quality.inner, quality.outer]
        assert found.loc[gamma, "edge imbalance"] == quality.edge_imbalance
    assert found.loc[0.2, "outer"] < found.loc[0.0, "outer"] and found.loc[0.2, "inner"] > found.loc[0.0, "inner"]
