"""One worker's shard of a graph under an edge-cut.

Local ids: owned nodes first (central, then marginal), then halo nodes grouped by their owner. The
aggregation matrix of a shard has one row per owned node and one column per local id; its first rows are
those of central nodes, whose product needs no halo.

Letters: N owned, C central, H halo, B boundary (summed over peers), E edges, P workers.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gnnqlab.atomic import replacing
from gnnqlab.graph.features import SparseRows
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.partition.coefficients import aggregation_coefficients
from gnnqlab.partition.cut_edges import CutEdges, distinct
from gnnqlab.partition.plan import Plan, Route

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["Shard", "build_shard", "graph_fields", "weights_of"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shard:
    """One worker's shard: its owned nodes and their in-edges, boundary nodes to send, and halo nodes to receive.

    A node is *marginal* if one of its in-neighbours is in the halo, else *central*; a node is
    *boundary* for a peer that owns one of its out-neighbours. On a directed graph the two sets differ.
    """

    cuts: ClassVar[str] = "nodes"
    version: ClassVar[int] = 4
    """Version of the files that :meth:`save` writes and of the cuts: METIS cuts of version 2 were DGL's, files of
    version 3 had no counts of classes."""

    rank: int
    workers: int
    num_global_nodes: int
    num_central: int
    num_classes: int
    multi_label: bool
    global_train: int
    """Number of training nodes in the whole graph."""
    global_val: int
    global_test: int
    owned: Tensor
    """Global ids of owned nodes, central first, int64 ``(N,)``."""
    halo: Tensor
    """Global ids of halo nodes, grouped by owner, ascending within one, int64 ``(H,)``."""
    halo_splits: Tensor
    """Number of halo rows per owner, int64 ``(P,)``; zero for this rank."""
    boundary: Tensor
    """Local rows to send, grouped by receiver in the receiver's halo order, int64 ``(B,)``."""
    boundary_splits: Tensor
    """Number of rows to send per receiver, int64 ``(P,)``."""
    indptr: Tensor
    """CSR by destination over owned rows, int64 ``(N + 1,)``."""
    indices: Tensor
    """Local column ids, int32 ``(E,)``; columns from N on are halo nodes."""
    in_degrees: Tensor
    """Global in-degrees of local nodes, int64 ``(N + H,)``; sums of edge weights, float64, on a weighted graph."""
    out_degrees: Tensor
    """Global out-degrees of local nodes, likewise."""
    importance: Tensor
    """SYLVIE's importance factor of boundary nodes, in [0, 1], float32 ``(N + H,)``; 0 for other nodes."""
    features: Tensor | SparseRows
    """Features of owned nodes."""
    labels: Tensor
    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor
    edge_weights: Tensor | None = None
    """Weights of local edges in the order of ``indices``, float32 ``(E,)``, or ``None``."""
    edge_features: Tensor | None = None
    """Features of local edges likewise, float32 ``(E, F)``, stored with the edge's destination and never sent."""
    edge_coverage: Tensor | None = None
    """Factors of local edges in training sums without rows of other workers, likewise, float32 ``(E,)``: 1 over the
    probability that one worker owns both ends. ``None``: no correction."""
    class_counts: tuple[int, ...] = ()
    """Number of training nodes of each class in the whole graph; empty if nodes have several labels."""
    target_means: tuple[float, ...] = ()
    """Mean of each number to predict over the training nodes of the whole graph; empty for classes."""
    class_names: tuple[str | int | float | bool, ...] | None = None
    """Names of the classes in the order of ``labels``, for the model file; ``None`` if they are 0 to C - 1."""
    extract_s: float = float("nan")
    """Seconds that computing the importance took when the shard was built; NaN if not measured."""

    @property
    def num_owned(self) -> int:
        return self.owned.numel()

    @property
    def num_halo(self) -> int:
        return self.halo.numel()

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    @property
    def row_ids(self) -> Tensor:
        """Global ids of the rows that the model computes on this worker, int64 ``(N,)``."""
        return self.owned

    @property
    def num_columns(self) -> int:
        """Number of columns of the aggregation matrix: all rows that may be aggregated on this worker."""
        return self.num_owned + self.num_halo

    @property
    def num_marginal(self) -> int:
        """Number of owned nodes whose aggregation needs halo rows."""
        return self.num_owned - self.num_central

    @property
    def num_cut_edges(self) -> int:
        """Number of local edges between different owners."""
        return self.edges_of_copies

    def independent_edges(self, direction: str) -> int:
        """Count the edges that can be aggregated without remote rows, ``forward`` or ``backward``."""
        # Central rows come first; backward, edges from owned sources add to gradients that are not sent.
        return int(self.indptr[self.num_central]) if direction == "forward" else int((~self._of_copies).sum())

    @property
    def edges_of_copies(self) -> int:
        """Number of local edges with a halo source; with sampled boundary rows fewer of them are aggregated."""
        return int(self._of_copies.sum())

    @property
    def _of_copies(self) -> Tensor:
        return self.indices >= self.num_owned

    @property
    def rows_by_kind(self) -> dict[str, int]:
        """Number of local rows of each kind, halo last; summed over workers, a node counts once per copy."""
        return {"central": self.num_central, "marginal": self.num_marginal, "halo": self.num_halo}

    def plan(self, direction: str, device: torch.device | str = "cpu") -> Plan:
        """Return the exchange plan of one direction.

        ``forward``: send boundary rows, receive halo rows. ``backward``: send gradients of halo rows, receive gradients
        of boundary rows and add them.

        Raises:
            ValueError: if ``direction`` is neither.
        """
        if direction not in ("forward", "backward"):
            raise ValueError(f"direction must be 'forward' or 'backward', got {direction!r}")
        boundary, halo = self._boundary_routes(device), self._halo_routes(device)
        send, receive = (boundary, halo) if direction == "forward" else (halo, boundary)
        return Plan(self.rank, self.workers, send=send, receive=receive, accumulate=direction == "backward")

    def _boundary_routes(self, device: torch.device | str) -> tuple[Route, ...]:
        rows = self.boundary.split(self.boundary_splits.tolist())  # one tensor per receiver
        return tuple(
            Route(peer=peer, rows=rows[peer].to(device), ids=self.owned[rows[peer]].to(device), first=None)
            for peer in self._peers
        )

    def _halo_routes(self, device: torch.device | str) -> tuple[Route, ...]:
        rows, ids = (each.split(self.halo_splits.tolist()) for each in (torch.arange(self.num_halo), self.halo))
        firsts = [0, *itertools.accumulate(self.halo_splits.tolist())]  # (P + 1,) first halo row of each owner
        return tuple(
            Route(peer=peer, rows=rows[peer].to(device), ids=ids[peer].to(device), first=firsts[peer])
            for peer in self._peers
        )

    @property
    def _peers(self) -> list[int]:
        # Starting behind the own rank: no two workers address the same peer first.
        return [(self.rank + k) % self.workers for k in range(1, self.workers)]

    def alpha(self, kind: str) -> Tensor:
        """Compute α(u, v) of every local edge from *global* degrees (AdaQP Eq. 3).

        ``symmetric``: ``w / sqrt(d_out(u) d_in(v))``, the norm of GCN. ``mean``: ``w / d_in(v)``,
        GraphSAGE-mean. ``sum``: w. Degrees are sums of the weights w of edges, all 1 on a graph without weights, as in
        DGL's ``EdgeWeightNorm``; a degree of 0 divides by 1.

        Returns:
            float32 ``(E,)`` in the order of ``indices``.

        Raises:
            ValueError: if ``kind`` is none of these.
        """
        return aggregation_coefficients(
            kind, self.indptr, self.indices, self.in_degrees, self.out_degrees, self.edge_weights
        )

    def matrix(self, alpha: str) -> Adjacency:
        """Return the aggregation matrix with weights α, ``(rows, num_columns)``."""
        return Adjacency(self.indptr, self.indices, self.alpha(alpha), num_columns=self.num_columns)

    def save(self, path: Path) -> None:
        """Write the shard atomically to an ``.npz`` file without pickles; concurrent writers are safe."""
        arrays: dict[str, np.ndarray] = {}
        scalars: dict[str, object] = {"format": self.version}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, SparseRows):
                for part in ("indptr", "indices", "values"):
                    arrays[f"{field.name}.{part}"] = getattr(value, part).numpy()
                scalars[f"{field.name}.num_columns"] = value.num_columns
            elif isinstance(value, Tensor):
                arrays[field.name] = value.numpy()
            elif value is not None:
                scalars[field.name] = value
        # As bytes, since .npz files without pickles hold arrays only.
        with replacing(path) as partial_path, partial_path.open("wb") as file:
            np.savez(file, scalars=np.frombuffer(json.dumps(scalars).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Shard:
        """Read a shard written by :meth:`save`.

        Raises:
            ValueError: if the file is not a shard of this version.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                scalars = json.loads(file["scalars"].tobytes())
                arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != "scalars"}
        except (ValueError, KeyError, OSError) as error:
            raise ValueError(f"a shard must be an .npz written by Shard.save, {path} is not: {error}") from error
        if scalars.pop("format", None) != cls.version:
            raise ValueError(f"{path} was written by another version; delete it and partition again")
        if "features.num_columns" in scalars:
            arrays["features"] = SparseRows(  # type: ignore[assignment]
                indptr=arrays.pop("features.indptr"),
                indices=arrays.pop("features.indices"),
                values=arrays.pop("features.values"),
                num_columns=scalars.pop("features.num_columns"),
            )
        values: dict[str, Any] = {**scalars, **arrays}
        for name in ("class_counts", "target_means", "class_names"):  # JSON has lists only
            if name in values:
                values[name] = tuple(values[name])
        return cls(**values)


def build_shard(graph: Graph, owner: Tensor, rank: int, workers: int, *, cut_edges: CutEdges | None = None) -> Shard:
    """Cut one worker's :class:`Shard` out of a graph.

    Args:
        graph: the whole graph.
        owner: owner of every node, int64 ``(N_global,)``.
        rank: rank of the shard's worker.
        workers: P.
        cut_edges: cut edges of ``owner``; by default they are found, which takes as long as the shard itself.

    Raises:
        ValueError: if ``owner`` does not fit the graph or holds a worker outside ``[0, P)``.
    """
    _check_owner(graph, owner, workers)
    cut = CutEdges.from_owner(graph, owner) if cut_edges is None else cut_edges
    is_owned = owner == rank  # (N_global,)
    degrees = graph.in_degrees
    receivers = owner[cut.destination]  # (C,) workers
    is_remote = receivers == rank  # in-edges with a halo source

    # A node is marginal if one of its in-edges has a halo source.
    is_marginal = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_marginal[cut.destination[is_remote]] = True
    central_ids = (is_owned & ~is_marginal).nonzero().flatten()
    marginal_ids = (is_owned & is_marginal).nonzero().flatten()
    owned_ids = torch.cat([central_ids, marginal_ids])

    halo = distinct(cut.source[is_remote], graph.num_nodes)  # ascending
    halo = halo[torch.argsort(owner[halo], stable=True)]  # by owner; stable, so ascending within one
    halo_splits = owner[halo].bincount(minlength=workers)

    local_ids = torch.full((graph.num_nodes,), -1, dtype=torch.int32)  # global id -> local id
    local_ids[owned_ids] = torch.arange(owned_ids.numel(), dtype=torch.int32)
    local_ids[halo] = torch.arange(owned_ids.numel(), owned_ids.numel() + halo.numel(), dtype=torch.int32)

    # Each (receiver, node) pair once, in the receiver's halo order, so that messages carry no ids.
    is_leaving = owner[cut.source] == rank
    leaving, receivers = cut.source[is_leaving], receivers[is_leaving]
    sent_ids = [distinct(leaving[receivers == receiver], graph.num_nodes) for receiver in range(workers)]

    row_degrees = degrees[owned_ids]
    indptr = torch.zeros(owned_ids.numel() + 1, dtype=torch.int64)
    indptr[1:] = row_degrees.cumsum(0)
    # Index of each local edge in the graph: its row's offset there, minus the offset here, plus its index here.
    edge = torch.repeat_interleave(graph.indptr[owned_ids] - indptr[:-1], row_degrees)
    edge += torch.arange(edge.numel())

    nodes = torch.cat([owned_ids, halo])
    return Shard(
        **graph_fields(graph, rows=owned_ids, nodes=nodes, edges=edge),
        rank=rank,
        workers=workers,
        num_central=central_ids.numel(),
        owned=owned_ids,
        halo=halo,
        halo_splits=halo_splits,
        boundary=local_ids[torch.cat(sent_ids)].long(),
        boundary_splits=torch.tensor([ids.numel() for ids in sent_ids]),
        indptr=indptr,
        indices=local_ids[graph.indices[edge]],  # (E,) int32 local columns
        edge_features=None if graph.edge_features is None else graph.edge_features[edge],
        importance=cut.importance[nodes],
        extract_s=cut.extract_s,
    )


def _check_owner(graph: Graph, owner: Tensor, workers: int) -> None:
    if owner.shape != (graph.num_nodes,) or owner.dtype != torch.int64:
        raise ValueError(
            f"owner must be an int64 tensor of shape ({graph.num_nodes},), got {owner.dtype} {tuple(owner.shape)}"
        )
    if owner.numel() and not 0 <= int(owner.min()) <= int(owner.max()) < workers:
        raise ValueError(f"owners must lie in [0, {workers}), got values from {int(owner.min())} to {int(owner.max())}")


def graph_fields(
    graph: Graph, *, rows: Tensor, nodes: Tensor, edges: Tensor, masters: Tensor | None = None
) -> dict[str, Any]:
    """Collect the shard fields that do not depend on the kind of cut.

    Args:
        graph: the whole graph.
        rows: global ids of the local nodes with features, labels and masks.
        nodes: global ids of all local nodes, in the order of their local ids.
        edges: indices of the local edges in the graph, in the order of the shard's ``indices``.
        masters: True for rows that count in a split, bool; all by default.
    """
    counts = torch.ones(rows.numel(), dtype=torch.bool) if masters is None else masters
    features = graph.features
    return {
        "num_global_nodes": graph.num_nodes,
        "num_classes": graph.num_classes,
        "multi_label": graph.multi_label,
        "class_counts": graph.class_counts,
        "target_means": graph.target_means,
        "class_names": graph.class_names,
        "global_train": int(graph.train_mask.sum()),
        "global_val": int(graph.val_mask.sum()),
        "global_test": int(graph.test_mask.sum()),
        "edge_weights": weights_of(graph, edges),
        "in_degrees": graph.weighted_in_degrees[nodes],
        "out_degrees": graph.weighted_out_degrees[nodes],  # of halo nodes, too, for α of the edges from them
        "features": features.index_rows(rows) if isinstance(features, SparseRows) else features[rows],
        "labels": graph.labels[rows],
        "train_mask": graph.train_mask[rows] & counts,
        "val_mask": graph.val_mask[rows] & counts,
        "test_mask": graph.test_mask[rows] & counts,
    }


def weights_of(graph: Graph, edges: Tensor) -> Tensor | None:
    """Return the weights of some edges, or ``None`` on an unweighted graph."""
    return None if graph.edge_weights is None else graph.edge_weights[edges]
