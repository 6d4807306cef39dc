"""The loops of `gnnqlab.kernels.sparse.vertex_cut` in NumPy, vectorized over the parts for each edge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["choose_masters", "place_by_cost", "place_by_worth"]


def place_by_cost(
    u: NDArray[np.int32], v: NDArray[np.int32], copies: NDArray[np.uint8], parts: int, hosts: int, limit: int,
    settings: NDArray[np.float64], home: NDArray[np.int32] | None,
) -> NDArray[np.int32]:  # fmt: skip
    """Assign edges one by one by CDFGNN Eq. 24."""
    alpha, beta, gamma, edge_share, node_share = settings.tolist()
    host_of = np.arange(parts) // (parts // hosts)  # (P,): consecutive parts share a host
    has = _unpacked(copies, parts)  # (N, P) bool: replicas so far
    edges_of, nodes_of, load = np.zeros(parts, np.int64), np.zeros(parts, np.int64), np.zeros(parts)
    part_of = np.empty(len(u), np.int32)  # (E,)
    for e, (a, b) in enumerate(zip(u.tolist(), v.tolist())):
        remote = np.zeros(parts, np.int64)  # (P,): ends without a replica on the part's host
        for node in (a, b):
            at_home = np.zeros(hosts, bool)
            np.logical_or.at(at_home, host_of, has[node])  # unbuffered: several parts share a host
            if home is not None:
                at_home[home[node]] = True
            remote += ~at_home[host_of]
        missing = (~has[a]).astype(np.int64) + ~has[b]  # (P,): ends without a replica on the part
        cost = (1.0 - gamma) * missing + gamma * remote + load
        cost[edges_of >= limit] = np.inf  # full parts cannot be chosen
        chosen = int(cost.argmin())  # the first part on a tie
        part_of[e] = chosen
        edges_of[chosen] += 1
        for node in (a, b):
            # Counted before it is set, so that both ends of a self-loop count once.
            nodes_of[chosen] += not has[node, chosen]
            has[node, chosen] = True
        # Only the load of the chosen part has changed.
        load[chosen] = alpha * float(edges_of[chosen]) / edge_share + beta * float(nodes_of[chosen]) / node_share
    _pack(has, copies)  # in place: the matrix of the caller
    return part_of


def place_by_worth(
    u: NDArray[np.int32], v: NDArray[np.int32], copies: NDArray[np.uint8], loads: NDArray[np.int64], limit: int,
    lam: float, eps: float, degrees: NDArray[np.int64], *, counts: bool,
) -> NDArray[np.int32]:  # fmt: skip
    """Assign edges one by one by HDRF's score."""
    has = _unpacked(copies, len(loads))
    part_of = np.empty(len(u), np.int32)
    for e, (a, b) in enumerate(zip(u.tolist(), v.tolist())):
        if counts:  # partial degrees, of the edges assigned so far
            degrees[a] += 1
            degrees[b] += 1
        both = float(degrees[a]) + float(degrees[b])
        # The end of lower degree is worth more, so hubs are replicated in place of it.
        worth_a, worth_b = 1.0 + (1.0 - float(degrees[a]) / both), 1.0 + (1.0 - float(degrees[b]) / both)
        most = loads.max()
        # (P,), in [0, 1): 0 for the fullest part.
        balance = (most - loads).astype(np.float64) / (eps + float(most - loads.min()))
        score = (np.where(has[a], worth_a, 0.0) + np.where(has[b], worth_b, 0.0)) + lam * balance
        score[loads >= limit] = -np.inf  # full parts cannot be chosen
        chosen = int(score.argmax())
        part_of[e] = chosen
        loads[chosen] += 1
        has[a, chosen] = has[b, chosen] = True
    _pack(has, copies)
    return part_of


def choose_masters(copies: NDArray[np.uint8], parts: int, hosts: int) -> NDArray[np.int64]:
    """Choose masters node by node, by the rule of the public function."""
    has = _unpacked(copies, parts)
    on_host = has.reshape(len(has), hosts, parts // hosts).sum(2)  # (N, P) -> (N, hosts)
    host_of = np.arange(parts) // (parts // hosts)
    mirrors, count = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    owner = np.full(len(has), -1, np.int64)
    for node in np.flatnonzero(has.any(1)).tolist():
        # Replicas on the host with most of them, the first such host on a tie.
        eligible = np.flatnonzero(has[node] & (host_of == on_host[node].argmax())).tolist()
        chosen = min(eligible, key=lambda part: (mirrors[part], count[part], part))
        owner[node] = chosen
        mirrors[chosen] += int(has[node].sum()) - 1  # replicas other than the master
        count[chosen] += 1
    for node in np.flatnonzero(owner < 0).tolist():
        owner[node] = int(count.argmin())  # nodes without replicas
        count[owner[node]] += 1
    return owner


def _unpacked(copies: NDArray[np.uint8], parts: int) -> NDArray[np.bool_]:
    return np.unpackbits(copies, axis=1, bitorder="little")[:, :parts].astype(bool)  # (N, ceil(P / 8)) -> (N, P)


def _pack(has: NDArray[np.bool_], copies: NDArray[np.uint8]) -> None:
    copies[:] = np.packbits(has, axis=1, bitorder="little")
