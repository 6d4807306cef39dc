"""Sequential loops of vertex-cut partitioners: assign edges to parts one by one, and choose a master for each node.

Replicas are bits: bit ``i % 8`` of byte ``i // 8`` of a node's row is 1 if part i has a replica of the node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gnnqlab.kernels import native
from gnnqlab.kernels.reference import vertex_cut as reference

__all__ = ["Ends", "choose_masters", "empty_copies", "place_by_cost", "place_by_worth"]

# u, v, E; parts, hosts, limit, settings, home; copies, bytes per node; part of each edge.
_ebv = native.declare("ebv", "p p i i i i p p p i p")
# u, v, E; parts, limit, settings; counts degrees, degrees, loads; copies, bytes per node; part of each edge.
_hdrf = native.declare("hdrf", "p p i i i p i p p p i p")
_masters = native.declare("masters", "p i i i i p")
_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Ends:
    """Both ends of every edge, int32 ``(E,)``, in the order of assignment."""

    u: NDArray[np.int32]
    v: NDArray[np.int32]

    def __post_init__(self) -> None:
        for ends in (self.u, self.v):
            if ends.dtype != np.int32 or ends.shape != self.u.shape or not ends.flags.c_contiguous:
                raise ValueError(
                    f"ends of edges must be two int32 vectors of one length, got {ends.dtype} {ends.shape}"
                )

    def __len__(self) -> int:
        return len(self.u)


def empty_copies(nodes: int, parts: int) -> NDArray[np.uint8]:
    """Allocate a bit matrix without replicas, uint8 ``(N, ceil(P / 8))``."""
    return np.zeros((nodes, -(-parts // 8)), np.uint8)


def place_by_cost(
    ends: Ends, copies: NDArray[np.uint8], *, parts: int, hosts: int, limit: int,
    alpha: float, beta: float, gamma: float, home: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:  # fmt: skip
    """Assign each edge to the part with the least cost (CDFGNN Eq. 24), the first on a tie.

    Args:
        ends: the edges.
        copies: replicas as bits with a row for every node in ``ends``; empty at first, updated in place.
        parts: P, a multiple of ``hosts``; consecutive parts share a host.
        hosts: number of hosts, for the host term.
        limit: largest number of edges of a part; at least ``len(ends) / parts``.
        alpha, beta: weights of a part's shares of edges and nodes.
        gamma: γ, weight of the host term; 1 - γ is that of the part's own term.
        home: host of each node that counts as having a replica in addition, int32 ``(N,)``; ``None``: no such host.

    Returns:
        The part of each edge, int32 ``(E,)``.

    Example:
        >>> copies = empty_copies(3, 2)
        >>> two = Ends(np.array([0, 1], np.int32), np.array([1, 2], np.int32))
        >>> place_by_cost(two, copies, parts=2, hosts=1, limit=2, alpha=0.1, beta=0.1, gamma=0).tolist()
        [0, 0]
    """
    _check_room(ends, parts, limit)
    # float64 for the C interface; the last two are a part's fair shares of edges and nodes.
    settings = np.array([alpha, beta, gamma, len(ends) / parts, len(copies) / parts])
    if not native.active(_CPU):
        return reference.place_by_cost(ends.u, ends.v, copies, parts, hosts, limit, settings, home)
    part = np.empty(len(ends), np.int32)  # (E,)
    _ebv(ends.u, ends.v, len(ends), parts, hosts, limit, settings, home, copies, copies.shape[1], part)
    return part


def place_by_worth(
    ends: Ends, copies: NDArray[np.uint8], loads: NDArray[np.int64], *, limit: int, lam: float, eps: float,
    degrees: NDArray[np.int64] | None = None,
) -> NDArray[np.int32]:  # fmt: skip
    """Assign each edge to the part with the highest HDRF score (Petroni et al., CIKM 2015), the first on a tie.

    Args:
        ends: the edges.
        copies: existing replicas as bits; updated in place.
        loads: number of edges of each part so far, int64 ``(P,)``; updated in place.
        limit: largest number of edges of a part.
        lam: λ, weight of the balance term.
        eps: ε, which keeps the balance term finite.
        degrees: degrees of the nodes, int64 ``(N,)``; ``None``: partial degrees, counted while edges are assigned.

    Returns:
        The part of each edge, int32 ``(E,)``.

    Example:
        >>> copies, two = empty_copies(3, 2), Ends(np.array([0, 1], np.int32), np.array([1, 2], np.int32))
        >>> place_by_worth(two, copies, np.zeros(2, np.int64), limit=2, lam=1.0, eps=1.0).tolist()
        [0, 0]
    """
    _check_room(ends, len(loads), limit, int(loads.sum()))
    # Without degrees the loop counts them in this array, edge by edge.
    counts = degrees is None
    tally = np.zeros(len(copies), np.int64) if degrees is None else degrees
    settings = np.array([lam, eps])
    if not native.active(_CPU):
        return reference.place_by_worth(ends.u, ends.v, copies, loads, limit, lam, eps, tally, counts=counts)
    part = np.empty(len(ends), np.int32)  # (E,)
    _hdrf(ends.u, ends.v, len(ends), len(loads), limit, settings, counts, tally, loads, copies, copies.shape[1], part)
    return part


def choose_masters(copies: NDArray[np.uint8], *, parts: int, hosts: int = 1) -> NDArray[np.int64]:
    """Choose a master for each node: a replica on the host with most of them, on the worker with the fewest mirrors.

    On a tie the worker with the fewest masters, then the lowest rank. A node without replicas gets the worker with the
    fewest masters. Mirrors are those of the masters chosen so far.

    Returns:
        The part of each node's master, int64 ``(N,)``.

    Example:
        >>> choose_masters(np.array([[0b011], [0b011], [0b100], [0]], np.uint8), parts=3).tolist()
        [0, 1, 2, 0]
    """
    if not native.active(_CPU):
        return reference.choose_masters(copies, parts, hosts)
    owner = np.empty(len(copies), np.int64)  # (N,)
    _masters(np.ascontiguousarray(copies), copies.shape[1], len(copies), parts, hosts, owner)
    return owner


def _check_room(ends: Ends, parts: int, limit: int, load: int = 0) -> None:
    if len(ends) + load > parts * limit:
        raise ValueError(f"{parts} parts of at most {limit} edges must hold {len(ends) + load}; raise the limit")
