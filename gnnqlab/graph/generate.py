"""Random graphs of any size, seeded: planted partition (``sbm``) and power law (``rmat``).

Shape legend: N nodes, D features, C classes, M undirected edges drawn.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.arguments import as_mask
from gnnqlab.graph.edges import build_csr
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.split import random_split

__all__ = ["assemble", "require", "rmat", "sbm"]


def sbm(
    nodes: int,
    classes: int,
    degree: float,
    *,
    seed: int = 0,
    features: int = 64,
    homophily: float = 0.6,
    signal: float = 1.0,
    stray: float = 0.15,
    name: str | None = None,
) -> Graph:
    """Planted-partition graph: nodes prefer neighbours of their own class.

    Classes have equal sizes up to one node, in random order. ``nodes * degree / 2`` undirected
    edges are sampled: one end uniformly; the other, with probability p, uniformly from the same
    class, otherwise from another class. A share ``stray`` of the nodes has edges independent of
    class, so only its own features indicate its class and no model reaches 100 %; p is set so
    that a share ``homophily`` of all edges joins equal classes. Features are the class direction,
    of length ``signal``, plus unit Gaussian noise: a single row is a weak signal of its class, its
    neighbourhood a strong one. The split is a random 60/20/20.

    Args:
        nodes: number of nodes N, at least ``classes``.
        classes: number of classes C, at least 2.
        degree: mean number of neighbours before repeated edges are removed (self loop not
            counted), at least 0.
        seed: the graph is a function of it and of the other arguments.
        features: feature width D, at least 1.
        homophily: share of edges within a class, in ``[0, 1]``.
        signal: distance of a class mean from the origin, in standard deviations of the noise.
        stray: share of nodes whose neighbours ignore their class, in ``[0, 1)``.
        name: by default ``sbm:NODES,CLASSES,DEGREE``.

    Returns:
        An undirected graph with one self loop per node.

    Raises:
        ValueError: if an argument is out of range, or the homophily cannot be reached.

    Example:
        >>> g = sbm(1000, 4, 10, seed=1)
        >>> g.num_nodes, g.num_classes, g.is_symmetric, torch.bincount(g.labels).tolist()
        (1000, 4, True, [250, 250, 250, 250])
    """
    require("classes", classes, 2, None)
    require("nodes", nodes, classes, None)
    require("degree", degree, 0, None)
    require("seed", seed, 0, None)
    require("features", features, 1, None)
    require("homophily", homophily, 0, 1)
    require("stray", stray, 0, 0.999)
    rng = np.random.default_rng([seed, 0x5B3])  # the second word gives each generator a stream of its own
    order = rng.permutation(nodes)  # nodes grouped by class, in random order
    # Class c owns the slice [start[c], start[c + 1]) of ``order``.
    start = np.arange(classes + 1, dtype=np.int64) * nodes // classes  # (C + 1,)
    label = np.empty(nodes, dtype=np.int64)
    label[order] = np.repeat(np.arange(classes), np.diff(start))

    is_stray = rng.random(nodes) < stray  # (N,) bool
    num_edges = round(nodes * degree / 2)
    u = rng.integers(nodes, size=num_edges)  # (M,)
    # An edge follows the classes if neither end is stray; other edges join equal classes with
    # probability 1 / C. So homophily = f p + (1 - f) / C, where f is the share that follows.
    follows_classes = ~is_stray[u]
    share = (1 - stray) ** 2  # f: neither end is stray
    p = (homophily - (1 - share) / classes) / share  # the equation above, solved for p
    if not 0 <= p <= 1:
        low, high = (1 - share) / classes, share + (1 - share) / classes
        raise ValueError(
            f"homophily must lie in [{low:.3f}, {high:.3f}] with {classes} classes and stray={stray}, got {homophily}; "
            "lower stray"
        )
    v = rng.integers(nodes, size=num_edges)
    # The target of an edge that follows the classes, sampled from the same class or from another one.
    is_same = rng.random(num_edges) < p
    shift = np.where(is_same, 0, rng.integers(1, classes, size=num_edges))  # (M,) 0: same class, else any other one
    target_class = (label[u] + shift) % classes
    width = np.diff(start)[target_class]  # (M,) size of the target class
    class_ends = order[start[target_class] + (rng.random(num_edges) * width).astype(np.int64)]
    # A stray node that was chosen by class is replaced by a stray node of any class, so that the
    # neighbours of a stray node carry no information, while degrees stay equal.
    strays = np.flatnonzero(is_stray)  # ids of all stray nodes
    if strays.size:
        is_replaced = follows_classes & is_stray[class_ends]
        class_ends[is_replaced] = strays[rng.integers(strays.size, size=int(is_replaced.sum()))]
    v[follows_classes] = class_ends[follows_classes]

    name = name or f"sbm:{nodes},{classes},{degree:g}"
    return assemble(name, u, v, label, classes, features=features, signal=signal, rng=rng, seed=seed)


def rmat(
    scale: int,
    degree: float,
    *,
    seed: int = 0,
    features: int = 64,
    classes: int | None = None,
    homophily: float = 0.6,
    signal: float = 1.0,
    corners: tuple[float, float, float, float] = (0.57, 0.19, 0.19, 0.05),
    name: str | None = None,
) -> Graph:
    """Power-law graph: recursive matrix (Chakrabarti et al., SDM 2004), Graph500's corners.

    Each of ``2**scale * degree / 2`` undirected edges picks, ``scale`` times, one quadrant of the
    adjacency matrix with the probabilities ``corners``; finally node ids are shuffled. Many edges
    repeat and are kept once, so the mean degree is lower than ``degree``; many nodes have no
    neighbours, as in the original. Features and split are those of ``sbm``.

    Differs: the original has no classes. Here the nodes that differ only in the lowest bits of
    their id, and so have about equal degrees, are siblings, one of each class in random order. For
    a fraction ``homophily`` of the edges the target is replaced by its sibling with the class of
    the source. The skew of the degrees stays, and classes have equal sizes.

    Args:
        scale: the graph has ``2**scale`` nodes; 2 to 30.
        degree: mean number of sampled neighbours, at least 0.
        seed: the graph is a function of it and of the other arguments.
        features: feature width D, at least 1.
        classes: number of classes C, a power of two, at least 2 and at most ``2**(scale - 1)``; by
            default 16, less in graphs of under 256 nodes.
        homophily: fraction of the edges whose target is replaced so, in ``[0, 1]``; other edges
            join equal classes by chance.
        signal: distance of a class mean from the origin, in standard deviations of the noise.
        corners: probabilities of the four quadrants (both low, source low, source high, both
            high); they sum to 1.
        name: by default ``rmat:SCALE,DEGREE``.

    Returns:
        An undirected graph with one self loop per node.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> g = rmat(10, 16, seed=1)
        >>> g.num_nodes, g.is_symmetric, int(g.in_degrees.max()) > 10 * 16
        (1024, True, True)
    """
    require("scale", scale, 2, 30)
    require("degree", degree, 0, None)
    require("seed", seed, 0, None)
    require("features", features, 1, None)
    require("homophily", homophily, 0, 1)
    if classes is None:
        classes = min(16, 1 << (scale // 2))
    if not 2 <= classes <= 1 << (scale - 1) or classes & (classes - 1):
        raise ValueError(f"classes must be a power of two in [2, {1 << (scale - 1)}], got {classes}")
    if len(corners) != 4 or min(corners) < 0 or abs(sum(corners) - 1) > 1e-6:
        raise ValueError(f"corners must be four probabilities that sum to 1, got {corners}")
    rng = np.random.default_rng([seed, 0x93A7])
    nodes = 1 << scale
    num_edges = round(nodes * degree / 2)
    u = np.zeros(num_edges, dtype=np.int32)
    v = np.zeros(num_edges, dtype=np.int32)
    # Upper limits of the first three quadrants on [0, 1).
    both_low, source_low, source_high, _ = np.cumsum(corners).astype(np.float32)
    for bit in range(scale):
        draw = rng.random(num_edges, dtype=np.float32)  # (M,)
        # The third and fourth quadrant set the bit of the source, the second and fourth that of the target.
        u |= (draw >= source_low).astype(np.int32) << bit
        v |= (((draw >= both_low) & (draw < source_low)) | (draw >= source_high)).astype(np.int32) << bit

    # Siblings share all bits but the lowest; a random pattern per family assigns the classes.
    sibling_mask = classes - 1  # mask of the bits that number the siblings of a family
    pattern = np.repeat(rng.integers(classes, size=nodes // classes, dtype=np.int32), classes)  # (N,)
    # XOR with a pattern is a permutation of the classes, so each sibling has another class.
    label_of = (np.arange(nodes, dtype=np.int32) & sibling_mask) ^ pattern
    moves = rng.random(num_edges, dtype=np.float32) < homophily
    # Of v's siblings the one with the class of u: its low bits are this class XOR the pattern of the family.
    v[moves] = (v[moves] & ~sibling_mask) | (label_of[u[moves]] ^ pattern[v[moves]])

    # Without the shuffle a node's id would show its popularity and its class.
    new_id = rng.permutation(nodes).astype(np.int32)
    label = np.empty(nodes, dtype=np.int64)
    label[new_id] = label_of
    name, (u, v) = name or f"rmat:{scale},{degree:g}", (new_id[u], new_id[v])
    return assemble(name, u, v, label, classes, features=features, signal=signal, rng=rng, seed=seed)


def class_features(label: np.ndarray, classes: int, features: int, signal: float, rng: np.random.Generator) -> Tensor:
    """Generate features ``(N, D)``: a random direction per class, of length ``signal``, plus unit Gaussian noise."""
    direction = rng.standard_normal((classes, features), dtype=np.float32)
    direction *= signal / np.linalg.norm(direction, axis=1, keepdims=True)  # (C, D), rows of length signal
    x = rng.standard_normal((len(label), features), dtype=np.float32)
    for start in range(0, len(label), 1 << 16):  # in chunks, so that directions are not gathered for all nodes at once
        x[start : start + (1 << 16)] += direction[label[start : start + (1 << 16)]]
    return torch.from_numpy(x)


def assemble(
    name: str,
    u: np.ndarray,
    v: np.ndarray,
    label: np.ndarray,
    classes: int,
    *,
    features: int,
    signal: float,
    rng: np.random.Generator,
    seed: int,
) -> Graph:
    """Build a generated graph from its undirected edges ``u - v``, with a random 60/20/20 split."""
    nodes = len(label)
    indptr, indices, *_ = build_csr(u, v, num_nodes=nodes)
    x = class_features(label, classes, features, signal, rng)  # after sorting the edges, which needs most memory
    train, val, test = (as_mask("", part, nodes) for part in random_split(torch.arange(nodes), seed=seed))
    graph = Graph(
        name=name,
        indptr=indptr,
        indices=indices,
        features=x,
        labels=torch.from_numpy(label),
        train_mask=train,
        val_mask=val,
        test_mask=test,
        num_classes=classes,
    )
    # build_csr adds every reverse edge, so symmetry need not be computed.
    graph.__dict__["is_symmetric"] = True
    return graph


def require(what: str, value: float, low: float, high: float | None) -> None:
    """Check that an argument is in its range."""
    if not low <= value <= (float("inf") if high is None else high):
        limits = f"at least {low:g}" if high is None else f"in [{low:g}, {high:g}]"
        raise ValueError(f"{what} must be {limits}, got {value}")
