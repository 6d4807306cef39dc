"""Stored graphs and shards of workers, written by several processes and machines at once."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph.link_split import split_links
from gnnqlab.partition import Random
from gnnqlab.partition.link_share import LinkShare
from gnnqlab.partition.parts import shard_path, store_shards
from gnnqlab.partition.shard import Shard, build_shard
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.shard_cache import HeldOutLinks, keep_graph, own_links, own_shard, partitioner_library
from tests.graphs import random_graph
from tests.slow_down import HANG_S

_CONTEXT = multiprocessing.get_context("forkserver")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))


def meanwhile(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, other: Callable[[], object]) -> None:
    """Run all of another process's work right after the first call of a function."""
    whole, seen = getattr(owner, name), []

    def called(*arguments: Any, **settings: Any) -> Any:
        result = whole(*arguments, **settings)
        if not seen:
            seen.append(name)
            other()
        return result

    monkeypatch.setattr(owner, name, called)


def test_a_shard_is_saved_while_another_process_saves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    shard = build_shard(graph, Random().assign(graph, 2), 0, 2)
    meanwhile(monkeypatch, np, "savez", lambda: shard.save(tmp_path / "rank0.npz"))
    shard.save(tmp_path / "rank0.npz")
    assert Shard.load(tmp_path / "rank0.npz").num_owned == shard.num_owned
    assert os.listdir(tmp_path) == ["rank0.npz"]


def test_concurrent_saves_of_one_graph_leave_a_complete_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    meanwhile(monkeypatch, np, "save", lambda: graph.save(tmp_path / "graph"))
    assert gq.Graph.load(graph.save(tmp_path / "graph")).content_hash == graph.content_hash
    assert os.listdir(tmp_path) == ["graph"]
    kept = [threading.Thread(target=keep_graph, args=(random_graph(seed=1),)) for _ in range(4)]
    for thread in kept:
        thread.start()
    for thread in kept:
        thread.join()
    assert gq.Graph.load(keep_graph(random_graph(seed=1))).content_hash == random_graph(seed=1).content_hash


def test_stored_graph_retains_its_name_and_has_a_safe_path() -> None:
    names = ["mine", "sbm:40,2,4", "../../a/b", "..", "n" * 300]
    paths = [Path(keep_graph(gq.load(random_graph(), name=name))) for name in names]
    assert [path.name for path in paths] == ["mine", "sbm:40,2,4", "-..-a-b", "graph", "n" * 80]
    assert {path.parent.name for path in paths} == {random_graph().content_hash}
    assert [gq.load(str(path)).name for path in paths] == names


class Counted(Random):
    """Cut at random; every cut adds a line to a file."""

    def cut(self, graph: Any, workers: int) -> Any:
        with open(Path(os.environ["GNNQLAB_CACHE"]).parent / "cuts", "a") as lines:
            lines.write(f"{os.getpid()}\n")
        return super().cut(graph, workers)


def _store(barrier: Any, cache: str) -> None:
    # the server that forks processes has the environment of the process that started it
    os.environ["GNNQLAB_CACHE"] = cache
    graph = random_graph()
    barrier.wait()
    store_shards(graph, Counted(), 2)


def test_processes_at_once_cut_a_graph_once(tmp_path: Path) -> None:
    barrier = _CONTEXT.Barrier(4)
    several = [_CONTEXT.Process(target=_store, args=(barrier, os.environ["GNNQLAB_CACHE"])) for _ in range(4)]
    for process in several:
        process.start()
    for process in several:
        process.join(HANG_S)
    assert [process.exitcode for process in several] == [0] * 4
    assert len((tmp_path / "cuts").read_text().split()) == 1
    (folder,) = (tmp_path / "cache" / "shards").iterdir()
    assert sorted(os.listdir(folder)) == ["rank0.npz", "rank1.npz"]


def test_partial_shard_of_a_killed_writer_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    folder = store_shards(graph, Random(), 2)
    shard_path(folder, 1).rename(folder / ".0123.partial-rank1.npz")
    store_shards(graph, Random(), 2)
    assert sorted(os.listdir(folder)) == ["rank0.npz", "rank1.npz"]


