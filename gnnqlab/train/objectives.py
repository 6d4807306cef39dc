"""Objectives of node classification: base classes of your own, with the targets they are constructed from."""

from gnnqlab.train.loop.node_labels import ManyLabels, NodeTargets, OneLabel
from gnnqlab.train.loop.objective import Objective, Scores

__all__ = ["ManyLabels", "NodeTargets", "Objective", "OneLabel", "Scores"]


def __dir__() -> list[str]:
    return list(__all__)
