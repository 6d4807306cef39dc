"""Prepare the shards of a graph: load it, partition it once, cache the shards by content, load one worker's."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from gnnqlab.atomic import locked, write_text
from gnnqlab.errors import LaunchRefused
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.link_split import split_links
from gnnqlab.graph.sources import load
from gnnqlab.graph.sources.catalogue import is_downloaded
from gnnqlab.graph.sources.sizes import least_size
from gnnqlab.graph.storage import is_saved_graph
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
from gnnqlab.terminal import show_elapsed
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.records.machine import machine_file
from gnnqlab.train.writable import require_writable

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = [
    "HeldOutLinks", "check_same_partition", "find_shards", "held_out_links", "is_first_on_machine", "keep_graph",
    "own_links", "own_shard", "partitioner_library", "prepare_shards", "prepared_graph", "require_cache",
    "shards_on_machine",
]  # fmt: skip

_READING = 2
"""Version of the graph readers, part of a source's digest: raised when they read more of it (2: edge features)."""
_LONG_S = 24 * 3600.0
"""Limit reported to the guard: loading and partitioning a large graph may take hours."""


@dataclass(frozen=True)
class HeldOutLinks:
    """Shares of the edges held out before partitioning; see :func:`gnnqlab.graph.link_split.split_links`."""

    val: float
    test: float
    seed: int


def held_out_links(config: RunConfig) -> HeldOutLinks | None:
    """Return the links that a run holds out, ``None`` if it classifies nodes."""
    task = config.task
    return HeldOutLinks(task.val_share, task.test_share, config.train.seed) if task.task == "links" else None


def require_cache() -> None:
    """Raise if the cache of graphs and shards cannot be written.

    Raises:
        LaunchRefused: with the folder and the environment variable that selects it.
    """
    way_out = "set GNNQLAB_CACHE to a folder that can be written"
    try:
        folder = cache_folder()
    except RuntimeError as error:  # no HOME, and no home of this user in the system's list
        raise LaunchRefused(f"the cache must have a folder, got no HOME: {error}; {way_out}") from error
    purpose = "the cache (GNNQLAB_CACHE)" if os.environ.get("GNNQLAB_CACHE") else "the cache (below HOME)"
    require_writable(folder, purpose=purpose, way_out=way_out)


def keep_graph(graph: Graph, place: Path | None = None) -> str:
    """Save a graph from memory for the workers; return its path: a folder named by content hash, then the graph's name.

    So tables and reports, which show the last part of a path, show the graph's name. ``place`` is the folder of such
    graphs, by default in the cache.
    """
    if place is None:
        require_cache()
    folder = (place or cache_folder() / "graphs") / graph.content_hash
    path = folder / _file_name(graph.name)
    if not path.exists():
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not path.exists():  # checked again: another process may have held the lock
                graph.save(path)
    return str(path)


def _file_name(name: str) -> str:
    """Return a graph's name without characters that a file name cannot have.

    Example:
        >>> _file_name("sbm:40,2,4"), _file_name("a/b"), _file_name("..")
        ('sbm:40,2,4', 'a-b', 'graph')
    """
    usable_name = "".join("-" if character in "/\\" or not character.isprintable() else character for character in name)
    return usable_name.strip(" .")[:80] or "graph"


def own_shard(
    source: str,
    partitioner: Partitioner,
    *,
    rank: int,
    workers: int,
    run: Path,
    heartbeat: Heartbeat,
    held: HeldOutLinks | None = None,
    expect: Callable[[Graph], None] | None = None,
) -> Shard:
    """Return one worker's shard; on each machine one worker loads and partitions, the others wait for it.

    A cached partition is used without loading the graph. If links are held out, the shard is part of the graph without
    them, and :func:`own_links` returns this worker's links. ``expect`` raises for a graph that cannot be trained on,
    before it is partitioned.
    """
    marker = run / _marker()
    if is_first_on_machine(rank):
        folder, links = _find_cached(source, partitioner, workers, held) or _store(
            source, partitioner, workers, heartbeat.phase, held, expect
        )
        write_text(marker, json.dumps({"folder": str(folder), "links": links}))
    else:
        heartbeat.phase("partition", limit_s=_LONG_S)
        # A file, not a collective: partitioning may take longer than the timeout of the process group.
        while not marker.exists():
            time.sleep(0.02)
        folder = Path(json.loads(marker.read_text())["folder"])
    heartbeat.phase("load", limit_s=600.0)
    return load_shard(folder, partitioner, rank)


