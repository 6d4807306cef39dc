"""METIS from pymetis, which takes a seed and prints nothing, or from DGL if pymetis is missing."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["MetisEdges", "metis_library"]

_LONGEST = 2**31
"""Upper bound (exclusive) of edges in both directions for pymetis, which numbers them with 32 bits."""


@dataclass(frozen=True, eq=False)
class MetisEdges:
    """Input of METIS: both ends of every edge, int32 ``(E,)``, without self loops."""

    source: Tensor
    destination: Tensor
    num_nodes: int

    def both_ways(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the undirected graph as CSR, each neighbour once: int32 ``(N + 1,)`` and ``(2 E',)``."""
        import scipy.sparse as sp

        ends = (self.destination.numpy(), self.source.numpy())
        # (N, N), CSR by destination.
        stored_matrix = sp.coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(self.num_nodes,) * 2).tocsr()
        # Only the structure counts; the int8 multiplicities of repeated edges could overflow, even to zero.
        stored_matrix.data[:] = 1
        matrix = stored_matrix + stored_matrix.T.tocsr()  # an edge stored in both directions appears once
        matrix.sort_indices()
        # METIS counts in int32.
        return matrix.indptr.astype(np.int32, copy=False), matrix.indices.astype(np.int32, copy=False)

    def in_degrees(self) -> Tensor:
        return self.destination.bincount(minlength=self.num_nodes)


Run = Callable[[Any, MetisEdges, int, str, bool], Tensor]
"""Type of a function ``(library, edges, parts, objective, balance_edges) -> owner``."""


def metis_library(num_edges: int = 0) -> tuple[str, Callable[[MetisEdges, int, str, bool], Tensor]]:
    """Return the name of the available library and its function ``(edges, parts, objective, balance_edges) -> owner``.

    Args:
        num_edges: number of edges of the graph, counted in both directions.

    Raises:
        RuntimeError: if no library for this many edges can be imported.
    """
    failures = []
    for name, (load, run, max_edges) in _LIBRARIES.items():
        if num_edges >= max_edges:
            failures.append(f"{name}: supports fewer than {max_edges:,} edges, counted both ways, got {num_edges:,}")
            continue
        try:
            library = load()
        except (ImportError, OSError) as error:  # OSError: DGL built for another torch lacks its compiled libraries
            failures.append(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
            continue
        return name, lambda *args, run=run, library=library: run(library, *args)  # type: ignore[misc]
    way_out = "pip install pymetis" if num_edges < _LONGEST else "install DGL"
    raise RuntimeError(
        f"METIS needs pymetis or DGL, and neither can be used here ({'; '.join(failures)}); {way_out}, or use the "
        "partition Random(), on the command line --partition random"
    )


def _load_dgl() -> Any:
    with _dgl_is_silent():
        import dgl

    return dgl


def _load_pymetis() -> Any:
    import pymetis

    return pymetis


def _by_dgl(dgl: Any, edges: MetisEdges, parts: int, objective: str, balance_edges: bool) -> Tensor:
    graph = dgl.graph((edges.source.long(), edges.destination.long()), num_nodes=edges.num_nodes)
    with _dgl_is_silent():
        owner = dgl.metis_partition_assignment(graph, parts, balance_edges=balance_edges, objtype=objective)
    return owner.to(torch.int64)


def _by_pymetis(pymetis: Any, edges: MetisEdges, parts: int, objective: str, balance_edges: bool) -> Tensor:
    """Run METIS with DGL's options (k-way, imbalance 1.03, in-degrees as weights) and a seed, which is reproducible.

    K-way cuts of very small graphs leave parts empty; then use recursive bisection, which minimises cut edges only.
    """
    adjacency = pymetis.CSRAdjacency(*edges.both_ways())
    weights = edges.in_degrees().to(torch.int32).numpy() if balance_edges else None

    def part_graph(recursive: bool, **options: int) -> Tensor:
        result = pymetis.part_graph(
            parts, adjacency, vweights=weights, recursive=recursive, options=pymetis.Options(seed=0, **options)
        )
        return torch.from_numpy(np.asarray(result.vertex_part, dtype=np.int64))

    owner = part_graph(recursive=False, objtype=int(objective == "vol"))
    return owner if owner.bincount(minlength=parts).all() else part_graph(recursive=True)


_LIBRARIES: dict[str, tuple[Callable[[], Any], Run, float]] = {
    "pymetis": (_load_pymetis, _by_pymetis, _LONGEST),
    "dgl": (_load_dgl, _by_dgl, math.inf),
}
"""Name -> (import function, run function, exclusive limit of edges); the first usable one is taken."""


_SILENCING = threading.RLock()
"""Lock of redirected streams: two threads at once would restore each other's redirections."""


@contextlib.contextmanager
def _dgl_is_silent() -> Iterator[None]:
    """Suppress DGL's output (with its wrong edge cut) on stdout and stderr, both of C and of Python.

    Python's streams stay usable in other threads, so a notebook cell can print while a widget's thread partitions. C's
    streams are suppressed for the whole process.
    """
    flush = ctypes.CDLL(None).fflush  # C has its own buffers; unflushed lines would appear after the restore
    with contextlib.ExitStack() as stack:
        stack.enter_context(_SILENCING)
        stack.enter_context(contextlib.redirect_stdout(_OtherThreads(sys.stdout)))
        stack.enter_context(contextlib.redirect_stderr(_OtherThreads(sys.stderr)))
        flush(None)  # flush earlier output of C, which would be discarded otherwise
        saved_descriptors = [os.dup(descriptor) for descriptor in (1, 2)]  # the real streams stay open for the restore
        try:
            with open(os.devnull, "w") as sink:
                for descriptor in (1, 2):
                    os.dup2(sink.fileno(), descriptor)
            yield
        finally:
            # C's buffer still has DGL's lines: flush them into the sink before the restore.
            flush(None)
            for descriptor, saved_descriptor in zip((1, 2), saved_descriptors, strict=True):
                os.dup2(saved_descriptor, descriptor)
                os.close(saved_descriptor)


class _OtherThreads:
    """Proxy of a stream that discards the writes of the thread that created it."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._silent = stream, threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._silent else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
