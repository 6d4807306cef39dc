"""Interface of matrix products in any precision: operands, and the products over them.

An *operand* is a matrix in the format of a precision: plain float32, rounded rows, codes with scales, or packed codes.
It is made once per pass (:meth:`Products.operand`), used by every product of that pass, and saved for backward. Sums
and results are float32 for all operands.

Letters: N rows, D columns, O columns of a product, K heads, F features of a head.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.axis_part import AxisPart, Running
from gnnqlab.compute.codes import Quantized
from gnnqlab.kernels.dense import tall_skinny
from gnnqlab.kernels.rowwise import jumping_knowledge, nodewise, residual
from gnnqlab.kernels.rowwise.nodewise import Mask, Norm
from gnnqlab.kernels.sparse import aggregate as sparse
from gnnqlab.kernels.sparse import attention
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["Compute", "Operand", "PassRows", "Products", "Range", "turned", "to_float32"]

Operand = Any
"""A float32 matrix in the format of a precision: a tensor, or a dataclass of tensors with a ``shape``."""
Range = tuple[int, int]
"""``(start, stop)``."""


def to_float32(x: Tensor) -> Tensor:
    """Convert bfloat16 rows to float32, for functions that accept no others; differentiable. Others are unchanged.

    Example:
        >>> x = torch.ones(2, 3)
        >>> to_float32(x) is x, to_float32(x.bfloat16()).dtype
        (True, torch.float32)
    """
    return x.float() if x.dtype == torch.bfloat16 else x


def turned(a: Tensor, b: Tensor, transposed: str) -> tuple[Tensor, Tensor]:
    """Return both factors of a product, with ``"a"`` or ``"b"`` transposed.

    Example:
        >>> [tuple(each.shape) for each in turned(torch.ones(2, 3), torch.ones(2, 4), "a")]
        [(3, 2), (2, 4)]
    """
    return a.t() if transposed == "a" else a, b.t() if transposed == "b" else b


@dataclass(frozen=True, eq=False)
class PassRows:
    """Rows of a pass: ids of their nodes, and the counter of the noise generator."""

    ids: Tensor
    """Global ids, int64 ``(N,)``."""
    seed: int
    epoch: int
    training: bool = True
    raw_features: Any = None
    """Raw features: the graph holds them anyway, so saving them for backward needs no codes."""


class Compute(AxisPart, ABC):
    """Base class of recipe parts of the axis ``compute``: the precision of products."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("build",),)
    kept_bytes: ClassVar[int] = 0
    """Bytes per element of a layer's saved activations; 0: unknown. Memory checks read it."""
    remade: ClassVar[bool] = False
    """True if a backward pass can recompute a product; checks of ``recompute`` and edge features read it."""

    @abstractmethod
    def build(self, device: torch.device | str = "cpu") -> Products:
        """Create the products of one worker; each worker has its own."""

    def refuses_activation(self, activation: str | None) -> str | None:
        """Return the reason why a model with this activation cannot be trained, or ``None``; for ``RunConfig``."""
        return None


