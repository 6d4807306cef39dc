"""What it saves between hosts that EBV knows where a node is at home."""

from __future__ import annotations

from typing import Any

from gnnqlab.graph.generate import rmat
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.parts import partition

__all__ = ["saved_by_homes"]


def saved_by_homes() -> dict[str, float]:
    """Return the share of a worker's outer connections that γ = 0.1 saves by CDFGNN Eq. 24, by rule.

    A power-law graph on 2 x 4 workers; masters are chosen alike with and without γ.

    Returns:
        ``copies``: the equation as printed; ``home``: the host where most of a node's edges lay before counts too.

    Example:
        >>> saved = saved_by_homes()
        >>> saved["home"] > saved["copies"] > 0
        True
    """
    graph = rmat(12, 16, features=1)

    def outer(**settings: Any) -> int:
        return partition(graph, EBV(**settings), hosts=2, per_host=4).quality.most_outer

    plain = outer(gamma=1e-12, near="copies")  # too small to move an edge; masters are those of γ > 0
    return {near: 1 - outer(near=near) / plain for near in ("copies", "home")}
