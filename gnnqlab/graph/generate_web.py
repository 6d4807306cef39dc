"""Random graphs similar to the web graph, seeded: most links are local, and a few nodes are popular everywhere."""

from __future__ import annotations

import numpy as np

from gnnqlab.graph.generate import assemble, require
from gnnqlab.graph.graph import Graph

__all__ = ["web"]


def web(
    nodes: int,
    degree: float,
    *,
    seed: int = 0,
    features: int = 64,
    classes: int = 16,
    local: float = 0.7,
    skew: float = 0.6,
    signal: float = 1.0,
    name: str | None = None,
) -> Graph:
    """Web-like graph: nodes form a ring in the order of their ids, links are local or lead to popular nodes.

    ``nodes * degree / 2`` undirected edges are sampled. Their first end is sampled in proportion to popularity, which
    falls with a node's random rank r as r^-skew. With probability ``local`` the second end is at a distance d on the
    ring with density 1/d, 1 to N/2; otherwise it is sampled by popularity too. Repeated edges are kept once. Classes
    are equal segments of the ring, features and split those of ``sbm``.

    Args:
        nodes: number of nodes N, at least 4 and at least ``classes``.
        degree: mean number of neighbours before repeated edges are removed (self loop not counted), at least 0.
        seed: the graph is a function of it and of the other arguments.
        features: feature width D, at least 1.
        classes: number of classes C, at least 2.
        local: share of local links, in ``[0, 1]``.
        skew: exponent of the popularity, in ``[0, 1)``; degrees then have a power law with exponent 1 + 1/skew.
        signal: distance of a class mean from the origin, in standard deviations of the noise.
        name: by default ``web:NODES,DEGREE``.

    Returns:
        An undirected graph with one self loop per node.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> g = web(1000, 10, seed=1)
        >>> g.num_nodes, g.is_symmetric, int(g.in_degrees.max()) > 5 * 10
        (1000, True, True)
    """
    require("classes", classes, 2, None)
    require("nodes", nodes, max(classes, 4), None)
    require("degree", degree, 0, None)
    require("seed", seed, 0, None)
    require("features", features, 1, None)
    require("local", local, 0, 1)
    require("skew", skew, 0, 0.999)
    rng = np.random.default_rng([seed, 0x3EB])  # the second word gives each generator a stream of its own
    num_edges = round(nodes * degree / 2)
    by_rank = rng.permutation(nodes)  # (N,) node of each rank

    def popular() -> np.ndarray:
        """Sample nodes of rank r with density r^-skew: r / N is a uniform number to the power 1 / (1 - skew)."""
        targets: np.ndarray = by_rank[(nodes * rng.random(num_edges) ** (1 / (1 - skew))).astype(np.int64)]
        return targets

    u, popular_end = popular(), popular()  # (M,), (M,)
    distance = np.exp(rng.random(num_edges) * np.log(nodes / 2)).astype(np.int64)  # log-uniform, density 1 / d
    # The ring closes behind node N - 1.
    local_end = (u + np.where(rng.random(num_edges) < 0.5, distance, -distance)) % nodes
    v = np.where(rng.random(num_edges) < local, local_end, popular_end)
    label, name = np.arange(nodes, dtype=np.int64) * classes // nodes, name or f"web:{nodes},{degree:g}"
    return assemble(name, u, v, label, classes, features=features, signal=signal, rng=rng, seed=seed)
