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
    has_replica = _unpacked(copies, parts)  # (N, P) bool: replicas so far
    edges_of, nodes_of, load = np.zeros(parts, np.int64), np.zeros(parts, np.int64), np.zeros(parts)
    part_of = np.empty(len(u), np.int32)  # (E,)
    for e, (a, b) in enumerate(zip(u.tolist(), v.tolist())):
        num_remote = np.zeros(parts, np.int64)  # (P,): ends without a replica on the part's host
        for node in (a, b):
            at_home = np.zeros(hosts, bool)
            np.logical_or.at(at_home, host_of, has_replica[node])  # unbuffered: several parts share a host
            if home is not None:
                at_home[home[node]] = True
            num_remote += ~at_home[host_of]
        num_missing = (~has_replica[a]).astype(np.int64) + ~has_replica[b]  # (P,): ends without a replica on the part
        cost = (1.0 - gamma) * num_missing + gamma * num_remote + load
        cost[edges_of >= limit] = np.inf  # full parts cannot be chosen
        part = int(cost.argmin())  # the first part on a tie
        part_of[e] = part
        edges_of[part] += 1
        for node in (a, b):
            # Counted before it is set, so that both ends of a self-loop count once.
            nodes_of[part] += not has_replica[node, part]
            has_replica[node, part] = True
        # Only the load of the chosen part has changed.
        load[part] = alpha * float(edges_of[part]) / edge_share + beta * float(nodes_of[part]) / node_share
    _pack(has_replica, copies)  # in place: the matrix of the caller
    return part_of


def place_by_worth(
    u: NDArray[np.int32], v: NDArray[np.int32], copies: NDArray[np.uint8], loads: NDArray[np.int64], limit: int,
    lam: float, eps: float, degrees: NDArray[np.int64], *, counts: bool,
) -> NDArray[np.int32]:  # fmt: skip
    """Assign edges one by one by HDRF's score."""
    has_replica = _unpacked(copies, len(loads))
    part_of = np.empty(len(u), np.int32)
    for e, (a, b) in enumerate(zip(u.tolist(), v.tolist())):
        if counts:  # partial degrees, of the edges assigned so far
            degrees[a] += 1
            degrees[b] += 1
        total = float(degrees[a]) + float(degrees[b])
        # The end of lower degree is worth more, so hubs are replicated in place of it.
        worth_a, worth_b = 1.0 + (1.0 - float(degrees[a]) / total), 1.0 + (1.0 - float(degrees[b]) / total)
        max_load = loads.max()
        # (P,), in [0, 1): 0 for the fullest part.
        balance = (max_load - loads).astype(np.float64) / (eps + float(max_load - loads.min()))
        score = (np.where(has_replica[a], worth_a, 0.0) + np.where(has_replica[b], worth_b, 0.0)) + lam * balance
        score[loads >= limit] = -np.inf  # full parts cannot be chosen
        part = int(score.argmax())
        part_of[e] = part
        loads[part] += 1
        has_replica[a, part] = has_replica[b, part] = True
    _pack(has_replica, copies)
    return part_of


def choose_masters(copies: NDArray[np.uint8], parts: int, hosts: int) -> NDArray[np.int64]:
    """Choose masters node by node, by the rule of the public function."""
    has_replica = _unpacked(copies, parts)
    on_host = has_replica.reshape(len(has_replica), hosts, parts // hosts).sum(2)  # (N, P) -> (N, hosts)
    host_of = np.arange(parts) // (parts // hosts)
    mirrors, count = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    owner = np.full(len(has_replica), -1, np.int64)
    for node in np.flatnonzero(has_replica.any(1)).tolist():
        # Replicas on the host with most of them, the first such host on a tie.
        candidates = np.flatnonzero(has_replica[node] & (host_of == on_host[node].argmax())).tolist()
        master = min(candidates, key=lambda part: (mirrors[part], count[part], part))
        owner[node] = master
        mirrors[master] += int(has_replica[node].sum()) - 1  # replicas other than the master
        count[master] += 1
    for node in np.flatnonzero(owner < 0).tolist():
        owner[node] = int(count.argmin())  # nodes without replicas
        count[owner[node]] += 1
    return owner


def _unpacked(copies: NDArray[np.uint8], parts: int) -> NDArray[np.bool_]:
    return np.unpackbits(copies, axis=1, bitorder="little")[:, :parts].astype(bool)  # (N, ceil(P / 8)) -> (N, P)


def _pack(has_replica: NDArray[np.bool_], copies: NDArray[np.uint8]) -> None:
    copies[:] = np.packbits(has_replica, axis=1, bitorder="little")