def is_first_on_machine(rank: int) -> bool:
    """Return True for the worker that loads and partitions the graph for the workers of its machine."""
    return int(os.environ.get("LOCAL_RANK", rank)) == 0


def shards_on_machine(run: Path) -> Path:
    """Return the folder of the shards that this worker was given by :func:`own_shard`."""
    return Path(json.loads((run / _marker()).read_text())["folder"])


def prepare_shards(config: RunConfig, expect: Callable[[Graph], None]) -> None:
    """Load, check and partition a graph of files in this process, unless its shards are cached for the workers.

    So a broken file, or one that cannot be downloaded, raises in the launching process, and is not read again by a
    worker. ``configure`` has checked the parameters of a generated graph, and a graph from memory.

    Args:
        config: configuration of the run.
        expect: raises for a graph that the run cannot train on.

    Raises:
        LaunchRefused: if shards must be stored and the cache cannot be written.
    """
    partitioner, held = config.system_on_hosts.partition, held_out_links(config)
    if partitioner.partition_every:
        require_cache()  # for the graph, which workers read in every period
    # The cache may be read-only if it has the shards already.
    if _find_cached(config.graph, partitioner, config.workers, held) is not None:
        # A run that needs no features may have stored the shards of a graph without them.
        note = json.loads(_note(config.graph, held).read_text())
        config.task.require_features(config.graph, note.get("num_features", 1))
    else:
        require_cache()
        if is_downloaded(config.graph) or _is_file(config.graph):
            _store(config.graph, partitioner, config.workers, lambda name, **limits: None, held, expect)


def _is_file(source: str) -> bool:
    """Return True for a graph that is read from a file or folder, also from ``FOLDER:NAME``."""
    folder, colon, _ = source.rpartition(":")
    is_generated = least_size(source) is not None if colon else False
    return Path(source).expanduser().exists() or (
        bool(colon) and not is_generated and Path(folder).expanduser().is_dir()
    )


def own_links(run: Path, rank: int) -> LinkShare:
    """Return one worker's links, which were distributed when its shard was made; see :func:`own_shard`."""
    record = json.loads((run / _marker()).read_text())
    return LinkShare.load(_links_path(Path(record["folder"]), record["links"], rank))


def partitioner_library(run: Path) -> str | None:
    """Return the library that partitioned this run's graph, in this run or in an earlier one that cached the shards."""
    return kept_library(shards_on_machine(run))


def check_same_partition(shard: Shard) -> None:
    """Raise if shards belong to different partitions, as machines without a common cache can make; also a barrier."""
    # Sent rows of each worker are a row of counts[1], received rows a column of counts[0]; the sum completes both.
    counts = torch.zeros(2, shard.workers, shard.workers, dtype=torch.int64)  # rows from sender (dim 1) to receiver
    plan = shard.plan("forward")
    counts[0, :, shard.rank] = plan.received_rows
    counts[1, shard.rank] = plan.sent_rows
    counts = counts.to("cuda") if dist.get_backend() == "nccl" else counts
    dist.all_reduce(counts)
    if not torch.equal(counts[0], counts[1]):
        raise RuntimeError(
            "workers must hold shards of one partition, got different numbers of rows to send and to receive; use one "
            "folder GNNQLAB_CACHE for all machines, or choose the partition Random(), on the command line --partition "
            "random"
        )


