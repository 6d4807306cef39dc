"""METIS by the library that brings it: pymetis, which takes a seed and says nothing, else DGL."""

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

__all__ = ["Edges", "metis_library"]

_LONGEST = 2**31
"""pymetis numbers edges in 32 bits: it takes fewer than this, counted both ways."""


@dataclass(frozen=True, eq=False)
class Edges:
    """What METIS is given: both ends of every edge, int32 ``(E,)``, no self loops."""

    source: Tensor
    destination: Tensor
    num_nodes: int

    def both_ways(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the undirected graph as CSR, each neighbour once: int32 ``(N + 1,)`` and ``(2 E',)``."""
        import scipy.sparse as sp

        ends = (self.destination.numpy(), self.source.numpy())
        there = sp.coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(self.num_nodes,) * 2).tocsr()
        # How often an edge is given means nothing, and as a sum of small numbers it might pass through zero.
        there.data[:] = 1
        both = there + there.T.tocsr()
        both.sort_indices()
        return both.indptr.astype(np.int32, copy=False), both.indices.astype(np.int32, copy=False)

    def in_degrees(self) -> Tensor:
        return self.destination.bincount(minlength=self.num_nodes)


Run = Callable[[Any, Edges, int, str, bool], Tensor]
"""``(library, edges, parts, objective, balance_edges) -> owner``."""


def metis_library(num_edges: int = 0) -> tuple[str, Callable[[Edges, int, str, bool], Tensor]]:
    """Return the name of the library that is used here, and its ``(edges, parts, objective, balance_edges) -> owner``.

    Args:
        num_edges: edges of the graph to cut, counted both ways.

    Raises:
        RuntimeError: if none imports that takes so many.
    """
    failures = []
    for name, (load, run, most) in _LIBRARIES.items():
        if num_edges >= most:
            failures.append(f"{name}: takes fewer than {most:,} edges, counted both ways, not {num_edges:,}")
            continue
        try:
            library = load()
        except (ImportError, OSError) as error:  # DGL for another torch finds its compiled parts missing
            failures.append(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
            continue
        return name, lambda *asked, run=run, library=library: run(library, *asked)  # type: ignore[misc]
    way_out = "pip install pymetis" if num_edges < _LONGEST else "install DGL"
    raise RuntimeError(
        f"METIS needs pymetis or DGL, and neither can be used here ({'; '.join(failures)}); {way_out}, or choose the "
        "partition Random(), on the command line --partition random"
    )


def _load_dgl() -> Any:
    with _dgl_is_silent():
        import dgl

    return dgl


def _load_pymetis() -> Any:
    import pymetis

    return pymetis


def _by_dgl(dgl: Any, edges: Edges, parts: int, objective: str, balance_edges: bool) -> Tensor:
    graph = dgl.graph((edges.source.long(), edges.destination.long()), num_nodes=edges.num_nodes)
    with _dgl_is_silent():
        owner = dgl.metis_partition_assignment(graph, parts, balance_edges=balance_edges, objtype=objective)
    return owner.to(torch.int64)


def _by_pymetis(pymetis: Any, edges: Edges, parts: int, objective: str, balance_edges: bool) -> Tensor:
    """As DGL asks METIS: k-way, imbalance 1.03, in-degrees for weights; with a seed, so that it is repeatable.

    Its k-way cuts of very small graphs leave parts empty; then by recursive bisection, which minimises cut edges only.
    """
    adjacency = pymetis.CSRAdjacency(*edges.both_ways())
    weights = edges.in_degrees().to(torch.int32).numpy() if balance_edges else None

    def ask(recursive: bool, **options: int) -> Tensor:
        found = pymetis.part_graph(
            parts, adjacency, vweights=weights, recursive=recursive, options=pymetis.Options(seed=0, **options)
        )
        return torch.from_numpy(np.asarray(found.vertex_part, dtype=np.int64))

    owner = ask(recursive=False, objtype=int(objective == "vol"))
    return owner if owner.bincount(minlength=parts).all() else ask(recursive=True)


_LIBRARIES: dict[str, tuple[Callable[[], Any], Run, float]] = {
    "pymetis": (_load_pymetis, _by_pymetis, _LONGEST),
    "dgl": (_load_dgl, _by_dgl, math.inf),
}
"""Name -> (import it, ask it, how many edges are too many); the first that takes the graph and imports is used."""


_SILENCING = threading.RLock()
"""Two threads that each put the streams back would put back each other's."""


@contextlib.contextmanager
def _dgl_is_silent() -> Iterator[None]:
    """Keep what DGL says (with its wrong edge cut) off both output streams, C's and Python's.

    Python's streams stay open to all other threads: while a widget's thread cuts, a cell prints. C's belong to the
    whole process.
    """
    flush = ctypes.CDLL(None).fflush  # C's own buffers, or its lines come out after the streams are back
    with contextlib.ExitStack() as back:
        back.enter_context(_SILENCING)
        back.enter_context(contextlib.redirect_stdout(_OtherThreads(sys.stdout)))
        back.enter_context(contextlib.redirect_stderr(_OtherThreads(sys.stderr)))
        flush(None)
        saved = [os.dup(descriptor) for descriptor in (1, 2)]
        try:
            with open(os.devnull, "w") as sink:
                for descriptor in (1, 2):
                    os.dup2(sink.fileno(), descriptor)
            yield
        finally:
            flush(None)
            for descriptor, before in zip((1, 2), saved, strict=True):
                os.dup2(before, descriptor)
                os.close(before)


class _OtherThreads:
    """A stream as it is, but for what the thread that made this writes."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._silent = stream, threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._silent else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
