"""Graphs whose edges have features, and models over them, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch import nn

import tests.nn.message_model
from gnnqlab.graph import Graph
from gnnqlab.nn import ModelSettings, build_model
from gnnqlab.nn.models.registry import _KINDS, MODELS, register_model
from tests.graphs import random_graph

WIDTH = 3


@pytest.fixture(autouse=True, scope="module")
def messages() -> Iterator[None]:
    """Register a model of messages, as a user does."""
    register_model(edges="rows")(tests.nn.message_model.messages)
    yield
    del MODELS["messages"], _KINDS["messages"]


def featured(**choices: Any) -> Graph:
    return random_graph(edge_features=WIDTH, **choices)


def network(graph: Graph, settings: ModelSettings) -> nn.Module:
    sizes = graph.num_features, graph.num_classes
    return build_model(settings, *sizes, seed=3, edge_features=graph.num_edge_features)
