"""Edge-cut partitioners: every node is owned by one worker, edges between workers are cut."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["METIS", "Random"]


@dataclass(frozen=True, kw_only=True)
class METIS:
    """METIS k-way partition (Karypis & Kumar, 1997) through DGL: few cut edges, balanced parts.

    The default of AdaQP, SYLVIE, PipeGCN and BNS-GCN.
    """

    repeatable: ClassVar[bool] = False
    """METIS cuts the same graph differently from call to call, so the first cut is kept and used again."""

    objective: str = "cut"
    """What METIS minimises: ``cut`` (edges) or ``vol`` (rows that travel)."""
    balance_edges: bool = False
    """Also balance the number of in-edges over the workers."""

    def __post_init__(self) -> None:
        if self.objective not in ("cut", "vol"):
            raise ValueError(f"METIS objective must be 'cut' or 'vol', got {self.objective!r}")

    def assign(self, graph: Graph, workers: int) -> Tensor:
        """Return the owner of every node.

        Args:
            graph: any graph; METIS sees it as undirected.
            workers: number of parts, at most the number of nodes.

        Returns:
            int64 ``(N,)`` with values in ``[0, workers)``.

        Raises:
            RuntimeError: if DGL, which brings METIS, cannot be imported.
        """
        _check_workers(graph, workers)
        if workers == 1:
            return torch.zeros(graph.num_nodes, dtype=torch.int64)
        try:
            with _quiet():
                import dgl
        except ImportError as error:
            raise RuntimeError(
                f"METIS needs DGL, which does not import here ({error}); install dgl==1.1.3 or choose the "
                "partition 'random'"
            ) from error
        source, destination = graph.indices.long(), torch.repeat_interleave(graph.in_degrees)
        # METIS does not allow self loops; given some, it cuts worse and differently at every call.
        between = source != destination
        with _quiet():
            owner = dgl.metis_partition_assignment(
                dgl.graph((source[between], destination[between]), num_nodes=graph.num_nodes),
                workers,
                balance_edges=self.balance_edges,
                objtype=self.objective,
            )
        return owner.to(torch.int64)


@dataclass(frozen=True, kw_only=True)
class Random:
    """Uniformly random owners in equal shares: the worst cut, and the one that needs nothing."""

    seed: int = 0
    """Seed of the permutation."""

    def assign(self, graph: Graph, workers: int) -> Tensor:
        """Return the owner of every node, int64 ``(N,)``; shares differ by at most one node.

        Example:
            >>> import gnnqlab as gq
            >>> owner = Random(seed=0).assign(gq.load("sbm:10,2,3"), 2)
            >>> owner.bincount().tolist()
            [5, 5]
        """
        _check_workers(graph, workers)
        generator = torch.Generator().manual_seed(self.seed)
        shuffled = torch.randperm(graph.num_nodes, generator=generator)
        owner = torch.empty(graph.num_nodes, dtype=torch.int64)
        owner[shuffled] = torch.arange(graph.num_nodes) % workers
        return owner


def _check_workers(graph: Graph, workers: int) -> None:
    if not 1 <= workers <= max(graph.num_nodes, 1):
        raise ValueError(f"workers must be between 1 and the number of nodes ({graph.num_nodes}), got {workers}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep METIS's and DGL's chatter (with its wrong edge cut) off both output streams, C's and Python's."""
    flush = ctypes.CDLL(None).fflush  # C's own buffers, or its lines come out after the streams are back
    flush(None)
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
        try:
            for descriptor in (1, 2):
                os.dup2(sink.fileno(), descriptor)
            yield
        finally:
            flush(None)
            for descriptor, before in zip((1, 2), saved, strict=True):
                os.dup2(before, descriptor)
                os.close(before)
