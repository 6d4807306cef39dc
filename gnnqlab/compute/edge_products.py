"""Products along edges whose rows are codes, for the gradients of :mod:`gnnqlab.compute.edge_gradients`."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from gnnqlab.compute.codes import Codes
from gnnqlab.compute.prepared import PreparedProducts
from gnnqlab.compute.products import Operand
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.head_sums import head_sums
from gnnqlab.kernels.sparse.int8_edges import int8_sddmm_add, int8_sddmm_dot

__all__ = ["EdgeProducts"]


class EdgeProducts(PreparedProducts):
    """Products of codes along edges; no gradient is recorded.

    Operands are codes or matrices, which are then quantized for one product alone. Letters: N columns, R rows, E edges,
    K heads of F features.
    """

    head_way: str = "measured"
    """How several heads are summed, one of :data:`gnnqlab.kernels.sparse.head_sums.WAYS`."""

    def weighted_sum(self, adjacency: Adjacency, weights: Tensor, x: Operand) -> Tensor:
        """Return ``out[i, k] = sum_e weights[e, k] x[source of e, k]``, ``(R, K, F)``, of an operand ``(N, K, F)``."""
        heads = x.shape[1]
        return head_sums(adjacency, weights.contiguous(), self._codes(x).rows, heads=heads, way=self.head_way)

    def edge_dot(self, adjacency: Adjacency, x: Operand, y: Operand) -> Tensor:
        """Return ``<x[source of e, k], y[row of e, k]>``, ``(E, K)``, of operands ``(N, K, F)`` and ``(R, K, F)``."""
        heads = x.shape[1]
        return int8_sddmm_dot(adjacency, self._codes(x).rows, self._codes(y).rows, heads=heads)

    def edge_add(self, adjacency: Adjacency, x: Operand, y: Operand) -> Tensor:
        """Return ``x[source of e] + y[row of e]``, ``(E, K)``, of operands ``(N, K)`` and ``(R, K)``."""
        return int8_sddmm_add(adjacency, self._codes(x).rows, self._codes(y).rows)

    def edge_sum(self, incidence: Adjacency, x: Tensor) -> Tensor:
        """Return the sums of rows of edges ``(E, D)`` at nodes, ``(R, D)``.

        One sum takes a row once, so its codes are not kept, unless they are there already.
        """
        known = self._known.get(x)
        if known is not None and known.holds(x):
            return self.spmm(incidence, known.operand)
        return self._sum_alone(incidence, x)

    @abstractmethod
    def _codes(self, x: Operand) -> Codes:
        """Return the codes of an operand that a product takes, and count them."""

    @abstractmethod
    def _sum_alone(self, incidence: Adjacency, x: Tensor) -> Tensor:
        """Sum rows that are quantized for this sum alone."""
