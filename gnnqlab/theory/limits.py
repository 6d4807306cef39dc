"""The least that the parts of an epoch must do: floating point operations of products, bytes of sums and of passes.

Bytes are the compulsory ones: what is used is read once and what is made is written once, as if a cache held the rest
in between. Values are float32.

Letters: E edges of a sum, U rows that it uses, N rows that it makes, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NeighbourSum", "Product", "RowPass"]

_VALUE, _INDEX, _POINTER = 4, 4, 8
"""Bytes of a value, of a column's index, and of a row's first edge (CSR)."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A dense product ``A B`` of a matrix ``(rows, inner)`` and one ``(inner, columns)``."""

    rows: int
    inner: int
    columns: int
    transposed: str = ""
    """Which factor is stored by columns, ``"a"`` or ``"b"``: no matter for the count, some matter for the rate."""

    @property
    def flops(self) -> int:
        """``2 rows inner columns``: a multiplication and an addition for each pair.

        Example:
            >>> Product(rows=2, inner=3, columns=4).flops
            48
        """
        return 2 * self.rows * self.inner * self.columns


@dataclass(frozen=True, kw_only=True)
class NeighbourSum:
    """A weighted sum of neighbours, ``out = A x``, with A by rows."""

    edges: int
    """E."""
    used: int
    """U: columns of A that have an edge, whose rows of x are read."""
    made: int
    """N: rows of A, and of the result."""
    columns: int
    """D."""
    weighted: bool = True
    """Whether edges have weights; without, the sum is plain."""
    added: bool = False
    """Whether the result is added to what is there, which is then read."""

    @property
    def bytes(self) -> int:
        """``4 D (U + N) + 8 E + 8 (N + 1)``: rows used and made, indices and weights, first edges.

        Four nodes in a ring, each with two neighbours, three columns: ``4 * 3 * 8 + 8 * 8 + 8 * 5``.

        Example:
            >>> NeighbourSum(edges=8, used=4, made=4, columns=3).bytes
            200
            >>> NeighbourSum(edges=8, used=4, made=4, columns=3, weighted=False, added=True).bytes
            216
        """
        rows = self.used + self.made * (2 if self.added else 1)
        edge = _INDEX + (_VALUE if self.weighted else 0)
        return _VALUE * self.columns * rows + edge * self.edges + _POINTER * (self.made + 1)


@dataclass(frozen=True, kw_only=True)
class RowPass:
    """A pass over rows that looks at no neighbour: norms, activations, dropout, sums of rows."""

    read: int
    """Elements."""
    written: int
    """Elements."""

    @property
    def bytes(self) -> int:
        """``4 (read + written)``.

        Example:
            >>> RowPass(read=6, written=6).bytes
            48
        """
        return _VALUE * (self.read + self.written)
