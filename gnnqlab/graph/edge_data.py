"""Refusals of graphs whose edges have weights or features that a model, or a cut, has no place for."""

from __future__ import annotations

__all__ = ["refuse_attention", "refuse_features"]


def refuse_attention(who: str) -> None:
    """Refuse attention on a graph whose edges have weights.

    Attention finds the weight of a neighbour itself; the paper (Velickovic et al., ICLR 2018) has no other, and
    libraries do not agree: PyTorch Geometric's ``GATConv`` takes none, DGL's multiplies the result of the softmax, so
    that shares no longer add up to 1.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"{who} weighs neighbours by attention, which has no place for weights of edges, got a graph that has some; "
        "choose a model that sums, as gcn or graphsage, or train on graph.without_edge_weights()"
    )


def refuse_features(who: str, why: str) -> None:
    """Refuse a graph whose edges have features that nobody would look at.

    Raises:
        ValueError: always.

    Example:
        >>> refuse_features("model gcn", "sums rows of nodes alone")
        Traceback (most recent call last):
        ValueError: model gcn sums rows of nodes alone, got a graph whose edges have features; choose model gat or ...
    """
    raise ValueError(
        f"{who} {why}, got a graph whose edges have features; choose model gat or graphsage under a cut of nodes, or "
        "take graph.without_edge_features()"
    )
