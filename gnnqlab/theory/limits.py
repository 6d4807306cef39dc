"""Lower bounds of work per epoch: floating point operations of products, bytes of aggregations and row passes.

Bytes are compulsory traffic: every input is read once and every output written once, as with an infinite cache. Values
are float32.

Letters: E edges of an aggregation, U rows read, N rows written, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NeighbourSum", "Product", "RowPass"]

_VALUE, _INDEX, _POINTER = 4, 4, 8  # float32, int32, int64
"""Bytes of a value, of a column index, and of a row offset (CSR)."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A dense product ``A B`` of a matrix ``(rows, inner)`` and one ``(inner, columns)``."""

    rows: int
    inner: int
    columns: int
    transposed: str = ""
    """Factor stored by columns, ``"a"`` or ``"b"``: affects the rate, not the number of operations."""

    @property
    def flops(self) -> int:
        """``2 rows inner columns``: a multiplication and an addition for each triple of indices.

        Example:
            >>> Product(rows=2, inner=3, columns=4).flops
            48
        """
        return 2 * self.rows * self.inner * self.columns


@dataclass(frozen=True, kw_only=True)
class NeighbourSum:
    """An aggregation ``out = A x`` with A in CSR."""

    edges: int
    """Number of edges, E."""
    source_rows: int
    """Number of columns of A with an edge, whose rows of x are read, U."""
    rows: int
    """Number of rows of A and of the result, N."""
    columns: int
    """Number of columns of x, D."""
    weighted: bool = True
    """True if edges have weights."""
    added: bool = False
    """True if the result is added to the output, which is then read too."""

    @property
    def bytes(self) -> int:
        """``4 D (U + N) + 8 E + 8 (N + 1)``: rows read and written, indices and weights, row offsets.

        Four nodes in a ring, each with two neighbours, three columns: ``4 * 3 * 8 + 8 * 8 + 8 * 5``.

        Example:
            >>> NeighbourSum(edges=8, source_rows=4, rows=4, columns=3).bytes
            200
            >>> NeighbourSum(edges=8, source_rows=4, rows=4, columns=3, weighted=False, added=True).bytes
            216
        """
        rows = self.source_rows + self.rows * (2 if self.added else 1)  # added outputs are read and written
        edge = _INDEX + (_VALUE if self.weighted else 0)
        return _VALUE * self.columns * rows + edge * self.edges + _POINTER * (self.rows + 1)


@dataclass(frozen=True, kw_only=True)
class RowPass:
    """A row-wise operation without neighbours: norms, activations, dropout, sums of rows."""

    num_read: int
    """Number of elements read."""
    num_written: int
    """Number of elements written."""

    @property
    def bytes(self) -> int:
        """``4 (num_read + num_written)``.

        Example:
            >>> RowPass(num_read=6, num_written=6).bytes
            48
        """
        return _VALUE * (self.num_read + self.num_written)
