"""Ids of nodes and names of classes: conversion, checks, search, and their way through a graph."""

from __future__ import annotations

import re
import uuid

import numpy as np
import pandas as pd
import pytest
import torch

from gnnqlab.graph import Graph
from gnnqlab.graph.ids import as_ids
from tests.cases import each


def pair(**fields: object) -> Graph:
    return Graph.from_edges([0], [1], **{"num_nodes": 2, "labels": [0, 1], "train_idx": [0], **fields})  # type: ignore[arg-type]


@each(
    "ids",
    [
        ["b", "a"],
        [7, 3],
        [2**63, 5],
        [2**63 + 1, 2**64 - 1],
        [10**22, 3],
        [uuid.UUID(int=5), uuid.UUID(int=2)],
        pd.Series(["x", "y"]),
        pd.Series(["x", "y"], dtype="string"),
        np.array([2**64 - 1, 0], dtype=np.uint64),
        torch.tensor([9, 8]),
    ],
)
def test_ids_are_stored_exactly_and_found_again(ids: object) -> None:
    graph = pair(ids=ids)
    texts = [str(value.item() if isinstance(value, torch.Tensor) else value) for value in ids]  # type: ignore[attr-defined]
    assert [str(graph.id_of(node)) for node in range(2)] == texts
    assert graph.ids is not None
    assert graph.index_of(graph.ids[::-1]).tolist() == [1, 0]


@each("ids", [None, [0, 1], np.arange(2, dtype=np.uint8), torch.arange(2)])
def test_ids_that_are_the_positions_are_not_stored(ids: object) -> None:
    graph = pair(ids=ids)
    assert graph.ids is None
    assert graph.index_of([1, 0]).tolist() == [1, 0]
    assert graph.content_hash == pair().content_hash


@each(
    ("ids", "error", "text"),
    [
        (["a", "a"], ValueError, "ids must be unique, got 'a' for the nodes in positions 0 and 1"),
        (["a"], ValueError, "ids must be one for each of 2 nodes, got shape (1,)"),
        ([0.5, 1.5], TypeError, "ids of nodes must be integers or text, all of one type, got float"),
        (np.array([0.5, 1.5]), TypeError, "ids of nodes must be integers or text, got float64"),
        (["a", 1], ValueError, None),
        ([None, "a"], TypeError, "got NoneType, str"),
    ],
)
def test_wrong_ids_are_refused(ids: object, error: type[Exception], text: str | None) -> None:
    if text is None:  # NumPy makes texts of a list of texts and numbers, which is what a table would hold
        assert as_ids(ids, 2).tolist() == ["a", "1"]  # type: ignore[union-attr]
        return
    with pytest.raises(error, match=re.escape(text)):
        pair(ids=ids)


def test_unknown_id_is_named_with_the_nearest() -> None:
    graph = pair(ids=["user-01", "user-02"])
    with pytest.raises(ValueError, match=re.escape("got 'user-03'; did you mean 'user-0")):
        graph.index_of(["user-01", "user-03"])
    with pytest.raises(TypeError, match="ids of this graph are text, got integers such as 1"):
        graph.index_of([1])
    with pytest.raises(ValueError, match=re.escape("got 9; ids are for instance [7, 3]")):
        pair(ids=[7, 3]).index_of([7, 9])


def test_ids_and_names_stay_with_derived_graphs_and_change_the_hash() -> None:
    graph = pair(ids=["b", "a"], labels=["red", None], notes=["read so"])
    assert graph.class_names == ("red",)
    assert graph.labels.tolist() == [0, -1]
    for other in (graph.with_edge_rules(self_loops="remove"), graph.with_split([0]), graph.without_edge_weights()):
        assert [other.id_of(0), other.class_names, other.notes] == ["b", ("red",), ("read so",)]
    hashes = {each.content_hash for each in (graph, graph._replace(ids=None), graph._replace(class_names=("blue",)))}
    assert len(hashes) == 3
    assert graph.describe()["class_names"] == ["red"]
    assert "read so" in graph._repr_html_()
    assert "<td style='text-align:right'>b, a</td>" in graph._repr_html_()


@each(
    ("names", "text"),
    [
        (["a"], "class_names must be one for each of 2 classes, got 1"),
        (["a", "a"], "class_names must be unique, got 'a' twice"),
        ([None, "a"], "class_names must be a tuple of texts or numbers"),
    ],
)
def test_wrong_class_names_are_refused(names: list[object], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        pair(class_names=names)
