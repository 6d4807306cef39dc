"""What a partitioner returns: a graph cut apart, which makes the shards that workers train on.

To cut in another way: a class with what :class:`Cut` asks for, a line in ``gnnqlab.partition.parts.CUTS``, and shards
that answer the questions that :class:`~gnnqlab.partition.shard.Shard` answers of itself (``plan``, ``rows_by_kind``,
``num_owned``, ``num_marginal``, ``num_edges``, ``num_cut_edges``): quality, views and checks ask these alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from gnnqlab.axis_part import AxisPart, complete
from gnnqlab.partition.shard import Shard, build_shard

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["Cut", "NodeCut", "Partitioner", "check_workers", "on_hosts"]

Part = TypeVar("Part", bound=AxisPart)


class Cut(ABC):
    """Base class of graphs that are shared out among workers."""

    kind: ClassVar[str] = "nodes"
    """What was shared out, ``nodes`` or ``edges``; quality and forecasts read it."""

    workers: int
    """P."""
    owner: Tensor
    """Who answers for each node, its loss and its score, int64 ``(N,)``."""
    library: str | None
    """The library that cut, where there was a choice of several."""

    @abstractmethod
    def shard(self, graph: Graph, rank: int) -> Shard:
        """Return one worker's share of the graph that was cut."""

    def save(self, path: Path) -> None:
        """Write the fields of the cut, a dataclass of tensors, numbers and words, as an ``.npz`` without pickles."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        with path.open("wb") as file:
            np.savez(file, **{name: "" if value is None else value for name, value in values.items()})  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return cls(
            **{name: torch.from_numpy(array) if array.ndim else array.item() or None for name, array in arrays.items()}
        )


class Partitioner(AxisPart, ABC):
    """Base class of the axis ``partition``: frozen dataclasses that cut graphs."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("cut",),)
    cuts: ClassVar[str] = "nodes"
    """What is shared out, ``nodes``, ``edges`` or ``blocks`` of rows; ``System`` compares it with the exchange's."""
    repeatable: ClassVar[bool] = True
    """Whether the same graph is always cut alike; else the first cut is kept on disk."""

    @property
    def replication(self) -> int:
        """Return how many workers compute the rows of one block; exchanges of blocks read it."""
        return 1

    @abstractmethod
    def cut(self, graph: Graph, workers: int) -> Cut:
        """Share a graph out among workers."""


def check_workers(graph: Graph, workers: int) -> None:
    """Refuse numbers of workers that a graph cannot be shared out among.

    Raises:
        ValueError: if there are no workers, or more workers than nodes.
    """
    if not 1 <= workers <= max(graph.num_nodes, 1):
        raise ValueError(f"workers must be between 1 and the number of nodes ({graph.num_nodes}), got {workers}")


def on_hosts(part: Part, hosts: int) -> Part:
    """Return a partitioner or an exchange for a run on so many hosts, each with equally many consecutive workers.

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
    """An owner for each node; an edge lies where its destination is, and is cut if its source is elsewhere.

    Raises:
        ValueError: if ``owner`` is no int64 vector, or names a worker outside ``[0, workers)``.

    Example:
        >>> from gnnqlab.graph import load
        >>> halves = NodeCut(owner=torch.arange(40) // 20, workers=2)
        >>> halves.shard(load("sbm:40,2,4"), 1).num_owned
        20
    """

    kind: ClassVar[str] = "nodes"

    owner: Tensor
    """int64 ``(N,)``, values in ``[0, workers)``."""
    workers: int
    library: str | None = None
    """The library that cut, where there was a choice of several."""

    def __post_init__(self) -> None:
        if self.owner.dtype != torch.int64 or self.owner.dim() != 1:
            raise ValueError(f"owner must be an int64 vector, got {self.owner.dtype} {tuple(self.owner.shape)}")
        if self.owner.numel() and not 0 <= int(self.owner.min()) <= int(self.owner.max()) < self.workers:
            found = f"from {int(self.owner.min())} to {int(self.owner.max())}"
            raise ValueError(f"owners must lie in [0, {self.workers}), got values {found}")

    def shard(self, graph: Graph, rank: int) -> Shard:
        """Return what one worker owns, and whose rows it needs.

        Raises:
            ValueError: if another graph was cut.
        """
        return build_shard(graph, self.owner, rank, self.workers)
