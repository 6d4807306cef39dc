"""Checks of a whole graph, one rule per check.

Every message states the rule, the value and the way out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.graph.array_checks import (
    MAX_NODES,
    check_array,
    check_csr,
    check_rows,
    first_not_finite,
    refuse_not_finite,
    type_text,
)
from gnnqlab.graph.arrays import GraphArrays
from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.ids import check_class_names, check_ids

__all__ = ["check_graph", "check_shapes", "check_trainable"]


def check_graph(graph: GraphArrays) -> None:
    """Check a graph completely: types and shapes, then every value."""
    check_shapes(graph)
    # Structure before values: the errors of the next checks name an edge by its row.
    check_csr("graph", graph.indptr, graph.indices, graph.num_nodes, strict=False)  # parallel edges are allowed
    if graph.edge_weights is not None:
        _check_edge_weights(graph.edge_weights, graph.indptr, graph.indices)
    if graph.edge_features is not None:
        _check_edge_features(graph.edge_features, graph.indptr, graph.indices)
    # SparseRows are checked when they are made.
    if isinstance(graph.features, Tensor):
        _check_finite_rows(graph.features)
    _check_labels(graph)
    _check_splits(graph)
    check_ids(graph.ids, graph.num_nodes)
    check_class_names(graph.class_names, graph.num_classes)


def check_trainable(graph: GraphArrays, *, features: bool) -> None:
    """Check that a graph has labels and a train split, and features if the training needs them; see ``Graph``."""
    missing_parts = [
        part
        for part, is_present in (
            ("features", graph.num_features > 0 or not features),
            ("labels", graph.num_classes > 0 and graph.num_labelled > 0),
            ("train split", bool(graph.train_mask.any())),
        )
        if not is_present
    ]
    if missing_parts:
        way = ", set node_features (--node-features) to 'degree' or 'learned'" if "features" in missing_parts else ""
        raise ValueError(
            f"training needs features, labels and a train split, graph {graph.name!r} has no "
            f"{', '.join(missing_parts)}; pass features and labels when building the graph (Graph.from_edges, "
            f"from_dgl, read_edges ...){way}, add a split with graph.with_split(train_idx, val_idx, test_idx) or "
            "graph.with_random_split(), or use the graph for partitioning only"
        )


def check_shapes(graph: GraphArrays) -> None:
    """Check the arrays' types, shapes and devices, without reading their values."""
    if not isinstance(graph.name, str) or not graph.name:
        raise ValueError(f"name must be a non-empty string, got {graph.name!r}")
    check_array("indptr", graph.indptr, torch.int64, 1)
    check_array("indices", graph.indices, torch.int32, 1)
    num_nodes = graph.indptr.numel() - 1
    if not 1 <= num_nodes <= MAX_NODES:
        raise ValueError(
            f"a graph must have between 1 and {MAX_NODES} nodes, got indptr with "
            f"{graph.indptr.numel()} entries, that is {num_nodes} nodes"
        )
    if graph.edge_weights is not None:
        check_array("edge_weights", graph.edge_weights, torch.float32, 1)
        if graph.edge_weights.shape != graph.indices.shape:
            raise ValueError(
                f"edge_weights must be one for each of {graph.indices.numel()} edges, got {graph.edge_weights.numel()}"
            )
    if graph.edge_features is not None:
        check_array("edge_features", graph.edge_features, torch.float32, 2)
        if graph.edge_features.shape[0] != graph.indices.numel() or not graph.edge_features.shape[1]:
            raise ValueError(
                f"edge_features must have a row of at least one number for each of {graph.indices.numel()} edges, got "
                f"shape {tuple(graph.edge_features.shape)}; Graph.from_edges takes them in the order of src and dst"
            )
    if not isinstance(graph.features, SparseRows):
        check_array("features", graph.features, torch.float32, 2)
    check_rows("features", graph.features.shape[0], num_nodes)
    labels = graph.labels
    if not isinstance(labels, Tensor) or (labels.dtype, labels.dim()) not in (
        (torch.int64, 1),
        (torch.uint8, 2),
        (torch.float32, 2),
    ):
        raise TypeError(
            "labels must be int64 of shape (N,) for one class per node (-1 = unlabelled), uint8 of shape (N, C) for "
            f"several, or float32 of shape (N, K) for numbers to predict, got {type_text(labels)}"
        )
    check_array("labels", labels, labels.dtype, labels.dim())
    check_rows("labels", labels.shape[0], num_nodes)
    if not isinstance(graph.num_classes, int) or graph.num_classes < 0:
        raise ValueError(f"num_classes must be an integer of at least 0, got {graph.num_classes!r}")
    if labels.dim() == 2 and labels.shape[1] != graph.num_classes:
        raise ValueError(
            "multi-label targets must have one column per class, and numbers one per target, got "
            f"{labels.shape[1]} columns and num_classes={graph.num_classes}"
        )
    for field in ("train_mask", "val_mask", "test_mask"):
        check_array(field, getattr(graph, field), torch.bool, 1)
        check_rows(field, getattr(graph, field).numel(), num_nodes)


