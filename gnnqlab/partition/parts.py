"""Partition a graph into shards, in memory or stored on disk by content hash."""

from __future__ import annotations

import hashlib
import html
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.atomic import locked, replacing, sweep
from gnnqlab.attached import attached
from gnnqlab.axis_part import complete
from gnnqlab.graph.sources import load
from gnnqlab.partition.block_shard import BlockShard
from gnnqlab.partition.card import parts_card
from gnnqlab.partition.column_shard import ColumnCut, ColumnShard
from gnnqlab.partition.connections import measure_vertex_cut
from gnnqlab.partition.contiguous import BlockCut
from gnnqlab.partition.cut import Cut, NodeCut, Partitioner, on_hosts
from gnnqlab.partition.edge_cut import METIS
from gnnqlab.partition.quality import Quality, measure_quality
from gnnqlab.partition.replica_shard import ReplicaShard
from gnnqlab.partition.shard import Shard
from gnnqlab.partition.vertex_cut import VertexCut
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from gnnqlab.graph.convert.given import GraphLike
    from gnnqlab.graph.graph import Graph

__all__ = [
    "CUTS", "SHARDS", "Parts", "cache_folder", "cut_graph", "has_shards", "kept_library", "load_shard",
    "memory_estimate", "owner_of", "partition",
    "shard_folder", "shard_path", "store_shards",
]  # fmt: skip

_QUICK_EDGES = 2_000_000
"""Largest number of edges for which a card cuts the shards: less than about a second."""
LARGE = 10_000_000
"""Number of edges above which the memory estimate is printed before partitioning."""
QUICK_CUT_EDGES = 2_000_000
"""Number of edges above which an estimate makes a quick cut."""


CUTS: dict[str, type[NodeCut] | type[VertexCut]] = {
    "nodes": NodeCut, "edges": VertexCut, "blocks": BlockCut, "columns": ColumnCut,
}  # fmt: skip
"""``Partitioner.cuts`` -> class of the cut, for loading a stored one."""
_MEASURES: dict[str, Callable[..., Quality]] = {"edges": measure_vertex_cut}
"""``Cut.kind`` -> function that measures the cut without its shards; other kinds are measured from their shards."""


SHARDS: dict[str, type[Shard]] = {kind.cuts: kind for kind in (Shard, ReplicaShard, BlockShard, ColumnShard)}
"""``Partitioner.cuts`` -> class of a shard, for loading a stored one."""


@dataclass(frozen=True, eq=False)
class Parts:
    """A partitioned graph: the cut, its shards and its quality."""

    graph: Graph
    cut: Cut
    per_host: int

    @property
    def workers(self) -> int:
        return self.cut.workers

    @property
    def hosts(self) -> int:
        return self.workers // self.per_host

    @property
    def owner(self) -> Tensor:
        """Rank of each node's owner or master, int64 ``(N,)``."""
        return self.cut.owner

    @cached_property
    def shards(self) -> list[Shard]:
        return list(self.cut.build_shards(self.graph))

    @cached_property
    def quality(self) -> Quality:
        measure = _MEASURES.get(self.cut.kind)
        if measure is not None:
            return measure(self.cut, self.graph, per_host=self.per_host)
        return measure_quality(self.shards, per_host=self.per_host)

    def draw(self, show: str = "owner", **options: Any) -> Any:
        """Draw the partition, one cell per node; return a figure and its numbers.

        Args:
            show: ``owner``, ``halo``, ``bits`` or ``error``.
            **options: ``worker``, ``pair``, ``bits``, ``errors``, ``around`` and ``dark``, see
                `gnnqlab.lab.figures.graph_map.draw`.
        """
        return attached("parts.draw")(self, show, **options)

    def __repr__(self) -> str:
        empty = int((self.owner.bincount(minlength=self.workers) == 0).sum())
        # Vertex-cuts can leave workers with edges but without nodes of their own.
        without_nodes = f", {empty} of them empty: without own nodes" if empty else ""
        text = f"Parts({self.graph.name}, workers={self.workers}{without_nodes}, per_host={self.per_host})"
        # Only with a quality that was computed before: a repr must not cut the shards of a large graph.
        quality = self.__dict__.get("quality")
        return f"{text}: {quality.advice}" if quality is not None and quality.advice else text

    def _repr_html_(self) -> str:
        """Return a card with measures of quality and a heat map of the rows sent between workers.

        The shards of a large graph are not cut for it: then only the card of what is known.
        """
        try:
            is_known = "quality" in self.__dict__ or self.graph.num_edges <= _QUICK_EDGES
            return parts_card(self.graph.name, self.cut, self.hosts, self.quality if is_known else None)
        except Exception:  # display must not fail
            return f"<code>{html.escape(repr(self))}</code>"


