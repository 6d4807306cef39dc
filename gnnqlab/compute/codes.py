"""Integer-code operands, counters of quantized elements, and the rule for packing rows before an aggregation.

TANGO (Chen et al., SC 2023, Fig. 16) measures products of four bits, but no aggregation. An aggregation reads a row
once per edge, so with two codes per byte it reads half the bytes. That saves time if the rows exceed the caches; within
the caches, unpacking costs as much as reading saves. Matrix products take one code per byte, so rows are packed only
for aggregations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from gnnqlab.former_names import FormerMember
from gnnqlab.kernels import native
from gnnqlab.kernels.dense.code_rows import PAIRED_WIDTHS, PairedRows, QuantizedRows, pack_pairs
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["PACKINGS", "Codes", "StreamCounters", "Quantized", "check_packing", "rows_to_sum"]

ALWAYS, NEVER = "always", "never"
PACKINGS = ("auto", ALWAYS, NEVER)
"""Modes of packing; ``auto`` packs by the limits below."""

_MIN_EDGES = 8
"""Edges per row from which packing pays."""
_MIN_BYTES = 4 << 20
"""Bytes of codes, one each, that exceed the near caches. Both limits were measured on 5 to 300 thousand rows."""


@dataclass(frozen=True, eq=False)
class Codes:
    """A matrix of int8 codes; row ``i`` has the values ``codes[i] * scales[i]``."""

    codes: Tensor
    """int8 ``(N, D)``; heads are concatenated."""
    scales: Tensor
    """float32 ``(N,)``."""
    shape: tuple[int, ...]
    """Shape of the original tensor."""
    stream: int
    """Stream of its rounding noise."""
    step: float | None = None
    """Scale of a weight, common to all its rows."""
    bits: int = 8
    """Bits of a code, at most."""
    largest: float | None = None
    """Largest magnitude over all workers' rows of the matrix, if they share a scale."""

    @property
    def rows(self) -> QuantizedRows:
        return QuantizedRows(self.codes, self.scales)


@dataclass
class Quantized:
    """Counts of elements that products used as codes, and of those that were quantized (TANGO section 3.3, reuse)."""

    num_used: int = 0
    num_quantized: int = 0
    num_requantized: int = 0
    """Elements of halo rows that were quantized again after a codec had rounded them."""

    used = FormerMember("num_used")
    made = FormerMember("num_quantized")
    twice = FormerMember("num_requantized")

    @property
    def avoided(self) -> int:
        """Elements that would be quantized again if each product quantized its own operands."""
        return self.num_used - self.num_quantized


@dataclass
class StreamCounters:
    """Counters that give each operand of a pass its own noise stream."""

    next: dict[str, int] = field(default_factory=dict)

    def stream(self, kind: str) -> int:
        number = self.next.get(kind, 0)
        self.next[kind] = number + 1
        return stream(kind, number % 4096)  # the number's field in a stream has 12 bits


_Read = tuple[QuantizedRows | PairedRows, QuantizedRows | PairedRows | None]


def check_packing(packed: str, bits: int | str) -> None:
    """Refuse an unknown mode, and ``always`` for codes of more than half a byte."""
    if packed not in PACKINGS:
        raise ValueError(f"packed must be one of {PACKINGS}, got {packed!r}")
    if packed == ALWAYS and bits not in PAIRED_WIDTHS:
        raise ValueError(
            f"packed={ALWAYS!r} needs bits among {PAIRED_WIDTHS}, got {bits!r}; choose packed='auto' or other bits"
        )


def rows_to_sum(
    adjacency: Adjacency, x: Codes, halo: Codes | None, *, packed: str, rows: tuple[int, int] | None, transposed: bool
) -> _Read:
    """Return rows for :func:`gnnqlab.kernels.sparse.aggregate.spmm`, packed if that pays; sums are identical.

    Args:
        x: codes of the first columns of the matrix; ``halo``: of the columns after them.
        packed: one of `PACKINGS`; codes of more than four bits are not packed.
        rows: rows to aggregate, all by default; rows of the transpose if ``transposed``.
    """
    # Both buffers in one format: the kernel reads them as one matrix.
    operands = [x] if halo is None else [x, halo]
    if packed == NEVER or any(each.bits not in PAIRED_WIDTHS for each in operands):
        return x.rows, None if halo is None else halo.rows
    if packed != ALWAYS and not _pays(adjacency.transposed if transposed else adjacency, rows, operands):
        return x.rows, None if halo is None else halo.rows
    return pack_pairs(x.rows), None if halo is None else pack_pairs(halo.rows)


def _pays(matrix: Adjacency, rows: tuple[int, int] | None, operands: list[Codes]) -> bool:
    sources, codes = sum(len(each.codes) for each in operands), operands[0].codes
    # Measured for the compiled CPU kernels only.
    if sources * codes.shape[1] < _MIN_BYTES or not (codes.is_cpu and native.active(codes.device)):
        return False
    start, stop = rows or (0, matrix.num_rows)
    # Packing reads every row once; sums must read the packed rows often enough to save more.
    return int(matrix.indptr[stop] - matrix.indptr[start]) >= _MIN_EDGES * sources