def test_machines_with_one_run_folder_have_each_its_own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shard(node: int, local_rank: int, rank: int) -> Shard:
        monkeypatch.setenv("GNNQLAB_NODE", str(node))
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / f"cache{node}"))
        return own_shard("sbm:60,3,6", Random(), rank=rank, workers=4, run=tmp_path, heartbeat=Heartbeat(None))

    # The second machine is earlier: the workers of the first machine must not use its file.
    assert [shard(1, 0, 2).rank, shard(0, 0, 0).rank, shard(0, 1, 1).rank, shard(1, 1, 3).rank] == [2, 0, 1, 3]
    folders = [json.loads(path.read_text())["folder"] for path in sorted(tmp_path.glob("shards*.json"))]
    assert [Path(folder).parents[1].name for folder in folders] == ["cache1", "cache0"]
    assert partitioner_library(tmp_path) is None


@dataclass(frozen=True)
class Told(Random):
    """Records the number of hosts of a run."""

    def on_hosts(self, hosts):
        raise RuntimeError(f"told of {hosts} hosts")


@pytest.mark.parametrize(("settings", "hosts"), [({}, 1), ({"hosts": 2, "link": "1gbit"}, 2)])
def test_partitioner_receives_the_number_of_hosts_of_the_run(tmp_path, settings, hosts):
    from gnnqlab.train.loop.fit import fit

    system = dataclasses.replace(gq.systems.vanilla(), partition=Told())
    config = gq.configure("sbm:60,3,6", system=system, workers=4, **settings)
    with pytest.raises(RuntimeError, match=f"told of {hosts} hosts"):
        fit(config, tmp_path, 0, 4, Heartbeat(None))


def test_a_file_that_cannot_be_trained_on_is_refused_before_it_is_cut(tmp_path: Path) -> None:
    bare = gq.Graph.from_edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), num_nodes=3)
    bare.save(tmp_path / "bare")
    cut = []

    class Counted(Random):
        def cut(self, *asked: Any) -> Any:
            cut.append(asked)
            return super().cut(*asked)

    config = gq.configure("digits", workers=1)
    with pytest.raises(ValueError, match="training needs"):
        own_shard(
            str(tmp_path / "bare"), Counted(), rank=0, workers=1, run=tmp_path, heartbeat=Heartbeat(None),
            expect=config.task.require_graph,
        )  # fmt: skip
    assert cut == []


def test_links_are_held_back_before_the_cut_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gq.load("sbm:60,3,6")

    def made(seed: int, name: str) -> list[tuple[Shard, LinkShare]]:
        (run := tmp_path / name).mkdir()
        held = HeldOutLinks(0.1, 0.2, seed)
        shards = [
            own_shard("sbm:60,3,6", Random(), rank=rank, workers=2, run=run, heartbeat=Heartbeat(None), held=held)
            for rank in range(2)
        ]
        return [(shard, own_links(run, rank)) for rank, shard in enumerate(shards)]

    first = made(1, "first")
    split = split_links(whole, val=0.1, test=0.2, seed=1)
    assert sum(shard.num_edges for shard, _ in first) == split.graph.num_edges < whole.num_edges
    assert sorted(torch.cat([links.numbers for _, links in first]).tolist()) == list(range(split.kinds.numel()))
    for shard, links in first:
        assert torch.equal(links.owner[shard.owned].unique(), torch.tensor([shard.rank], dtype=torch.int32))
        assert torch.equal(links.kinds, split.kinds[links.numbers])
    assert not torch.equal(made(2, "other")[0][1].kinds, first[0][1].kinds)
    monkeypatch.setattr("gnnqlab.train.shard_cache.load", None)  # a stored graph is not loaded again
    assert torch.equal(made(1, "again")[1][1].targets, first[1][1].targets)


def test_a_file_is_read_again_once_readers_take_more_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []
    monkeypatch.setattr("gnnqlab.train.shard_cache.load", lambda source: loads.append(source) or gq.load(source))

    def made(name: str) -> None:
        (run := tmp_path / name).mkdir()
        own_shard("sbm:60,3,6", Random(), rank=0, workers=1, run=run, heartbeat=Heartbeat(None))

    made("first")
    made("again")
    assert len(loads) == 1
    monkeypatch.setattr("gnnqlab.train.shard_cache._READING", 3)
    made("by a later reader")
    assert len(loads) == 2
