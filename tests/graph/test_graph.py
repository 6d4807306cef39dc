"""Graph: its contents, its refusals and their messages."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from gnnqlab.graph import Graph, SparseRows
from tests.cases import each


def small(**changes: Any) -> Graph:
    """Return the path 0 - 1 - 2, two features, two classes."""
    given: dict[str, Any] = {
        "num_nodes": 3,
        "features": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        "labels": [0, 1, -1],
        "train_idx": [0],
        "val_idx": [1],
        "name": "path",
    }
    return Graph.from_edges([0, 1], [1, 2], **{**given, **changes})


def fields(graph: Graph, **changes: Any) -> dict[str, Any]:
    return {**{field.name: getattr(graph, field.name) for field in dataclasses.fields(graph)}, **changes}


# ---- contents -------------------------------------------------------------------------------


def test_sizes_and_degrees() -> None:
    g = small()
    assert (g.num_nodes, g.num_edges, g.num_features, g.num_classes, g.num_labelled) == (3, 7, 2, 2, 2)
    assert g.in_degrees.tolist() == g.out_degrees.tolist() == [2, 3, 2]
    assert g.in_degrees.dtype == g.out_degrees.dtype == torch.int64
    assert (g.train_idx.tolist(), g.val_idx.tolist(), g.test_idx.tolist()) == ([0], [1], [])
    assert g.has_split and not g.multi_label
    assert g.nbytes == 4 * 8 + 7 * 4 + 6 * 4 + 3 * 8 + 3 * 3


def test_directed_graph_keeps_its_direction() -> None:
    g = Graph.from_edges([0, 0], [1, 2], num_nodes=3, symmetrize=False, self_loops="remove")
    assert g.in_degrees.tolist() == [0, 1, 1]
    assert g.out_degrees.tolist() == [2, 0, 0]
    assert not g.is_symmetric


def test_equal_degrees_do_not_make_a_graph_symmetric() -> None:
    circle = Graph.from_edges([0, 1, 2], [1, 2, 0], num_nodes=3, symmetrize=False, self_loops="keep")
    assert torch.equal(circle.in_degrees, circle.out_degrees)
    assert not circle.is_symmetric
    assert circle.with_edge_rules(symmetrize=True).is_symmetric


def test_recorded_symmetry_equals_the_computed_symmetry() -> None:
    g = small()
    assert g.is_symmetric
    assert Graph(**fields(g)).is_symmetric


@each("argument", ["src", "dst", "edge_weights", "edge_features", "ids", "labels"])
def test_arrays_with_hidden_values_are_refused(argument: str) -> None:
    given: dict[str, Any] = {"src": [0, 1], "dst": [1, 0], "num_nodes": 2}
    hidden = np.ma.masked_array([0, 1], mask=[False, True])  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match=f"{argument.replace('_', ' ')} must have a value everywhere, .* 1 hidden"):
        Graph.from_edges(**{**given, argument: hidden})


def test_sparse_features_beyond_float32_are_refused() -> None:
    dense = np.array([[0.0, 1.0], [1e300, 0.0]])
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    for features in (sparse.csr_matrix(dense), torch.from_numpy(dense).to_sparse()):
        with pytest.raises(ValueError, match="range of float32, at most 3.4e38, got 1e.300 in row 1, column 0"):
            Graph.from_edges([0], [1], num_nodes=2, features=features)


def test_words_as_labels_may_be_missing() -> None:
    for missing in (None, float("nan")):
        graph = Graph.from_edges([0], [1], num_nodes=3, labels=["b", missing, "a"])
        assert (graph.labels.tolist(), graph.class_names) == ([1, -1, 0], ("a", "b"))


def test_labels_beyond_int64_are_refused() -> None:
    with pytest.raises(ValueError, match=r"labels must be below 2\*\*63, got 18446744073709551615; number"):
        Graph.from_edges([0], [1], num_nodes=2, labels=np.array([0, 2**64 - 1], dtype=np.uint64))


def test_masks_and_ids_mean_the_same() -> None:
    mask = np.array([True, False, False])
    assert torch.equal(small(train_idx=mask).train_mask, small().train_mask)


def test_multi_label() -> None:
    g = small(labels=np.array([[1.0, 0, 1], [0, 0, 0], [1, 1, 1]]))
    assert g.multi_label and g.num_classes == 3 and g.labels.dtype == torch.uint8 and g.num_labelled == 3


@each("convert", [np.asarray, torch.tensor, list, "rows", "scipy", "coo"])
def test_features_of_any_kind(convert: Any) -> None:
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    if convert == "scipy":
        from scipy.sparse import coo_array

        given: Any = coo_array(dense.numpy())
    elif convert == "coo":
        given = dense.to_sparse_coo()
    else:
        given = SparseRows.from_dense(dense) if convert == "rows" else convert(dense.tolist())
    features = small(features=given).features
    assert features.dtype == torch.float32
    assert torch.equal(features.to_dense(), dense)


def test_without_features_labels_and_splits() -> None:
    g = Graph.from_edges([0], [1], num_nodes=2, name="bare")
    assert g.features.shape == (2, 0) and g.num_classes == 0 and g.labels.tolist() == [-1, -1] and not g.has_split
    with pytest.raises(
        ValueError, match=r"graph 'bare' has no features, labels, train split; pass features and labels when building"
    ):
        g.check_trainable()
    with pytest.raises(ValueError, match="has no train split;"):
        small(train_idx=None, val_idx=None).check_trainable()
    small().check_trainable()


def test_with_split_and_with_edge_rules_keep_all_other_fields() -> None:
    g = small()
    other = g.with_split([1], None, [0])
    assert (other.train_idx.tolist(), other.val_idx.tolist(), other.test_idx.tolist()) == ([1], [], [0])
    assert other.indices is g.indices and g.train_idx.tolist() == [0]
    assert g.with_edge_rules() is g
    assert g.with_edge_rules(self_loops="remove").num_edges == 4
    assert g.with_edge_rules(self_loops="remove").with_edge_rules(self_loops="add").content_hash == g.content_hash


# ---- identity and display --------------------------------------------------------------------


def test_content_hash_is_stable_and_depends_on_every_array() -> None:
    g = small()
    assert g.content_hash == small(name="another").content_hash
    # Recorded once: a graph saved by an earlier version has the same identity.
    assert g.content_hash == "9ec9419634da75c675d76caff9b799d7"
    different = [
        small(features=[[0.0, 1.0], [2.0, 3.0], [4.0, 5.5]]),
        small(features=SparseRows.from_dense(g.features)),
        small(labels=[0, 0, -1], num_classes=2),
        small(num_classes=3),
        small(train_idx=[0, 1], val_idx=None),
        small(val_idx=None),
        small(self_loops="remove"),
    ]
    assert len({g.content_hash, *(other.content_hash for other in different)}) == 1 + len(different)


def test_describe_is_plain_and_html_never_raises() -> None:
    import json

    g = small(name="a<b")
    facts = json.loads(json.dumps(g.describe()))
    assert facts["nodes"] == 3 and facts["task"] == "single-label" and facts["undirected"] is True
    assert "a&lt;b" in g._repr_html_() and "<td style='text-align:right'>7</td>" in g._repr_html_()
    assert repr(g) == ("Graph('a<b', nodes=3, edges=7, features=2, classes=2, single-label, train/val/test=1/1/0)")
    broken = object.__new__(Graph)
    assert "cannot be described" in broken._repr_html_()


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        small().name = "other"  # type: ignore[misc]


# ---- refusals -------------------------------------------------------------------------------


@each(
    ("changes", "error", "text"),
    [
        ({"features": [[0.0], [1.0]]}, ValueError, "features must have one row per node, got 2 rows for 3 nodes"),
        (
            {"features": [[0.0], [float("nan")], [1.0]]},
            ValueError,
            "features must be finite, got nan in row 1, column 0; repair or drop that node",
        ),
        (
            {"features": [[0.0, 1.0], [2.0, 3.0], [4.0, float("-inf")]]},
            ValueError,
            "features must be finite, got -inf in row 2, column 1",
        ),
        ({"features": [1.0, 2.0, 3.0]}, TypeError, r"features must be real numbers of shape \(N, D\), got"),
        ({"features": ["a", "b", "c"]}, TypeError, "features must be numbers, got list that holds"),
        ({"labels": [0, 1]}, ValueError, "labels must have one row per node, got 2 rows for 3 nodes"),
        ({"labels": [0, -2, 1]}, ValueError, r"labels must lie in \[0, 2\) or be -1 \(unlabelled\), got -2 at node 1"),
        (
            {"labels": [0, 5, 1], "num_classes": 2},
            ValueError,
            r"labels must lie in \[0, 2\) or be -1 \(unlabelled\), got 5 at node 1; raise num_classes",
        ),
        ({"labels": [0.0, 1.0, 1.0]}, TypeError, r"labels must be integers of shape \(N,\) with -1 for unlabelled"),
        ({"labels": [[0, 2], [0, 1], [1, 1]]}, ValueError, "multi-label targets must be 0 or 1, got 2 at node 0"),
        (
            {"labels": [[0, 1], [0, 1], [1, 1]], "num_classes": 3},
            ValueError,
            "multi-label targets must have one column per class, .*, got 2 columns and num_classes=3",
        ),
        ({"num_classes": -1}, ValueError, "num_classes must be an integer of at least 0, got -1"),
        ({"train_idx": []}, ValueError, "train_idx must name at least one node, got none; leave it out"),
        ({"train_idx": [3]}, ValueError, r"train_idx must hold node ids in \[0, 3\), got 3 at position 0"),
        ({"train_idx": [0.5]}, TypeError, "train_idx must be a one-dimensional list of node ids or a boolean mask"),
        ({"train_idx": [True, False]}, ValueError, r"train_idx as a mask must have shape \(3,\), got \(2,\)"),
        (
            {"train_idx": [1]},
            ValueError,
            "splits must not overlap, got 1 nodes in both train and val, the first is node 1",
        ),
        (
            {"train_idx": None},
            ValueError,
            "the train split must not be empty when there is another split, got nodes only in val; pass train_idx",
        ),
        (
            {"test_idx": [2]},
            ValueError,
            "every node of a split must have a label, got 1 unlabelled nodes in test, the first is node 2",
        ),
        ({"name": ""}, ValueError, "name must be a non-empty string, got ''"),
    ],
)
def test_from_edges_errors(changes: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        small(**changes)


@each(
    ("changes", "error", "text"),
    [
        (
            {"indices": torch.zeros(7, dtype=torch.int64)},
            TypeError,
            r"indices must be a one-dimensional int32 tensor, got int64 of shape \(7,\); Graph.from_edges converts",
        ),
        ({"indptr": [0, 1]}, TypeError, "indptr must be a one-dimensional int64 tensor, got list"),
        (
            {"indptr": torch.tensor([0])},
            ValueError,
            "a graph must have between 1 and 2147483647 nodes, got indptr with 1",
        ),
        (
            {"indptr": torch.tensor([0, 2, 5, 6])},
            ValueError,
            "indptr of the graph must run from 0 to the number of indices, 7, got 0 to 6",
        ),
        (
            {"indptr": torch.tensor([0, 5, 2, 7])},
            ValueError,
            "indptr of the graph must never fall, got 5 then 2 at row 1",
        ),
        (
            {"indices": torch.tensor([0, 1, 0, 1, 2, 1, 3], dtype=torch.int32)},
            ValueError,
            r"indices of the graph must lie in \[0, 3\), got 3 in row 2",
        ),
        (
            {"indices": torch.tensor([-1, 1, 0, 1, 2, 1, 2], dtype=torch.int32)},
            ValueError,
            r"indices of the graph must lie in \[0, 3\), got -1 in row 0",
        ),
        (
            {"indices": torch.tensor([0, 1, 1, 0, 2, 1, 2], dtype=torch.int32)},
            ValueError,
            "indices of the graph must be ascending within a row, got 1 before 0 in row 1; Graph.from_edges sorts them",
        ),
        (
            {"features": torch.zeros(3, 2, dtype=torch.float64)},
            TypeError,
            r"features must be a two-dimensional float32 tensor, got float64 of shape \(3, 2\)",
        ),
        ({"features": torch.zeros(2, 3).T}, ValueError, r"features must be contiguous, got strides \(1, 3\)"),
        ({"features": torch.zeros(3, 2, device="meta")}, ValueError, "features must be in main memory, got .* on meta"),
        (
            {"labels": torch.zeros(3, dtype=torch.int32)},
            TypeError,
            r"labels must be int64 of shape \(N,\) .* for several, .* got int32 of shape \(3,\)",
        ),
        (
            {"labels": torch.full((3, 2), 2, dtype=torch.uint8)},
            ValueError,
            "multi-label targets must be 0 or 1, got 2 at node 0",
        ),
        (
            {"val_mask": torch.zeros(3, dtype=torch.uint8)},
            TypeError,
            "val_mask must be a one-dimensional bool tensor, got uint8",
        ),
        ({"val_mask": torch.zeros(4, dtype=torch.bool)}, ValueError, "val_mask must have one row per node, got 4 rows"),
        ({"num_classes": 1}, ValueError, r"labels must lie in \[0, 1\) or be -1 \(unlabelled\), got 1 at node 1"),
    ],
)
def test_constructor_errors(changes: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Graph(**fields(small(), **changes))


def test_errors_at_row_borders_are_not_invented() -> None:
    # Descending across a border of rows, with empty rows in between, is in order.
    g = Graph.from_edges([2, 0], [0, 3], num_nodes=5, symmetrize=False, self_loops="remove")
    assert (g.indptr.tolist(), g.indices.tolist()) == ([0, 1, 1, 1, 2, 2], [2, 0])


def test_a_late_bad_value_is_found() -> None:
    features = torch.ones(2**19 + 3, 33)  # more than one chunk of the scan
    features[-1, 7] = float("inf")
    with pytest.raises(ValueError, match=f"got inf in row {2**19 + 2}, column 7"):
        Graph.from_edges([0], [1], num_nodes=len(features), features=features)