def prepared_graph(source: str, run: Path, rank: int) -> Graph:
    """Return the graph of a run from a folder that all workers of a machine read, made by the first of them."""
    marker = run / machine_file("graph")
    if is_first_on_machine(rank) and not (marker.exists() and is_saved_graph(Path(marker.read_text()))):
        write_text(marker, source if is_saved_graph(Path(source)) else keep_graph(load(source)))
    while not (marker.exists() and is_saved_graph(Path(marker.read_text()))):
        time.sleep(0.02)
    return Graph.load(marker.read_text())


def find_shards(run: Path) -> Path | None:
    """Return the folder of the shards on the first machine of a run; ``None`` if the run has no record of it."""
    try:
        # The first machine has the plain name, unless machines are named.
        marker = min(run.glob(f"{_SHARDS}*.json"), key=lambda path: len(path.name))
        return Path(json.loads(marker.read_text())["folder"])
    except (OSError, ValueError, KeyError):
        return None


_SHARDS = "shards"


def _marker() -> str:
    """Return the name of the file with the shards' path, one per machine because each may have its own cache."""
    return machine_file(_SHARDS)


def _note(source: str, held: HeldOutLinks | None) -> Path:
    """Return the file that maps a source to the hash of its content, to find cached shards without loading a graph."""
    return cache_folder() / "sources" / f"{_source_digest(source, held)}.json"


def _find_cached(
    source: str, partitioner: Partitioner, workers: int, held: HeldOutLinks | None
) -> tuple[Path, str | None] | None:
    """Return the folder of cached shards and the digest in the names of its link files, if any; ``None`` if missing."""
    try:
        facts = json.loads(_note(source, held).read_text())
        folder, links = shard_folder(facts["content"], partitioner, workers), facts.get("links")
    except (OSError, RuntimeError, ValueError, TypeError, KeyError):  # no note, no home, or a note cut off by a crash
        return None
    if has_shards(folder, workers) and (links is None or _has_links(folder, links, workers)):
        return folder, links
    return None


def _store(
    source: str,
    partitioner: Partitioner,
    workers: int,
    phase: Callable[..., None],
    held: HeldOutLinks | None,
    check_graph: Callable[[Graph], None] | None,
) -> tuple[Path, str | None]:
    """Load, check, hold out links, partition and store the shards; return the same as :func:`_find_cached`."""
    phase("load", limit_s=_LONG_S)
    graph, split, links = load(source), None, None
    if check_graph is not None:
        check_graph(graph)
    phase("partition", limit_s=_LONG_S)
    if held is not None:
        split = split_links(graph, val=held.val, test=held.test, seed=held.seed)
        links = _digest([graph.content_hash, *dataclasses.astuple(held)])  # other shares have other files
        graph = split.graph
    with show_elapsed("partitioning the graph"):
        folder = store_shards(graph, partitioner, workers, progress=lambda rank: phase("partition", limit_s=_LONG_S))
    if split is not None and links is not None:
        # A link belongs to the worker that owns its source.
        owner = owner_of(folder, workers, graph.num_nodes)
        for rank, share in enumerate(share_links(split, owner, workers)):
            share.save(_links_path(folder, links, rank))
    # Written last, so that a note never names shards or links that do not exist yet.
    note = _note(source, held)
    facts = {"content": graph.content_hash, "links": links, "num_features": graph.num_features}
    note.parent.mkdir(parents=True, exist_ok=True)
    write_text(note, json.dumps(facts))
    return folder, links


def _links_path(folder: Path, links: str, rank: int) -> Path:
    return folder / f"links-{links}-rank{rank}.npz"


def _has_links(folder: Path, links: str, workers: int) -> bool:
    return all(_links_path(folder, links, rank).exists() for rank in range(workers))


def _source_digest(source: str, held: HeldOutLinks | None) -> str:
    """Return a digest of everything that can change a source's content: its name, data folder, file sizes and times."""
    facts: list[object] = [source, os.environ.get("GNNQLAB_DATA"), os.getcwd(), _version(), _READING]
    # Size and time of files stand for their content, which would take long to hash.
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