class Products(Running, ABC):
    """Matrix products of one worker, in one precision.

    Those up to `attend_columns` record no gradient: they are building blocks of backward passes. `linear`, `affine`,
    `mixed`, `aggregate` and `attend` are differentiable.

    Each product without a gradient is written once, here, over the input format of its kernel. A precision converts its
    operands to that format in `_factor`, `_sources` and `_values`, and overrides `_product` for another matrix kernel.
    """

    quantized: Quantized | None = None
    """Counts of quantized elements for products of codes; records of epochs read them."""
    reads_codes: ClassVar[bool] = False
    """True if `spmm` takes codes of received rows as they are; read by exchanges."""
    _attend_rows: ClassVar[Callable[..., tuple[Tensor, Tensor]]] = staticmethod(attention.attend_rows)
    _attend_columns: ClassVar[Callable[..., tuple[Tensor, Tensor]]] = staticmethod(attention.attend_columns)
    """Kernels of attention over results of `_values`."""

    @property
    @abstractmethod
    def exact(self) -> Products:
        """Float32 products, for operands that must not be rounded; ``self`` if nothing is rounded."""

    @property
    def of_logits(self) -> Products:
        """Products for the two halves of an edge's logit, one value per end: exact unless a setting rounds them."""
        return self.exact

    @property
    def by_rows(self) -> bool:
        """True if some rows of an operand can be made before the others are available."""
        return True

    @property
    def remade(self) -> bool:
        """True if a backward pass can recompute a product: operands are the tensors themselves."""
        return False

    @abstractmethod
    def begin(self, rows: PassRows | None = None) -> None:
        """Begin a pass and drop the operands of the last one, because buffers and weights change in between.

        Args:
            rows: of the pass, for stochastic rounding as a function of seed, epoch, node and column.
        """

    @abstractmethod
    def operand(self, x: Operand, rows: Range | None = None) -> Operand:
        """Convert ``x`` to an operand, at most once per pass; ``x`` must not change afterwards.

        Args:
            x: float32 ``(N, D)`` or ``(N, K, F)``; an operand is returned unchanged.
            rows: range of rows of ``x`` that are available; later calls add the others, whose values are undefined
                until then.

        Returns:
            The operand of all rows.
        """

    def weight(self, w: Operand) -> Operand:
        """Convert a weight matrix to an operand, identical on every worker."""
        return self.operand(w)

    def halo(self, x: Operand, local: Operand, ids: Tensor) -> Operand:
        """Convert halo rows to an operand with the scales of ``local``, the operand of this worker's rows.

        Args:
            x: float32 ``(H, ...)``.
            local: operand of the owned rows of the same matrix.
            ids: global ids of the halo rows, int64 ``(H,)``.
        """
        return self.operand(x)

    def saved(self, operand: Operand, ids: Tensor | None = None, like: Operand | None = None) -> Operand:
        """Convert an operand to the operand that is saved for backward; by default the same.

        Args:
            operand: rows of this worker, ``(N, D)`` or ``(N, K, F)``.
            ids: global ids of the rows, if they differ from those of the pass.
            like: saved operand of other rows of the same layer; rows with the same id get the same rounding noise.
        """
        return operand

    def note_requantized(self, elements: int) -> None:  # most round nothing
        """Count elements of received rows that a codec has rounded and that are now quantized again."""

    def on_first_aggregation(self, output: Tensor) -> None:  # most have nothing to decide
        """Handle the output of the first aggregation of a training pass, ``(N, ...)``, to choose bits by it."""

    def rowwise(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Return ``compute(*rows)``, for norms and activations; a precision may change what they save for backward."""
        return compute(*rows)

    def nodewise(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None, inplace: bool = False
    ) -> Tensor:
        """Return ``drop(activation(norm(x)))`` as :func:`gnnqlab.kernels.rowwise.nodewise.nodewise`; differentiable.

        The result may already be an operand, such as bfloat16 rows; other passes use it directly or :func:`to_float32`.
        """
        return nodewise.nodewise(x, norm, activation=activation, mask=mask, inplace=inplace)

    def nodewise_both(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None
    ) -> tuple[Tensor, Tensor]:
        """Return ``activation(norm(x))`` without and with dropout; differentiable."""
        return nodewise.nodewise_both(x, norm, activation=activation, mask=mask)

    def residual(self, x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Return ``(1 - share) x + share first`` and ``first``, as
        :func:`gnnqlab.kernels.rowwise.residual.residual`."""
        return residual.residual(x, first, share)

    def join(self, layers: Sequence[Tensor], how: str, *, mask: Mask | None) -> Tensor:
        """Concatenate layers or take the elementwise maximum, with dropout; see `jumping_knowledge.join`."""
        # The kernel joins float32 layers; the results of `nodewise` may be bfloat16.
        return jumping_knowledge.join([to_float32(layer) for layer in layers], how, mask=mask)

    @abstractmethod
    def part(self, operand: Operand, rows: Range) -> Operand:
        """Return a range of rows of an operand, as a view."""

    @abstractmethod
    def dense(self, operand: Operand) -> Tensor:
        """Return the float32 values of an operand or a tensor."""

    def mm(self, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        """Return ``a @ b`` in float32; no gradient is recorded.

        Args:
            a, b: operands, or float32 matrices, which are converted for this product only.
            transposed: ``"a"`` for ``a.T @ b``, ``"b"`` for ``a @ b.T``.
            out: result tensor; allocated if ``None``.
        """
        return self._product(None, a, b, transposed, out)

    def addmm(self, base: Tensor, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        """Return ``base + a @ b`` like :meth:`mm`; ``base`` is a row or a matrix, which may be ``out``."""
        return self._product(base, a, b, transposed, out)

    def spmm(
        self,
        adjacency: Adjacency,
        x: Operand,
        halo: Operand | None = None,
        *,
        rows: Range | None = None,
        transposed: bool = False,
        out: Tensor | None = None,
        accumulate: bool = False,
    ) -> Tensor:
        """Aggregate in float32, as :func:`gnnqlab.kernels.sparse.aggregate.spmm`; ``x``, ``halo`` as in `mm`."""
        sources = self._sources(adjacency, x, halo, rows, transposed)  # (N, D) and (H, D), in a format of the kernel
        return sparse.spmm(adjacency, *sources, rows=rows, transposed=transposed, out=out, accumulate=accumulate)

    def attend_rows(
        self,
        adjacency: Adjacency,
        values: Operand,
        source_logits: Tensor,
        target_logits: Tensor,
        halo_values: Operand | None = None,
        halo_logits: Tensor | None = None,
        *,
        slope: float = 0.2,
        rows: Range | None = None,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Run attention forward, as :func:`gnnqlab.kernels.sparse.attention.attend_rows`.

        Values are operands ``(N, K, F)``.
        """
        halo = None if halo_values is None else self._values(halo_values)
        operands = (self._values(values), source_logits, target_logits, halo, halo_logits)
        return self._attend_rows(adjacency, *operands, slope=slope, rows=rows, out=out)

    def attend_columns(
        self,
        adjacency: Adjacency,
        values: Operand,
        source_logits: Tensor,
        packed: Tensor,
        gradient: Operand,
        edge_gradients: Tensor,
        *,
        columns: Range,
        slope: float = 0.2,
    ) -> tuple[Tensor, Tensor]:
        """Run attention backward, as :func:`gnnqlab.kernels.sparse.attention.attend_columns`.

        Values and gradient are operands.
        """
        operands = (self._values(values), source_logits, packed, self._values(gradient), edge_gradients)
        return self._attend_columns(adjacency, *operands, columns=columns, slope=slope)

    def _product(self, base: Tensor | None, a: Operand, b: Operand, transposed: str, out: Tensor | None) -> Tensor:
        """Multiply as in `mm` if ``base`` is ``None``, else as in `addmm`."""
        a, b = turned(self._factor(a), self._factor(b), transposed)  # (N, D), (D, O)
        # Faster for many rows on some processors; sums differ from PyTorch's in their order only.
        if tall_skinny.pays(a, b):
            return tall_skinny.tall_mm(a, b, base=base, out=out)
        return torch.mm(a, b, out=out) if base is None else torch.addmm(base, a, b, out=out)

    def _factor(self, operand: Operand) -> Tensor:
        """Convert an operand to a factor of a matrix product."""
        factor: Tensor = operand
        return factor

    def _sources(
        self, adjacency: Adjacency, x: Operand, halo: Operand | None, rows: Range | None, transposed: bool
    ) -> tuple[Any, Any]:
        """Convert ``x`` and ``halo`` to inputs of the aggregation kernel for these rows."""
        return x, halo

    def _values(self, operand: Operand) -> Any:
        """Convert values of attention, or their gradient, to inputs of the attention kernels."""
        return operand

    @abstractmethod
    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``x weight + bias``, ``(N, O)``, differentiable in all three."""

    @abstractmethod
    def affine(self, base: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        """Return ``beta base + alpha x weight``, differentiable in all three; ``base`` may be a row."""

    def mixed(self, x: Tensor, weight: Tensor, *, beta: float, alpha: float) -> Tensor:
        """Return ``beta x + alpha x weight``, ``(N, D)``, differentiable in both; weight ``(D, D)``."""
        return self.affine(x, x, weight, beta=beta, alpha=alpha)

    @abstractmethod
    def aggregate(self, adjacency: Adjacency, x: Tensor) -> Tensor:
        """Return ``A x``, differentiable in ``x``, as :func:`gnnqlab.kernels.sparse.aggregate.aggregate`."""

    @abstractmethod
    def attend(
        self, adjacency: Adjacency, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float = 0.2
    ) -> Tensor:
        """Run attention over all columns, differentiable in ``z (N, K, F)`` and both vectors ``(K, F)`` of the logits.

        The logits, ``<a_source, z_u> + <a_target, z_v>``, use ``z`` itself; the weighted sum uses its operand.
        """
