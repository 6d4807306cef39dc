"""Rows of codes as sums over neighbours read them: packed, two codes of four bits a byte, where that is faster.

TANGO (Chen et al., SC 2023, Fig. 16) measures products of four bits, but no such sum. It reads a row once for each of
its edges, so half the bytes save time where rows outgrow the caches; in them the unpacking costs what the reading
saves. Products of matrices take a byte a code, so rows are packed for the sum alone.
"""

from __future__ import annotations

from gnnqlab.compute.codes import Codes
from gnnqlab.compute.products import Range
from gnnqlab.kernels import native
from gnnqlab.kernels.dense.code_rows import PAIRED_WIDTHS, PairedRows, QuantizedRows, pack_pairs
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["PACKINGS", "check_packing", "rows_to_sum"]

ALWAYS, NEVER = "always", "never"
PACKINGS = ("auto", ALWAYS, NEVER)
"""When rows are packed."""

_LEAST_EDGES = 8
"""Edges a row that pay for packing it."""
_LEAST_BYTES = 4 << 20
"""Of codes, a byte each: more than the near caches hold. Both limits are measured, on 5 to 300 thousand rows."""

_Read = tuple[QuantizedRows | PairedRows, QuantizedRows | PairedRows | None]


def check_packing(packed: str, bits: int | str) -> None:
    """Refuse an unknown word, and packing always what no byte holds two of."""
    if packed not in PACKINGS:
        raise ValueError(f"packed must be one of {PACKINGS}, got {packed!r}")
    if packed == ALWAYS and bits not in PAIRED_WIDTHS:
        raise ValueError(f"packed={ALWAYS!r} needs bits among {PAIRED_WIDTHS}, got {bits!r}; 'auto' packs what it can")


def rows_to_sum(
    adjacency: Adjacency, x: Codes, halo: Codes | None, *, packed: str, rows: Range | None, transposed: bool
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


def _pays(matrix: Adjacency, rows: Range | None, read: list[Codes]) -> bool:
    sources, codes = sum(len(each.codes) for each in read), read[0].codes
    if sources * codes.shape[1] < _LEAST_BYTES or not (codes.is_cpu and native.active(codes.device)):
        return False
    start, stop = rows or (0, matrix.num_rows)
    return int(matrix.indptr[stop] - matrix.indptr[start]) >= _LEAST_EDGES * sources
