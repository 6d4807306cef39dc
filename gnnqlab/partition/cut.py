"""Base classes of partitioners and of the cuts they return, from which the workers' shards are built.

To add a kind of cut: a subclass of :class:`Cut`, a line in ``gnnqlab.partition.parts.CUTS``, and a shard class with
the interface of :class:`~gnnqlab.partition.shard.Shard` (``plan``, ``rows_by_kind``, ``num_owned``, ``num_marginal``,
``num_edges``, ``num_cut_edges``): quality, views and checks use nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from gnnqlab.axis_part import AxisPart, complete
from gnnqlab.partition.cut_edges import CutEdges
from gnnqlab.partition.shard import Shard, build_shard

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["Cut", "NodeCut", "Partitioner", "check_host_count", "check_workers", "on_hosts", "cut_name"]

Part = TypeVar("Part", bound=AxisPart)


class Cut(ABC):
    """Base class of cuts: an assignment of a graph's nodes or edges to workers."""

    kind: ClassVar[str] = "nodes"
    """Kind of cut: ``nodes`` (edge-cut), ``edges`` (vertex-cut), ``blocks`` or ``columns``; quality and forecasts
    depend on it."""

    workers: int
    """Number of workers, P."""
    owner: Tensor
    """Rank of each node's owner or master, which counts it in loss and score, int64 ``(N,)``."""
    library: str | None
    """Name of the library that made the cut, if several can."""

    @abstractmethod
    def shard(self, graph: Graph, rank: int) -> Shard:
        """Build one worker's shard of the graph from which this cut was made."""

    def build_shards(self, graph: Graph) -> Iterator[Shard]:
        """Build the shards of all workers, one at a time."""
        return (self.shard(graph, rank) for rank in range(self.workers))

    def save(self, path: Path) -> None:
        """Write the fields of the cut (tensors, numbers and strings) to an ``.npz`` file without pickles."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        with path.open("wb") as file:
            # An .npz file has no None: an empty string stands for it.
            np.savez(file, **{name: "" if value is None else value for name, value in values.items()})  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a cut written by :meth:`save`."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        # Arrays without dimensions are numbers and strings; an empty string stands for None.
        fields: dict[str, Any] = {
            name: torch.from_numpy(array) if array.ndim else array.item() for name, array in arrays.items()
        }
        empty_names = [name for name, value in fields.items() if isinstance(value, str) and not value]
        return cls(**{**fields, **dict.fromkeys(empty_names)})


def cut_name(assigned: str) -> str:
    """Return the field's name of a cut, with the objects that it assigns to workers; for errors.

    Example:
        >>> cut_name("nodes")
        'an edge-cut (nodes are assigned to workers)'
    """
    names = {
        "nodes": "an edge-cut", "edges": "a vertex-cut", "blocks": "a block partition", "columns": "a column partition",
    }  # fmt: skip
    return f"{names.get(assigned, 'a cut')} ({assigned} are assigned to workers)"


class Partitioner(AxisPart, ABC):
    """Base class of the axis ``partition``: frozen dataclasses that cut graphs."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("cut",),)
    cuts: ClassVar[str] = "nodes"
    """Objects that it assigns to workers: ``nodes`` (an edge-cut), ``edges`` (a vertex-cut), ``blocks`` of rows, or
    ``columns`` of all rows. ``System`` compares them with those of the exchange."""
    repeatable: ClassVar[bool] = True
    """True if the same graph always gets an identical cut; otherwise the first cut is stored on disk and reused."""

    serves_all: ClassVar[bool] = True
    """False if it is of use to its own system only; read by recommendations, which rank the others for all systems."""
    package: ClassVar[str] = ""
    """Optional package that makes the cut; empty if none is needed."""

    @classmethod
    def unusable(cls) -> str:
        """Return the reason why no cut can be made here, with the way out, or an empty text."""
        if not cls.package or find_spec(cls.package):
            return ""
        return (
            f"partition {cls.__name__} needs the package {cls.package}, which cannot be imported; run pip install "
            f"'gnnqlab[partition]', or use the partition METIS(), on the command line --partition metis"
        )

    partition_every: int = 0
    """Epochs of a period, after which the partition changes; 0: one partition. The training loop reads it."""

    def cut_in_period(self, graph: Graph, workers: int, period: int) -> Cut:
        """Return the cut of a period, from 0; all workers call it, so it must be the same in every process."""
        return self.cut(graph, workers)

    def fixed(self) -> Partitioner:
        """Return the partitioner of the first period's cut only; forecasts, probes and simulations use it."""
        return self

    @property
    def weighs_edges(self) -> bool:
        """True if shards have weights of edges for training without rows of other workers; ``RunConfig`` reads it."""
        return False

    @property
    def replication(self) -> int:
        """Number of workers that compute the rows of one block; broadcast exchanges use it."""
        return 1

    @abstractmethod
    def cut(self, graph: Graph, workers: int) -> Cut:
        """Assign the graph's nodes or edges to workers."""

    def quick_cut(self, graph: Graph, workers: int) -> Cut:
        """Make a similar cut in less time, for estimates; by default the cut itself."""
        return self.cut(graph, workers)


