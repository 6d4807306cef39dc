"""Matrices of integer codes as products take them, what is counted of them, and which of them sums read packed.

TANGO (Chen et al., SC 2023, Fig. 16) measures products of four bits, but no sum over neighbours. It reads a row once
for each of its edges, so with two codes a byte it reads half the bytes: that saves time where rows outgrow the caches;
in them the unpacking costs what the reading saves. Products of matrices take a byte a code, so rows are packed for the
sum alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.dense.code_rows import PAIRED_WIDTHS, PairedRows, QuantizedRows, pack_pairs
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["PACKINGS", "Codes", "Numbers", "Quantized", "check_packing", "rows_to_sum"]

ALWAYS, NEVER = "always", "never"
PACKINGS = ("auto", ALWAYS, NEVER)
"""When rows are packed."""

_LEAST_EDGES = 8
"""Edges a row that pay for packing it."""
_LEAST_BYTES = 4 << 20
"""Of codes, a byte each: more than the near caches hold. Both limits are measured, on 5 to 300 thousand rows."""


@dataclass(frozen=True, eq=False)
class Codes:
    """A matrix of int8 codes; row ``i`` stands for ``codes[i] * scales[i]``."""

    codes: Tensor
    """int8 ``(N, D)``; heads side by side."""
    scales: Tensor
    """float32 ``(N,)``."""
    shape: tuple[int, ...]
    """Of what it stands for."""
    stream: int
    """Of its noise."""
    step: float | None = None
    """The scale of a weight, which all its rows share."""
    bits: int = 8
    """Of a code, at most."""
    largest: float | None = None
    """The largest magnitude of the whole matrix, all workers' rows, where they share a scale."""

    @property
    def rows(self) -> QuantizedRows:
        return QuantizedRows(self.codes, self.scales)


@dataclass
class Quantized:
    """Elements that products took as codes, and those that were quantized for it (TANGO section 3.3, reuse)."""

    used: int = 0
    made: int = 0
    twice: int = 0
    """Elements of rows from other workers that a codec had rounded before they were quantized."""

    @property
    def avoided(self) -> int:
        """Elements that would have been quantized again if each product quantized what it takes."""
        return self.used - self.made


@dataclass
class Numbers:
    """The next number of each kind of operand in a pass."""

    next: dict[str, int] = field(default_factory=dict)

    def stream(self, kind: str) -> int:
        number = self.next.get(kind, 0)
        self.next[kind] = number + 1
        return stream(kind, number % 4096)


_Read = tuple[QuantizedRows | PairedRows, QuantizedRows | PairedRows | None]


def check_packing(packed: str, bits: int | str) -> None:
    """Refuse an unknown word, and packing always what no byte holds two of."""
    if packed not in PACKINGS:
        raise ValueError(f"packed must be one of {PACKINGS}, got {packed!r}")
    if packed == ALWAYS and bits not in PAIRED_WIDTHS:
        raise ValueError(f"packed={ALWAYS!r} needs bits among {PAIRED_WIDTHS}, got {bits!r}; 'auto' packs what it can")


def rows_to_sum(
    adjacency: Adjacency, x: Codes, halo: Codes | None, *, packed: str, rows: tuple[int, int] | None, transposed: bool
) -> _Read:
    """Return rows for :func:`gnnqlab.kernels.sparse.aggregate.spmm`, whose sums do not depend on whether they are
    packed.

    Args:
        x: of the columns from 0 on; ``halo`` of those behind.
        packed: one of `PACKINGS`; codes of more than four bits stay as they are.
        rows: whose neighbours are summed, all by default; of the transpose if ``transposed``.
    """
    both = [x] if halo is None else [x, halo]
    if packed == NEVER or any(each.bits not in PAIRED_WIDTHS for each in both):
        return x.rows, None if halo is None else halo.rows
    if packed != ALWAYS and not _pays(adjacency.transposed if transposed else adjacency, rows, both):
        return x.rows, None if halo is None else halo.rows
    return pack_pairs(x.rows), None if halo is None else pack_pairs(halo.rows)


def _pays(matrix: Adjacency, rows: tuple[int, int] | None, read: list[Codes]) -> bool:
    sources, codes = sum(len(each.codes) for each in read), read[0].codes
    if sources * codes.shape[1] < _LEAST_BYTES or not (codes.is_cpu and native.active(codes.device)):
        return False
    start, stop = rows or (0, matrix.num_rows)
    return int(matrix.indptr[stop] - matrix.indptr[start]) >= _LEAST_EDGES * sources
