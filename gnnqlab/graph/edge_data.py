"""Errors for edge weights or features that a model, or a kind of partition, does not support."""

from __future__ import annotations

__all__ = ["refuse_attention", "refuse_features"]


def refuse_attention(who: str) -> None:
    """Raise the error of attention on a graph with edge weights.

    Attention computes the weight of a neighbour itself; the paper (Velickovic et al., ICLR 2018) has no edge weights,
    and libraries differ: PyTorch Geometric's ``GATConv`` has none either, DGL's multiplies the softmax by them, so that
    coefficients no longer sum to 1.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"{who} weighs neighbours by attention, which does not support edge weights, got a graph with edge weights; "
        "choose a model that sums, such as gcn or graphsage, or train on graph.without_edge_weights()"
    )


def refuse_features(who: str, why: str) -> None:
    """Raise the error of edge features that would be ignored.

    Raises:
        ValueError: always.

    Example:
        >>> refuse_features("model gcn", "uses node features only")
        Traceback (most recent call last):
        ValueError: model gcn uses node features only, got a graph whose edges have features; choose model gat or ...
    """
    raise ValueError(
        f"{who} {why}, got a graph whose edges have features; choose model gat or graphsage with an edge-cut, or "
        "take graph.without_edge_features()"
    )