def check_workers(graph: Graph, workers: int) -> None:
    """Check that a graph can be partitioned among this number of workers.

    Raises:
        ValueError: if there are no workers, or more workers than nodes.
    """
    # An empty graph is cut for one worker.
    if not 1 <= workers <= max(graph.num_nodes, 1):
        raise ValueError(f"workers must be between 1 and the number of nodes ({graph.num_nodes}), got {workers}")


def check_host_count(workers: int, hosts: int) -> None:
    """Check that hosts have equal numbers of workers: rank r is on host ``r // (workers / hosts)``.

    Raises:
        ValueError: if there are no workers or no hosts, or the number of workers is not a multiple of the hosts.
    """
    if workers < 1 or hosts < 1 or workers % hosts:
        multiple = max(hosts, 1) * max(1, -(-workers // max(hosts, 1)))
        raise ValueError(
            f"workers must be a multiple of the hosts, got {workers} worker(s) on {hosts} hosts; choose {multiple} "
            "workers, or another number of hosts"
        )


def on_hosts(part: Part, hosts: int) -> Part:
    """Return a copy of a partitioner or an exchange for a run on ``hosts`` hosts of equally many consecutive workers.

    Example:
        >>> from gnnqlab.partition.ebv import EBV
        >>> on_hosts(EBV(), 2).hosts, on_hosts(EBV(hosts=4), 2).hosts
        (2, 4)
    """
    complete(part, AxisPart)
    on_them: Part = part.on_hosts(hosts)
    return on_them


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeCut(Cut):
    """Edge-cut: an owner for each node; an edge is stored with its destination, and is cut if its source is remote.

    Raises:
        ValueError: if ``owner`` is not an int64 vector, or holds a worker outside ``[0, workers)``.

    Example:
        >>> from gnnqlab.graph import load
        >>> halves = NodeCut(owner=torch.arange(40) // 20, workers=2)
        >>> halves.shard(load("sbm:40,2,4"), 1).num_owned
        20
    """

    kind: ClassVar[str] = "nodes"

    owner: Tensor
    """Rank of each node's owner, int64 ``(N,)``, in ``[0, workers)``."""
    workers: int
    library: str | None = None
    """Name of the library that made the cut, if several can."""

    def __post_init__(self) -> None:
        if self.owner.dtype != torch.int64 or self.owner.dim() != 1:
            raise ValueError(f"owner must be an int64 vector, got {self.owner.dtype} {tuple(self.owner.shape)}")
        if self.owner.numel() and not 0 <= int(self.owner.min()) <= int(self.owner.max()) < self.workers:
            bounds = f"from {int(self.owner.min())} to {int(self.owner.max())}"
            raise ValueError(f"owners must lie in [0, {self.workers}), got values {bounds}")

    def shard(self, graph: Graph, rank: int) -> Shard:
        """Build one worker's shard: its owned nodes, their in-edges, and the halo nodes that these need.

        Raises:
            ValueError: if the cut is of another graph.
        """
        return self.complete_shard(build_shard(graph, self.owner, rank, self.workers))

    def complete_shard(self, shard: Shard) -> Shard:
        """Return a shard of this cut with the fields that owners alone do not determine."""
        return shard

    def build_shards(self, graph: Graph) -> Iterator[Shard]:
        """Build the shards of all workers, one at a time; the cut edges are found once."""
        if type(self).shard is not NodeCut.shard:  # a subclass builds other shards
            yield from super().build_shards(graph)
            return
        found = CutEdges.from_owner(graph, self.owner)
        # Each shard has its part of the seconds, as if each worker had built its own.
        cut_edges = replace(found, extract_s=found.extract_s / self.workers)
        for rank in range(self.workers):
            yield self.complete_shard(build_shard(graph, self.owner, rank, self.workers, cut_edges=cut_edges))
