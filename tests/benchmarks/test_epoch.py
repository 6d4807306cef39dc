"""Whole epochs: comparable epochs are compared, and time outside all phases is not attributed to one."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from benchmarks.studies import epoch as bench
from gnnqlab.graph import Graph
from gnnqlab.graph.features import SparseRows
from gnnqlab.nn import ModelSettings
from gnnqlab.train.loop.phase_timer import PARTS, PHASES
from tests.cases import each
from tests.graphs import random_graph

SETTINGS = ModelSettings(layers=3, hidden=8, dropout=0.0)


def sparse_graph() -> Graph:
    graph = random_graph(nodes=40, edges=200, features=24)
    return graph._replace(features=SparseRows.from_dense(graph.features * (graph.features > 1)))


@each("model", ["gcn", "graphsage"])
def test_the_rival_on_stored_values_is_the_rival_on_dense_rows(model):
    pytest.importorskip("dgl", reason="DGL is not installed")
    from benchmarks.kernels.dgl_rival import Rival, as_csr, structure_of

    graph = sparse_graph()
    structure, shape = structure_of(graph), (graph.num_features, graph.num_classes)
    dense, sparse = (Rival(structure, model, SETTINGS, *shape, sparse=each) for each in (False, True))
    own = dict(sparse.named_parameters())
    assert len(own) == len(list(dense.parameters()))
    with torch.no_grad():
        for name, value in dense.named_parameters():
            target = own.get(name, own.get(name.replace("convolutions.0.bias", "convolutions.0.sums.bias")))
            target.copy_(torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name))))
            value.copy_(target)
    found, truth = sparse(as_csr(graph)), dense(graph.features.to_dense())
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-5)
    for network, logits in ((sparse, found), (dense, truth)):
        logits.square().sum().backward()
        assert all(parameter.grad is not None for parameter in network.parameters())
    torch.testing.assert_close(
        sparse.get_parameter("convolutions.1." + ("weight" if model == "gcn" else "fc_neigh.weight")).grad,
        dense.get_parameter("convolutions.1." + ("weight" if model == "gcn" else "fc_neigh.weight")).grad,
        rtol=1e-3, atol=1e-4,
    )  # fmt: skip
    with pytest.raises(ValueError, match="features must be sparse"):
        as_csr(random_graph(nodes=10, edges=20, features=4))


def test_sparse_input_is_timed_against_sparse_and_dense_against_dense(monkeypatch):
    raced = []

    def in_turn(contestants, path, model, repeats):
        raced.append(contestants)
        return {name: [2.0 if name == "ours" else 5.0] for name in contestants}

    monkeypatch.setattr(bench, "_time_epochs", in_turn)
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr("gnnqlab.graph.load", lambda path: sparse_graph())
    rows = bench._one_worker("physics", "path", 1)
    assert [row["case"].split(", one worker")[0] for row in rows[::2]] == [
        f"physics, {model}, {taken}" for model in ("gcn", "graphsage") for taken in ("sparse input", "dense input")
    ]
    sparse, dense = raced[:2]
    assert all(one.sparse for one in sparse.values()) and not any(one.sparse for one in dense.values())
    for race in raced:
        assert {name: (one.dgl, one.pages) for name, one in race.items()} == {
            "ours": (False, True), "dgl.nn": (True, False), "dgl.nn, pages kept": (True, True),
        }  # fmt: skip
    assert [row["goal"] for row in rows[:4]] == [1.8, None, 1.8, 3.0] and rows[0]["ratio"] == 2.5
    monkeypatch.setattr("gnnqlab.graph.load", lambda path: random_graph(nodes=10, edges=20, features=4))
    assert all("dense input" in row["case"] for row in bench._one_worker("sbm", "path", 1))


def test_time_outside_named_phases_is_not_counted_as_explained():
    parts = [part for phase in PHASES for part in PARTS.get(phase, (phase,))]
    seconds = {f"{part}_s": 1.0 for part in parts if part not in ("evaluate", "other")}
    record = {**seconds, "dense_s": 3.0, "evaluate_s": 50.0, "other_s": 4.0, "epoch_s": sum(seconds.values()) + 4.0}
    rows = bench._phase_shares("case", pd.DataFrame([record, record]))
    shares = {row["figure"]: row["value"] for row in rows}
    explained = shares.pop("share of the epoch that named phases explain")
    assert explained == pytest.approx(1 - 4.0 / record["epoch_s"]) == pytest.approx(sum(shares.values()))
    assert "share of the epoch: products" in shares and not any("dense" in name for name in shares)
    assert not rows[-1]["reached"]


def test_bench_runs_the_requested_graphs_and_models(monkeypatch):
    asked = []
    monkeypatch.setattr(
        bench, "_one_worker", lambda name, path, repeats, models: asked.append((name, path, models)) or []
    )
    monkeypatch.setattr(bench, "_two_workers", lambda name, path: [])
    bench.epoch(graph="sbm:60,3,6;own.npz", models=("gcn",))
    assert asked == [("sbm:60,3,6", "sbm:60,3,6", ("gcn",)), ("own.npz", "own.npz", ("gcn",))]


def test_over_a_link_they_are_the_link_s(monkeypatch):
    asked = {}
    monkeypatch.setattr(bench, "over_link", lambda repeats, **options: asked.update(options) or [])
    bench.epoch(comm_share=0.75, graph="sbm:60,3,6", models=("gat",), epochs=9)
    assert asked == {"link": None, "comm_share": 0.75, "graph": "sbm:60,3,6", "models": ("gat",), "epochs": 9}
