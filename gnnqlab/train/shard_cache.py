"""From a graph's name to this worker's shard on disk, partitioned once and found again by content."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gnnqlab.atomic import locked, write_text
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.link_split import split_links
from gnnqlab.graph.sources import load
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.link_share import LinkShare, share_links
from gnnqlab.partition.parts import (
    cache_folder,
    has_shards,
    kept_library,
    load_shard,
    owner_of,
    shard_folder,
    store_shards,
)
from gnnqlab.partition.shard import Shard
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.records.machine import node_name, this_node

__all__ = ["HeldLinks", "keep_graph", "kept_shards", "own_links", "own_shard", "partitioner_library"]

_READING = 2
"""Rises when readers take more of a source than notes from before know of; 2 since they take features of edges."""
_LONG_S = 24 * 3600.0
"""Loading and partitioning may take hours on a large graph; the guard is told so."""


@dataclass(frozen=True)
class HeldLinks:
    """Which edges are held back before the graph is cut; see :func:`gnnqlab.graph.link_split.split_links`."""

    val: float
    test: float
    seed: int


def keep_graph(graph: Graph, place: Path | None = None) -> str:
    """Save a graph from memory where workers can load it; return its path: a folder named by content, then its name.

    So tables and reports, which call a path by its last part, call the graph by its name. ``place`` is the folder of
    such graphs; the cache's by default.
    """
    home = (place or cache_folder() / "graphs") / graph.content_hash
    path = home / _file_name(graph.name)
    if not path.exists():
        with locked(home.with_name(f"{home.name}.lock")):
            if not path.exists():
                graph.save(path)
    return str(path)


def _file_name(name: str) -> str:
    """Return a graph's name as a folder can have it.

    Example:
        >>> _file_name("sbm:40,2,4"), _file_name("a/b"), _file_name("..")
        ('sbm:40,2,4', 'a-b', 'graph')
    """
    usable = "".join("-" if character in "/\\" or not character.isprintable() else character for character in name)
    return usable.strip(" .")[:80] or "graph"


def own_shard(
    source: str,
    partitioner: Partitioner,
    *,
    rank: int,
    workers: int,
    run: Path,
    heartbeat: Heartbeat,
    held: HeldLinks | None = None,
    expect: Callable[[Graph], None] | None = None,
) -> Shard:
    """Return one worker's shard; on each machine one worker loads and partitions, the others wait for it.

    A partition that was made before is read from the cache without loading the graph at all. Where links are held back,
    the shard is one of the graph without them, and :func:`own_links` has this worker's. ``expect`` refuses a graph that
    cannot be trained on, before it is cut.
    """
    marker = run / _marker()
    if int(os.environ.get("LOCAL_RANK", rank)) == 0:
        folder, links = _shards(source, partitioner, workers, heartbeat, held, expect)
        write_text(marker, json.dumps({"folder": str(folder), "links": links}))
    else:
        heartbeat.phase("partition", limit_s=_LONG_S)
        while not marker.exists():
            time.sleep(0.02)
        folder = Path(json.loads(marker.read_text())["folder"])
    heartbeat.phase("load", limit_s=600.0)
    return load_shard(folder, partitioner, rank)


def own_links(run: Path, rank: int) -> LinkShare:
    """Return one worker's links, which were shared out when its shard was made; see :func:`own_shard`."""
    made = json.loads((run / _marker()).read_text())
    return LinkShare.load(_links_path(Path(made["folder"]), made["links"], rank))


def partitioner_library(run: Path) -> str | None:
    """Return the library that cut this run's graph, in this run or in an earlier one whose shards it found."""
    return kept_library(Path(json.loads((run / _marker()).read_text())["folder"]))


def kept_shards(run: Path) -> Path | None:
    """Return the folder where the first machine of a run found its shards; ``None`` if the run does not say."""
    try:
        return Path(json.loads((run / node_name(_SHARDS, 0)).read_text())["folder"])
    except (OSError, ValueError, KeyError):
        return None


_SHARDS = "shards"


def _marker() -> str:
    """Name of the file by which a machine's workers learn where shards are: a cache may be each machine's own."""
    return node_name(_SHARDS, this_node())


def _shards(
    source: str,
    partitioner: Partitioner,
    workers: int,
    heartbeat: Heartbeat,
    held: HeldLinks | None,
    expect: Callable[[Graph], None] | None,
) -> tuple[Path, str | None]:
    """Return the folder of the shards, and what the links are called there, if there are any."""
    note = cache_folder() / "sources" / f"{_source_digest(source, held)}.json"
    if note.exists():
        known = json.loads(note.read_text())
        folder, links = shard_folder(known["content"], partitioner, workers), known.get("links")
        if has_shards(folder, workers) and (links is None or _has_links(folder, links, workers)):
            return folder, links
    heartbeat.phase("load", limit_s=_LONG_S)
    graph, split, links = load(source), None, None
    if expect is not None:
        expect(graph)
    heartbeat.phase("partition", limit_s=_LONG_S)
    if held is not None:
        split = split_links(graph, val=held.val, test=held.test, seed=held.seed)
        links = _digest([graph.content_hash, *dataclasses.astuple(held)])
        graph = split.graph
    folder = store_shards(
        graph, partitioner, workers, progress=lambda rank: heartbeat.phase("partition", limit_s=_LONG_S)
    )
    if split is not None and links is not None:
        owner = owner_of(folder, workers, graph.num_nodes)
        for rank, share in enumerate(share_links(split, owner, workers)):
            share.save(_links_path(folder, links, rank))
    note.parent.mkdir(parents=True, exist_ok=True)
    write_text(note, json.dumps({"content": graph.content_hash, "links": links}))
    return folder, links


def _links_path(folder: Path, links: str, rank: int) -> Path:
    return folder / f"links-{links}-rank{rank}.npz"


def _has_links(folder: Path, links: str, workers: int) -> bool:
    return all(_links_path(folder, links, rank).exists() for rank in range(workers))


def _source_digest(source: str, held: HeldLinks | None) -> str:
    """Name a source by what would change its content: its text, the data folder, and a file's size and age."""
    facts: list[object] = [source, os.environ.get("GNNQLAB_DATA"), os.getcwd(), _version(), _READING]
    path = Path(source)
    if path.exists():
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        facts += [[str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    return _digest(facts if held is None else [*facts, *dataclasses.astuple(held)])


def _digest(facts: list[object]) -> str:
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=12).hexdigest()


def _version() -> str:
    from gnnqlab import __version__

    return __version__