def partition(
    graph: GraphLike,
    partitioner: Partitioner | None = None,
    *,
    workers: int | None = None,
    hosts: int = 1,
    per_host: int | None = None,
) -> Parts:
    """Partition a graph into one shard per worker.

    Args:
        graph: the whole graph, its name or path, or another library's graph, as accepted by ``gnnqlab.load``.
        partitioner: the partitioning method; METIS by default.
        workers: number of workers; alternatively pass ``hosts`` and ``per_host``.
        hosts: number of hosts; consecutive ranks share a host.
        per_host: number of workers per host.

    Raises:
        ValueError: if the counts contradict each other, or there are more workers than nodes.

    Example:
        >>> import gnnqlab as gq
        >>> parts = gq.partition(gq.load("sbm:40,2,4"), gq.partitioners.Random(), workers=2)
        >>> [shard.num_owned for shard in parts.shards]
        [20, 20]
    """
    if isinstance(partitioner, str | type):
        name = partitioner if isinstance(partitioner, str) else partitioner.__name__
        raise TypeError(f"partitioner must be an object such as gq.partitioners.METIS(), got {name}")
    if workers is None:
        workers = hosts * (per_host or 1)
    # Rounded up, so that the next check refuses an uneven division.
    per_host = per_host or -(-workers // hosts)
    if workers != hosts * per_host:
        raise ValueError(
            f"workers must equal hosts * per_host, got {workers} != {hosts} * {per_host}; pass either "
            "workers, or hosts and per_host"
        )
    loaded_graph = load(graph)
    partitioner = on_hosts(partitioner or METIS(), hosts)
    complete(partitioner, Partitioner)
    warn_if_large(loaded_graph, workers, cuts=partitioner.cuts)
    cut = cut_graph(loaded_graph, partitioner, workers)
    return Parts(graph=loaded_graph, cut=cut, per_host=per_host)


def cut_graph(graph: Graph, partitioner: Partitioner, workers: int, *, quick: bool = False) -> Cut:
    """Return a partitioner's cut; for a partitioner that is not repeatable, the first cut, which is stored on disk.

    So a run trains on the same partition that a notebook has shown before.

    Args:
        graph: the whole graph.
        partitioner: makes the cut.
        workers: number of parts.
        quick: True to make a similar cut of a graph with more than ``QUICK_CUT_EDGES`` edges, which is not stored,
            unless a cut is stored.
    """
    complete(partitioner, Partitioner)
    is_quick = quick and graph.num_edges > QUICK_CUT_EDGES
    if partitioner.repeatable:
        cut = partitioner.quick_cut(graph, workers) if is_quick else partitioner.cut(graph, workers)
        complete(cut, Cut)
        return cut
    folder = shard_folder(graph.content_hash, partitioner, workers)
    if not (folder / _CUT).exists():
        if is_quick:
            return partitioner.quick_cut(graph, workers)
        _keep(partitioner.cut(graph, workers), folder)
    # Of concurrent writers the first wins, so the stored cut is read back, even by a process that has just made one.
    return CUTS[partitioner.cuts].load(folder / _CUT)


_CUT = "cut.npz"


def _keep(cut: Cut, folder: Path) -> None:
    """Store a cut unless there is one already; of concurrent writers the first wins."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / _CUT, first=True) as partial_path:
        cut.save(partial_path)


def kept_library(folder: Path) -> str | None:
    """Return the name of the library that made the stored partition; ``None`` if only one could."""
    if not (folder / _CUT).exists():
        return None
    with np.load(folder / _CUT, allow_pickle=False) as file:
        return str(file["library"]) or None


def memory_estimate(
    num_nodes: int, num_edges: int, num_features: int, workers: int, *, cuts: str = "nodes"
) -> dict[str, int]:
    """Estimate the bytes needed to partition a graph and to hold one worker's shard.

    METIS stores the graph in both directions, with weights, and coarsens it level by level: measured for 4 to 17
    million edges, up to 125 bytes per edge and 400 per node at the peak; building shards needs less. A shard takes 4
    bytes per edge for the structure and 4 for the weights, and as much again for the transpose. Under a column
    partition every shard has all edges.

    Args:
        num_nodes, num_edges, num_features: of the graph.
        workers: P.
        cuts: as ``Partitioner.cuts``.

    Example:
        >>> [memory_estimate(100, 1000, 0, 4, cuts=cuts)["shard"] for cuts in ("nodes", "columns")]
        [5000, 17000]
    """
    structure = 16 * num_edges * (workers if cuts == "columns" else 1)
    return {
        "partition": 125 * num_edges + 400 * num_nodes,
        "graph": 4 * num_edges + 8 * num_nodes + 4 * num_nodes * num_features,
        "shard": (structure + 40 * num_nodes + 4 * num_nodes * num_features) // workers,
    }


def warn_if_large(graph: Graph, workers: int, *, cuts: str = "nodes") -> None:
    """Print the memory estimate if the graph is large."""
    if graph.num_edges <= LARGE:
        return
    estimate = memory_estimate(graph.num_nodes, graph.num_edges, graph.num_features, workers, cuts=cuts)
    print(
        f"partitioning {graph.name} ({graph.num_nodes:,} nodes, {graph.num_edges:,} edges) into {workers}: about "
        + ", ".join(f"{human_bytes(size)} for the {purpose}" for purpose, size in estimate.items()),
        file=sys.stderr,
        flush=True,
    )


def cache_folder() -> Path:
    """Return the cache folder of graphs and shards: ``$GNNQLAB_CACHE`` or ``~/.cache/gnnqlab``."""
    folder_text = os.environ.get("GNNQLAB_CACHE")
    return Path(folder_text) if folder_text else Path.home() / ".cache" / "gnnqlab"


def shard_folder(graph_hash: str, partitioner: Partitioner, workers: int) -> Path:
    """Return the folder of a partition's shards, named by a hash of graph, partitioner and number of workers."""
    settings = {
        "format": SHARDS[partitioner.cuts].version,  # each version of the files has its own folders
        "graph": graph_hash,
        "partitioner": type(partitioner).__name__,
        "settings": asdict(partitioner),  # type: ignore[call-overload]
        "workers": workers,
    }
    # Sorted keys: the hash is independent of the order of the fields.
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=12).hexdigest()
    return cache_folder() / "shards" / digest


