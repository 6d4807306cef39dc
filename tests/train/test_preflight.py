"""A run that cannot fit is refused before it starts; the estimate is never more than the workers' memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.graph import load
from gnnqlab.graph.sources.sizes import least_size
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random
from gnnqlab.run.run import runs
from gnnqlab.systems import make_system
from gnnqlab.train import preflight
from gnnqlab.train.config.configure import configure
from gnnqlab.tune.memory import predict_memory
from tests.cases import each

SMALL = "sbm:300,4,8"


@each("source", ["digits", SMALL, "rmat:8,6", "web:300,6"])
def test_a_size_is_never_more_than_the_graph_has(source: str, tmp_path: Path) -> None:
    graph = load(source)
    for known, exact in ((least_size(source), False), (least_size(graph.save(tmp_path / "saved")), True)):
        if known is not None:
            found = (graph.num_nodes, graph.num_edges, graph.num_features)
            least = (known.nodes, known.edges, known.features)
            assert all(a <= b for a, b in zip(least, found)) and (least == found or not exact)
            assert known.feature_bytes <= 4 * graph.num_nodes * graph.num_features
    assert least_size("reddit").nodes == 232_965 and least_size(tmp_path / "nothing.npz") is None


@each("model", sorted(MODELS))
def test_min_memory_is_at_most_the_memory_that_workers_hold(model: str) -> None:
    shape = ModelSettings(name=model, layers=4, hidden=32, dropout=0.0)
    exact = make_system("vanilla").replace(compute=gq.compute.ExactActivations(bits=2))
    rounded = make_system("vanilla").replace(compute=gq.compute.BFloat16Rows())
    for recipe in (make_system("vanilla"), rounded, *((exact, make_system("sar")) if model == "gcn" else ())):
        system = replace(recipe, partition=Random())
        least = preflight.min_memory(configure(SMALL, model=shape, system=system, workers=2))
        held = sum(predict_memory(SMALL, shape, system, workers=2).values())  # of the worker with the largest share
        assert least is not None and 0 < sum(least.values()) <= 2 * held


def test_run_that_exceeds_free_memory_is_refused_with_its_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(SMALL, layers=3, hidden=100, workers=3)
    numbers = 64 * 100 + 100 * 100
    expected = {"weights": 16 * 3 * numbers, "features": 4 * 300 * 64, "adjacency": 1200, "kept": 4 * 300 * 100 * 2}
    assert preflight.min_memory(config) == expected
    rounded = replace(config, system=replace(config.system, compute=gq.compute.BFloat16Rows()))
    assert preflight.min_memory(rounded) == {**expected, "kept": expected["kept"] // 2}
    monkeypatch.setattr(preflight, "free_bytes", lambda device, workers: sum(expected.values()))
    preflight.require_memory(config)
    monkeypatch.setattr(preflight, "free_bytes", lambda device, workers: sum(expected.values()) - 1)
    with pytest.raises(ValueError, match=r"must fit into memory, got at least .*B for 3 workers \(weights .*B, feat"):
        gq.launch(SMALL, layers=3, hidden=100, workers=3, out=tmp_path)
    assert runs(tmp_path) == []
    monkeypatch.setattr(preflight, "free_bytes", lambda device, workers: 10**9)
    with pytest.raises(
        ValueError, match=r"got at least 63.3 GB .*features 56.9 GB, adjacency 6.46 GB, .*choose fewer layers"
    ):
        preflight.require_memory(configure("papers100M", layers=1, hidden=8))


@pytest.mark.parametrize(("graph", "nodes"), [("digits", 1797), ("sbm:30,3,4", 30)])
def test_more_workers_than_nodes_raise_value_error_and_start_no_run(graph: str, nodes: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"each worker must own a node, got {nodes + 1} workers for {nodes} nodes"):
        gq.launch(graph, workers=nodes + 1, out=tmp_path)
    assert runs(tmp_path) == []


def test_least_size_of_digits_equals_the_loaded_graph() -> None:
    graph, size = gq.load("digits"), least_size("digits")
    assert size is not None
    assert (size.nodes, size.edges, size.features) == (graph.num_nodes, graph.num_edges, graph.num_features)


def test_memory_is_the_less_of_the_machines_and_the_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert preflight.free_bytes("cpu", 2) > 10**6
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 1000\n")
    monkeypatch.setattr(preflight, "_CGROUP", tmp_path)
    assert preflight.free_bytes("cpu", 2) == 2_001_000
    job = tmp_path / "jobs" / "7"
    job.mkdir(parents=True)
    for name, text in (("memory.max", "4000000"), ("memory.current", "3000000"), ("memory.stat", "inactive_file 0\n")):
        (job / name).write_text(text)
    (tmp_path / "membership").write_text("0::/jobs/7\n")
    monkeypatch.setattr(preflight, "_MEMBERSHIP", tmp_path / "membership")
    assert preflight.free_bytes("cpu", 2) == 1_000_000, "the limit of a job of a queue"
    (job / "memory.max").write_text("max")
    (tmp_path / "memory.max").write_text("max\n")
    assert preflight.free_bytes("cpu", 2) == pytest.approx(preflight._available(), rel=0.2)
    monkeypatch.setattr(preflight, "_available", lambda: None)
    assert preflight.free_bytes("cpu", 2) is None


def test_a_graph_from_memory_is_named_not_its_place_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path))
    graph = gq.load("sbm:40,2,4")
    with pytest.raises(ValueError, match=rf"got 50 workers for 40 nodes of {graph.name}; choose fewer"):
        gq.launch(graph, workers=50)
