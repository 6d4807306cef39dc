"""Arrays of a graph and quantities derived from them: sizes, degrees, symmetry, content hash.

Shape legend: N nodes, E edges, D features, F features of an edge, C classes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.edges import build_csr, edge_list
from gnnqlab.graph.features import Features, SparseRows
from gnnqlab.graph.ids import ClassNames, find_ids

__all__ = ["GraphArrays", "labelled_nodes"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GraphArrays:
    """Fields of a ``Graph``, which documents and checks them; no checks here."""

    name: str
    indptr: Tensor
    indices: Tensor
    features: Features
    labels: Tensor
    train_mask: Tensor
    val_mask: Tensor
    test_mask: Tensor
    num_classes: int
    edge_weights: Tensor | None = None
    edge_features: Tensor | None = None
    ids: np.ndarray | None = None
    class_names: ClassNames | None = None
    notes: tuple[str, ...] = ()

    # ---- sizes -------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """Number of nodes N."""
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Number of stored directed edges E, including self loops."""
        return self.indices.numel()

    @property
    def num_features(self) -> int:
        """Number of features per node, D."""
        return int(self.features.shape[1])

    @property
    def num_edge_features(self) -> int:
        """Number of features per edge, F; 0 without edge features."""
        return 0 if self.edge_features is None else int(self.edge_features.shape[1])

    @property
    def multi_label(self) -> bool:
        """True if a node may have several classes (scored by micro-F1, not accuracy)."""
        return self.labels.dim() == 2 and not self.is_regression

    @property
    def is_regression(self) -> bool:
        """True if the targets are numbers to predict (scored by R²), not classes."""
        return self.labels.is_floating_point()

    @property
    def is_labelled(self) -> Tensor:
        """True for each node with a label or target, bool ``(N,)``; with several labels per node for all nodes."""
        return labelled_nodes(self.labels)

    @property
    def num_labelled(self) -> int:
        """Number of nodes with a label or target; with several labels per node all nodes."""
        return int(self.is_labelled.sum())

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Number of training nodes of each class; empty if nodes may have several labels, or numbers as targets."""
        if self.labels.dim() == 2:
            return ()
        return tuple(torch.bincount(self.labels[self.train_mask], minlength=self.num_classes).tolist())

    @property
    def target_means(self) -> tuple[float, ...]:
        """Mean of each number to predict over the training nodes; empty for classes."""
        return tuple(self.labels[self.train_mask].double().mean(0).tolist()) if self.is_regression else ()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays().values()) + (0 if self.ids is None else self.ids.nbytes)

    # ---- structure ---------------------------------------------------------------------------

    @cached_property
    def in_degrees(self) -> Tensor:
        """Number of edges into each node, int64, shape ``(N,)``."""
        return self.indptr.diff()

    @cached_property
    def out_degrees(self) -> Tensor:
        """Number of edges out of each node, int64, shape ``(N,)``."""
        return torch.bincount(self.indices, minlength=self.num_nodes)

    @cached_property
    def weighted_in_degrees(self) -> Tensor:
        """Sum of the weights of edges into each node, float64 ``(N,)``; ``in_degrees`` without weights."""
        if self.edge_weights is None:
            return self.in_degrees
        _, dst = edge_list(self.indptr, self.indices)  # (E,)
        # In float64: in float32 small weights would be lost in the sum of a hub.
        return torch.bincount(dst, self.edge_weights.double(), minlength=self.num_nodes)

    @cached_property
    def weighted_out_degrees(self) -> Tensor:
        """Sum of the weights of edges out of each node, float64 ``(N,)``; ``out_degrees`` without weights."""
        if self.edge_weights is None:
            return self.out_degrees
        return torch.bincount(self.indices, self.edge_weights.double(), minlength=self.num_nodes)

    @cached_property
    def is_symmetric(self) -> bool:
        """True if every ``u -> v`` has its reverse, as often and with equal weights; edge features are ignored."""
        # A necessary condition, cheaper than the sort below.
        if not torch.equal(self.in_degrees, self.out_degrees):
            return False
        src, dst = edge_list(self.indptr, self.indices)
        as_stored: dict[str, Any] = {"symmetrize": False, "deduplicate": False, "self_loops": "keep"}
        reverse = build_csr(dst, src, self.edge_weights, num_nodes=self.num_nodes, **as_stored)  # transposed edges
        if not (torch.equal(reverse.indices, self.indices) and torch.equal(reverse.indptr, self.indptr)):
            return False
        if self.edge_weights is None or reverse.weights is None:
            return True
        # The weights of parallel edges may be stored in any order; build_csr sorts them for the comparison.
        stored_csr = build_csr(src, dst, self.edge_weights, num_nodes=self.num_nodes, **as_stored)
        return stored_csr.weights is not None and torch.equal(stored_csr.weights, reverse.weights)

    def edge_list(self) -> tuple[Tensor, Tensor]:
        """Return all stored edges as ``(src, dst)``, int32, shape ``(E,)`` each, sorted by destination."""
        return edge_list(self.indptr, self.indices)

    @cached_property
    def content_hash(self) -> str:
        """Hash of all arrays, ids, class names and ``num_classes``, without name and notes, as 32 hex digits."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(f"num_classes={self.num_classes}".encode())
        for field, array in self._arrays().items():
            # Names, types and shapes too: equal bytes of different arrays must have different hashes.
            digest.update(f"|{field}:{array.dtype}:{tuple(array.shape)}|".encode())
            digest.update(array.numpy().reshape(-1).view("uint8").data)  # the array's own memory, not copied
        # Absent in most graphs, whose hashes are those of versions that had neither.
        if self.ids is not None:
            digest.update(f"|ids:{self.ids.dtype}:{self.ids.shape}|".encode())
            digest.update(self.ids.view(np.uint8).data)
        if self.class_names is not None:
            digest.update(f"|class_names:{json.dumps(self.class_names)}".encode())
        return digest.hexdigest()

    def index_of(self, ids: object) -> Tensor:
        """Return the positions of the nodes with some ids, for splits and for rows of ``run.predict()``.

        Args:
            ids: one id or several, texts or integers as ``graph.ids``; without ``graph.ids`` they are the positions.

        Returns:
            int64 ``(n,)``, in the order of ``ids``.

        Raises:
            TypeError: if they are of another type than ``graph.ids``.
            ValueError: if no node has one of them; the message has the nearest id.
        """
        return find_ids(self.ids, ids, self.num_nodes)

    def id_of(self, node: int) -> str | int:
        """Return the id of the node in a position, for figures and errors."""
        return node if self.ids is None else self.ids[node].item()

    def _arrays(self) -> dict[str, Tensor]:
        """Return all arrays by their names on disk, in a fixed order."""
        features: dict[str, Tensor]
        if isinstance(self.features, SparseRows):
            features = {
                "feature_indptr": self.features.indptr,
                "feature_indices": self.features.indices,
                "feature_values": self.features.values,
            }
        else:
            features = {"features": self.features}
        return {
            "indptr": self.indptr,
            "indices": self.indices,
            # Absent arrays are left out, in the hash as on disk.
            **({} if self.edge_weights is None else {"edge_weights": self.edge_weights}),
            **({} if self.edge_features is None else {"edge_features": self.edge_features}),
            **features,
            "labels": self.labels,
            "train_mask": self.train_mask,
            "val_mask": self.val_mask,
            "test_mask": self.test_mask,
        }


def labelled_nodes(labels: Tensor) -> Tensor:
    """Return True for each node with a label (not -1) or target (not NaN), bool ``(N,)``.

    Example:
        >>> labelled_nodes(torch.tensor([0, -1])).tolist(), labelled_nodes(torch.tensor([[0.5], [torch.nan]])).tolist()
        ([True, False], [True, False])
    """
    if labels.is_floating_point():
        return ~labels.isnan().any(1)
    # Zeros and ones for several labels have no mark for unlabelled nodes.
    return torch.ones(labels.shape[0], dtype=torch.bool) if labels.dim() == 2 else labels >= 0