def shard_path(folder: Path, rank: int | str) -> Path:
    """Return the path of one rank's shard; with ``*`` a pattern for all ranks."""
    return folder / f"rank{rank}.npz"


def load_shard(folder: Path, partitioner: Partitioner, rank: int) -> Shard:
    """Load one worker's shard stored by :func:`store_shards`."""
    return SHARDS[partitioner.cuts].load(shard_path(folder, rank))


def owner_of(folder: Path, workers: int, num_nodes: int) -> Tensor:
    """Return the owner of each node, int64 ``(N,)``, from the stored shards of an edge-cut."""
    owner = torch.full((num_nodes,), -1, dtype=torch.int64)
    for rank in range(workers):
        with np.load(shard_path(folder, rank), allow_pickle=False) as file:
            owner[torch.from_numpy(file["owned"])] = rank
    return owner


def has_shards(folder: Path, workers: int) -> bool:
    """Return True if the shards of all ranks are stored."""
    return all(shard_path(folder, rank).exists() for rank in range(workers))


def store_shards(
    graph: Graph, partitioner: Partitioner, workers: int, *, progress: Callable[[int], None] = lambda rank: None
) -> Path:
    """Partition a graph and store every shard on disk; return the folder.

    Shards are built and written one at a time, so that memory holds the graph and one shard. A stored partition is
    reused; of several concurrent callers the first builds it and the others wait.
    """
    folder = shard_folder(graph.content_hash, partitioner, workers)
    if has_shards(folder, workers):
        return folder
    with locked(folder.with_suffix(".lock")) as has_lock:
        if has_shards(folder, workers):  # another process stored them while this one waited for the lock
            return folder
        if has_lock:
            # Without the lock another process may be writing these incomplete files.
            sweep(folder, shard_path(folder, "*").name)
        warn_if_large(graph, workers, cuts=partitioner.cuts)
        cut = cut_graph(graph, partitioner, workers)
        if cut.library is not None:
            _keep(cut, folder)
        folder.mkdir(parents=True, exist_ok=True)
        for rank, shard in enumerate(cut.build_shards(graph)):
            shard.save(shard_path(folder, rank))
            progress(rank)
    return folder