def _check_edge_weights(weights: Tensor, indptr: Tensor, indices: Tensor) -> None:
    if not weights.numel():
        return
    low, high = (float(x) for x in torch.aminmax(weights))  # both are NaN if any weight is
    if not 0 < low <= high < float("inf"):
        edge = int((~((weights > 0) & weights.isfinite())).to(torch.uint8).argmax())
        row = int(torch.searchsorted(indptr, edge, right=True)) - 1
        raise ValueError(
            f"edge_weights must be finite and above 0, got {float(weights[edge])} on the edge {int(indices[edge])} -> "
            f"{row}; Graph.from_edges leaves out edges of weight 0"
        )


def _check_edge_features(features: Tensor, indptr: Tensor, indices: Tensor) -> None:
    position = first_not_finite(features.reshape(-1))
    if position is not None:
        edge, column = divmod(position, features.shape[1])
        row = int(torch.searchsorted(indptr, edge, right=True)) - 1
        raise ValueError(
            f"edge_features must be finite, got {float(features[edge, column])} in column {column} of the edge "
            f"{int(indices[edge])} -> {row}; replace it, or build the graph without edge features"
        )


def _check_finite_rows(features: Tensor) -> None:
    position = first_not_finite(features.reshape(-1))
    if position is not None:
        row, column = divmod(position, features.shape[1])
        refuse_not_finite(row, column, float(features[row, column]))


def _check_labels(graph: GraphArrays) -> None:
    labels = graph.labels
    if graph.is_regression:
        is_part = labels.isnan().any(1) & ~labels.isnan().all(1)
        is_wrong = labels.isinf().any(1) | is_part
        if bool(is_wrong.any()):
            node = int(is_wrong.to(torch.uint8).argmax())
            raise ValueError(
                f"targets must be finite, or NaN in all columns of a node without, got {labels[node].tolist()} at node "
                f"{node}; replace them"
            )
        return
    # The extremes decide; a wrong label is searched only for the error.
    low, high = (int(x) for x in torch.aminmax(labels)) if labels.numel() else (0, 0)
    if graph.multi_label:
        if high > 1:
            node = int((labels > 1).any(1).to(torch.uint8).argmax())
            raise ValueError(f"multi-label targets must be 0 or 1, got {int(labels[node].max())} at node {node}")
        return
    if low < -1 or high >= max(graph.num_classes, 0):
        is_wrong = (labels < -1) | (labels >= graph.num_classes)
        if bool(is_wrong.any()):
            node = int(is_wrong.to(torch.uint8).argmax())
            raise ValueError(
                f"labels must lie in [0, {graph.num_classes}) or be -1 (unlabelled), got "
                f"{int(labels[node])} at node {node}; raise num_classes or renumber the labels"
            )


def _check_splits(graph: GraphArrays) -> None:
    masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
    # Splits are disjoint: a node of two splits would be trained on and tested.
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        is_shared = masks[first] & masks[second]
        if bool(is_shared.any()):
            raise ValueError(
                f"splits must not overlap, got {int(is_shared.sum())} nodes in both {first} and "
                f"{second}, the first is node {int(is_shared.to(torch.uint8).argmax())}; "
                f"remove them from one of the two"
            )
    # Without any split a graph can be partitioned, but not trained on.
    if not bool(masks["train"].any()):
        other_splits = [name for name in ("val", "test") if bool(masks[name].any())]
        if other_splits:
            raise ValueError(
                f"the train split must not be empty when there is another split, got nodes only in "
                f"{' and '.join(other_splits)}; pass train_idx, or no split at all"
            )
        return
    # A row of zeros is a valid multi-label target, so every node has a label.
    if graph.multi_label:
        return
    for name, mask in masks.items():
        is_unlabelled = mask & ~graph.is_labelled
        if bool(is_unlabelled.any()):
            raise ValueError(
                f"every node of a split must have a label, got {int(is_unlabelled.sum())} unlabelled "
                f"nodes in {name}, the first is node "
                f"{int(is_unlabelled.to(torch.uint8).argmax())}; remove them from the split"
            )
