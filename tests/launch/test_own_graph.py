"""Launches with graphs of other libraries: trained, listed by their names, or refused before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.launch.start import launch
from gnnqlab.run import disk_usage
from gnnqlab.train.inference import logits
from tests.launch.conftest import Bench


def whole() -> gq.Graph:
    return gq.load("sbm:60,3,6", name="sbm")


def test_a_graph_of_dgl_trains_as_the_graph_it_is(bench: Bench) -> None:
    pytest.importorskip("dgl", reason="DGL is not installed")
    bench.set(GNNQLAB_CACHE=bench.root / "cache")
    settings = {"workers": 2, "partition": "random", "layers": 2, "hidden": 8, "epochs": 3, "dropout": 0.0}
    folder = bench.root / "runs"
    one, other = (
        launch(graph, out=folder, wait=True, **settings)  # type: ignore[arg-type]
        for graph in (whole().to_dgl(), whole())
    )
    assert one.status == other.status == "finished", (one.errors, other.errors)
    losses = [run.records.groupby("epoch")["loss"].first().tolist() for run in (one, other)]
    assert len(losses[0]) == 3 and losses[0] == losses[1]
    # Of one content, each by its own name: in the run's summary, in tables, and in stored files.
    assert [Path(run.summary["graph"]).name for run in (one, other)] == ["dgl", "sbm"]
    assert {Path(run.summary["graph"]).parent.name for run in (one, other)} == {whole().content_hash}
    disk_usage.prune_cache(folder)
    assert gq.load(one.summary["graph"]).content_hash == gq.load(other.summary["graph"]).content_hash
    disk_usage.delete_run(one)
    disk_usage.delete_run(other)
    assert disk_usage.prune_cache(folder)["graphs"] > 0 and not any((bench.root / "cache" / "graphs").iterdir())


def test_features_of_edges_train_and_predict(bench: Bench) -> None:
    bench.set(GNNQLAB_CACHE=bench.root / "cache")
    plain = whole()
    of_edges = torch.randn(plain.num_edges, 2, generator=torch.Generator().manual_seed(0))
    graph = replace(plain, edge_features=of_edges)
    settings = {"workers": 2, "partition": "random", "layers": 2, "hidden": 8, "epochs": 2}
    run = launch(graph, model="gat", out=bench.root / "runs", wait=True, **settings)  # type: ignore[arg-type]
    assert run.status == "finished", run.errors
    assert torch.equal(run.predict(), logits(run.model(), graph)) and run.embeddings().shape == (60, 8)
    assert {"convolutions.0.weight_edge", "convolutions.1.a_edge"} <= set(run.model().state_dict())


@pytest.mark.parametrize(
    ("lacking", "text"),
    [
        ({"x": None}, "graph 'pyg' has no features; pass features and labels when building the graph"),
        ({"y": None}, "graph 'pyg' has no labels, train split; "),
        ({"edge_attr": torch.rand(2)}, "from_pyg takes one weight per edge .*, got edge_attr; "),
        ({"edge_weight": torch.tensor([1.0, -1.0])}, "edge weights must be finite and not negative .*, got -1.0 on"),
    ],
)
def test_untrainable_graph_raises_value_error_and_starts_no_run(
    tmp_path: Path, lacking: dict[str, object], text: str
) -> None:
    given = {"edge_index": torch.tensor([[0, 1], [1, 2]]), "x": torch.eye(3), "y": torch.tensor([0, 1, 0])}
    with pytest.raises(ValueError, match=text):
        launch(SimpleNamespace(**{**given, **lacking}), out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_error_for_graph_without_split_explains_how_to_add_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    bare = gq.Graph.from_edges([0, 1], [1, 2], num_nodes=3, features=torch.eye(3), labels=[0, 1, 0], name="mine")
    with pytest.raises(
        ValueError, match=r"'mine' has no train split; .* a split with graph.with_split\(.*random_split"
    ):
        launch(bare, out=tmp_path / "runs")
    assert gq.configure(bare.with_random_split()).graph.endswith("/mine")
