"""The partition of a run: from stored shards, from the same cut without them, and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph.sources import load
from gnnqlab.partition.parts import store_shards
from tests.run.test_trained_run import made


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def shared(run: gq.Run) -> Path:
    """Do the first worker's part: cut the graph, and record the folder of the shards."""
    config = run.config
    folder = store_shards(load(config.graph), config.system_on_hosts.partition, config.workers)
    (run.folder / "shards.json").write_text(json.dumps({"folder": str(folder), "links": None}))
    return folder


@pytest.mark.parametrize("partition", ["random", "ebv"])
def test_it_is_the_one_that_was_shared_out(tmp_path: Path, cache: Path, partition: str) -> None:
    system = {"ebv": "cdfgnn"}.get(partition, "vanilla")
    graph = gq.load("sbm:60,3,6")
    run = made(tmp_path, "run", "sbm:60,3,6", workers=3, partition=partition, system=system)
    kept = shared(run)
    before = run.parts()
    asked = gq.partition(graph, run.config.system_on_hosts.partition, workers=3)
    assert torch.equal(before.owner, asked.owner) and before.graph.content_hash == graph.content_hash
    assert before.quality.halo_rows.tolist() == asked.quality.halo_rows.tolist()
    shutil.rmtree(kept)
    assert torch.equal(run.parts().owner, before.owner), "computed again"


def test_parts_of_a_run_use_stored_shards_without_partitioning_again(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path, "run", "sbm:60,3,6", workers=2)
    shared(run)
    monkeypatch.setattr("gnnqlab.run.own_parts.partition", None)
    assert run.parts().workers == 2


def test_parts_of_a_link_run_exclude_the_held_out_links(tmp_path: Path, cache: Path) -> None:
    run = made(tmp_path, "run", "sbm:60,3,6", workers=2, task="links")
    whole = load("sbm:60,3,6")
    from gnnqlab.run.own_parts import _graph_of

    graph = _graph_of(run)
    folder = store_shards(graph, run.config.system_on_hosts.partition, 2)
    (run.folder / "shards.json").write_text(json.dumps({"folder": str(folder), "links": "x"}))
    assert run.parts().graph.num_edges == graph.num_edges < whole.num_edges


def test_parts_without_shards_or_the_original_graph_raise_value_error(tmp_path: Path, cache: Path) -> None:
    run = made(tmp_path, "young", "sbm:60,3,6", workers=2)
    with pytest.raises(ValueError, match="run young without a record of its shards; wait for its first epoch"):
        run.parts()
    place = tmp_path / "graph"
    gq.load("sbm:60,3,6").save(place)
    run = made(tmp_path, "changed", str(place), workers=2)
    shared(run)
    shutil.rmtree(place)
    with pytest.raises(ValueError, match="graph of run changed must be found to restore its partition"):
        run.parts()
    gq.load("sbm:60,3,7").save(place)
    with pytest.raises(ValueError, match="must be the one that was partitioned, got another"):
        run.parts()
