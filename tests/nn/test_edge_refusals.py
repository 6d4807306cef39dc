"""Features of edges are refused, with alternatives, by parts that would ignore them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
import tests.nn.message_model
from gnnqlab.compute import Int8Products
from gnnqlab.exchange import Pipelined, Sequential
from gnnqlab.message.samplers import BoundarySampling
from gnnqlab.nn import LocalGraph, ModelSettings
from gnnqlab.nn.messages import MessageConvolution
from gnnqlab.nn.models.registry import _KINDS, MODELS, edges_in, find_model, is_stacked, model_home, register_model
from gnnqlab.partition import EBV, Random, build_shard
from gnnqlab.systems import cagnet, cdfgnn, feature_parallel, vanilla
from gnnqlab.train.batches import Batches, MiniBatchSettings
from gnnqlab.train.config.edges import require_edges
from gnnqlab.train.inference import logits as logits_of
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.nn.featured import WIDTH, featured, messages, network
from tests.nn.test_edge_weights import HALO, SETTINGS, shape

__all__ = ["messages"]

WAY_OUT = "got a graph whose edges have features; choose model gat or graphsage .*take graph.without_edge_features"


@each("name", ["gcn", "sgc", "gcnii", "jknet", "dagnn"])
def test_models_of_nodes_alone_refuse_them(name):
    graph = featured()
    with pytest.raises(ValueError, match=f"model {name} .*, {WAY_OUT}"):
        gq.configure(graph, model=name)
    shard = build_shard(graph, Random().assign(graph, 1), 0, 1)
    with pytest.raises(ValueError, match=f"model {name} .*, {WAY_OUT}"):
        worker_trainer(shard, vanilla(), shape(name), SETTINGS)
    bare = network(graph.without_edge_features(), shape(name))
    with pytest.raises(ValueError, match=f"model {name} was built without edge features, {WAY_OUT}"):
        bare(LocalGraph(graph).open_pass(0, training=False), graph.features)


def test_edge_feature_mode_of_a_registered_model_is_passed_to_new_processes():
    with pytest.raises(ValueError, match=r"edges must be one of \('none', 'sums', 'rows'\), got 'row'"):
        register_model(edges="row")(tests.nn.message_model.messages)
    home = model_home("messages")
    assert home["edges"] == "rows" and edges_in("messages") == "rows" and "edges" not in (model_home("gcn") or {})
    assert "stacked" not in home
    del MODELS["messages"], _KINDS["messages"]
    find_model("messages", home | {"stacked": True})
    assert edges_in("messages") == "rows" and is_stacked("messages")
    assert model_home("messages") == home | {"stacked": True}, "passed on to the next process"
    del MODELS["messages"], _KINDS["messages"]
    find_model("messages", home)
    assert not is_stacked("messages")


def test_messages_need_features():
    with pytest.raises(ValueError, match="edge_features must be at least 1, got 0; pass edge_features= to the graph"):
        MessageConvolution(3, 4, hidden=5, edge_features=0, generator=torch.Generator())


def test_a_model_and_a_graph_must_have_as_many():
    graph = featured()
    model = network(graph, shape("graphsage"))
    for other, came in ((random_graph(), 0), (random_graph(edge_features=2), 2)):
        with pytest.raises(ValueError, match=f"graphsage was built for 3 features per edge, got a graph with {came}; "):
            logits_of(model, other)


@each(
    ("name", "system", "text"),
    [
        ("graphsage", cdfgnn(), "exchange Replicas has parts of the sums over a node's edges, got a graph"),
        ("graphsage", cagnet(), "exchange Broadcast moves blocks of rows without their edges, got a graph"),
        ("gat", feature_parallel(), "exchange Columns splits the columns of rows, .*, got a graph"),
        (
            "gat",
            replace(HALO, schedule=Pipelined()),
            "each edge and its two rows, got schedule Pipelined, .*choose Synch",
        ),
        (
            "gat",
            replace(HALO, schedule=Sequential(depth=0)),
            "got schedule Sequential, which has the rows of one worker",
        ),
        ("gat", replace(HALO, sampler=BoundarySampling(p=0.5)), "got sampler BoundarySampling, .*; choose AllRows"),
        (
            "gat",
            replace(HALO, compute=Int8Products()),
            "got compute Int8.*, which does not support such terms; choose float32",
        ),
    ],
)
def test_systems_that_cannot_honour_them(name, system, text):
    graph = featured()
    with pytest.raises(ValueError, match=f"{text}.*without_edge_features"):
        require_edges(ModelSettings(name=name), system, WIDTH)
    with pytest.raises(ValueError, match=text):
        gq.configure(graph, model=name, system=system)
    require_edges(ModelSettings(name=name), system, 0)


def test_cuts_that_share_out_edges_refuse_them():
    graph = featured()
    with pytest.raises(ValueError, match=f"a vertex-cut distributes edges without their features, {WAY_OUT}"):
        EBV().cut(graph, 2).shard(graph, 0)
    with pytest.raises(ValueError, match=f"a block partition distributes edges without their features, {WAY_OUT}"):
        cagnet().partition.cut(graph, 2).shard(graph, 0)
    with pytest.raises(ValueError, match=f"a column partition distributes edges without their features, {WAY_OUT}"):
        feature_parallel().partition.cut(graph, 2).shard(graph, 0)


def test_mini_batches_and_probes_refuse_them():
    graph = featured()
    with pytest.raises(ValueError, match=f"mini-batches sample neighbours without the features .*{WAY_OUT}"):
        Batches(graph, MiniBatchSettings(batch_size=8), seed=0)
    with pytest.raises(ValueError, match="a probe predicts .*, got a graph whose edges have features; launch a short"):
        gq.probe(graph, model="graphsage", launched=False)


def test_attention_still_refuses_weights():
    graph = featured(weighted=True)
    with pytest.raises(ValueError, match="model gat weighs neighbours by attention"):
        gq.configure(graph, model="gat")
    model = network(graph, shape("gat"))
    with pytest.raises(ValueError, match="attention over features of edges weighs neighbours by attention"):
        model(LocalGraph(graph).open_pass(0, training=False), graph.features)
