"""What every precision of products offers: operands, and the products over them.

An *operand* is a matrix as products take it: float32 as it is, rounded rows, codes with scales, or packed. It is made
once a pass (:meth:`Products.operand`), serves every product of that pass, and is what a backward pass keeps. Sums and
results are float32 whatever the operands are.

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
"""What a kind of products makes of a float32 matrix: a tensor, or a dataclass of tensors with a ``shape``."""
Range = tuple[int, int]
"""``(start, stop)``."""


def to_float32(x: Tensor) -> Tensor:
    """Return rows of bfloat16 in float32, for whoever takes no others; differentiable. Other rows stay as they are.

    Example:
        >>> x = torch.ones(2, 3)
        >>> to_float32(x) is x, to_float32(x.bfloat16()).dtype
        (True, torch.float32)
    """
    return x.float() if x.dtype == torch.bfloat16 else x


def turned(a: Tensor, b: Tensor, transposed: str) -> tuple[Tensor, Tensor]:
    """Return both factors of a product, ``"a"`` or ``"b"`` of them transposed.

    Example:
        >>> [tuple(each.shape) for each in turned(torch.ones(2, 3), torch.ones(2, 4), "a")]
        [(3, 2), (2, 4)]
    """
    return a.t() if transposed == "a" else a, b.t() if transposed == "b" else b


@dataclass(frozen=True, eq=False)
class PassRows:
    """What the rows of a pass are: their nodes, and the counter of its randomness."""

    ids: Tensor
    """Global ids, int64 ``(N,)``."""
    seed: int
    epoch: int
    training: bool = True
    held: Any = None
    """Raw features: the graph holds them whatever a backward pass keeps."""


class Compute(AxisPart, ABC):
    """Base class of recipe parts of the axis ``compute``: in which precision products run."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("build",),)
    kept_bytes: ClassVar[int] = 0
    """Bytes of an element of the rows that a layer keeps for the backward pass; 0: unknown. Memory checks read it."""
    remade: ClassVar[bool] = False
    """Whether a backward pass can run a product again; checks of ``keep_for_backward`` and of edge features read it."""

    @abstractmethod
    def build(self, device: torch.device | str = "cpu") -> Products:
        """Return the products of one worker; each worker has its own."""

    def refuses_activation(self, activation: str | None) -> str | None:
        """Return why a model with this activation cannot be trained, or ``None``; ``RunConfig`` calls it."""
        return None


class Products(Running, ABC):
    """The products of one worker, in one precision.

    Those up to `attend_columns` record no gradient: they are for who writes a backward pass. `linear`, `affine`,
    `mixed`, `aggregate` and `attend` are differentiable.

    Each product without a gradient is written once, here, over rows that a kernel takes. A precision makes those of its
    operands, in `_factor`, `_sources` and `_values`; it replaces `_product` where its matrices have another kernel.
    """

    quantized: Quantized | None = None
    """Count of elements that were quantized for products of codes; records of epochs read it."""
    _attend_rows: ClassVar[Callable[..., tuple[Tensor, Tensor]]] = staticmethod(attention.attend_rows)
    _attend_columns: ClassVar[Callable[..., tuple[Tensor, Tensor]]] = staticmethod(attention.attend_columns)
    """Kernels of attention over what `_values` returns."""

    @property
    @abstractmethod
    def exact(self) -> Products:
        """Float32 products, for what must not be rounded; these themselves, if they round nothing."""

    @property
    def of_logits(self) -> Products:
        """What the two halves of an edge's logit, numbers of its ends, are operands of: exact unless a setting says."""
        return self.exact

    @property
    def by_rows(self) -> bool:
        """Whether some rows of an operand can be made before the others are there."""
        return True

    @property
    def remade(self) -> bool:
        """Whether a backward pass can run a product again: operands are the tensors themselves."""
        return False

    @abstractmethod
    def begin(self, rows: PassRows | None = None) -> None:
        """Open a pass: operands of the one before are forgotten, since buffers and weights change in between.

        Args:
            rows: for operands that are rounded by noise, which is then a function of seed, epoch, node and column.
        """

    @abstractmethod
    def operand(self, x: Operand, rows: Range | None = None) -> Operand:
        """Return ``x`` as products take it, made at most once a pass; ``x`` must not change after.

        Args:
            x: float32 ``(N, D)`` or ``(N, K, F)``; an operand is returned as it is.
            rows: only these rows of ``x`` are there yet; the others follow by further calls, and count for nothing
                until then.

        Returns:
            The operand of all rows.
        """

    def weight(self, w: Operand) -> Operand:
        """Return what every row is multiplied with, the same on every worker, as :meth:`operand`."""
        return self.operand(w)

    def halo(self, x: Operand, beside: Operand, ids: Tensor) -> Operand:
        """Return rows of other workers as the operand ``beside``, of the own rows of the same matrix, has them there.

        Args:
            x: float32 ``(H, ...)``.
            ids: global ids of these rows, int64 ``(H,)``.
        """
        return self.operand(x)

    def saved(self, operand: Operand, ids: Tensor | None = None, like: Operand | None = None) -> Operand:
        """Return what a backward pass keeps of an operand: an operand again, by default this one.

        Args:
            operand: the rows of this worker, ``(N, D)`` or ``(N, K, F)``.
            ids: global ids of its rows, where they are others.
            like: what was kept of rows of the same layer; rows with the same id err alike in both.
        """
        return operand

    def note_requantized(self, elements: int) -> None:  # most round nothing
        """Take note that so many elements, which a codec rounded on their way, are to be multiplied."""

    def on_first_aggregation(self, output: Tensor) -> None:  # most have nothing to decide
        """Take what the first look at neighbours of a training pass came to, ``(N, ...)``: for who decides by it."""

    def rowwise(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Return ``compute(*rows)``, norms and activations, and see to what it keeps for the backward pass."""
        return compute(*rows)

    def nodewise(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None, inplace: bool = False
    ) -> Tensor:
        """Return ``drop(activation(norm(x)))`` as :func:`gnnqlab.kernels.rowwise.nodewise.nodewise`; differentiable.

        What comes out is an operand already where a kind of products has one of rows as narrow: other passes take it as
        it is, or :func:`to_float32`.
        """
        return nodewise.nodewise(x, norm, activation=activation, mask=mask, inplace=inplace)

    def nodewise_both(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None
    ) -> tuple[Tensor, Tensor]:
        """Return ``activation(norm(x))`` and the same dropped; differentiable."""
        return nodewise.nodewise_both(x, norm, activation=activation, mask=mask)

    def residual(self, x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Return ``(1 - share) x + share first`` and ``first``, as
        :func:`gnnqlab.kernels.rowwise.residual.residual`."""
        return residual.residual(x, first, share)

    def join(self, layers: Sequence[Tensor], how: str, *, mask: Mask | None) -> Tensor:
        """Return layers side by side or the largest of each element, dropped, in float32, as `kernels.jumping_knowledge.join`."""
        return jumping_knowledge.join([to_float32(layer) for layer in layers], how, mask=mask)

    @abstractmethod
    def part(self, operand: Operand, rows: Range) -> Operand:
        """Return some rows of an operand, which share its memory."""

    @abstractmethod
    def dense(self, operand: Operand) -> Tensor:
        """Return the float32 values that an operand, or a tensor, stands for."""

    def mm(self, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        """Return ``a @ b`` in float32; no gradient is recorded.

        Args:
            a, b: operands or float32 matrices, which are then prepared for this product alone.
            transposed: ``"a"`` for ``a.T @ b``, ``"b"`` for ``a @ b.T``.
            out: written and returned; made if not given.
        """
        return self._product(None, a, b, transposed, out)

    def addmm(self, base: Tensor, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        """Return ``base + a @ b`` like :meth:`mm`; ``base`` is a row, or a matrix, ``out`` itself among others."""
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
        """Sum each row's neighbours in float32, as :func:`gnnqlab.kernels.sparse.aggregate.spmm`; ``x``, ``halo`` as
        `mm`."""
        sources = self._sources(adjacency, x, halo, rows, transposed)
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
        """Attend, forward, as :func:`gnnqlab.kernels.sparse.attention.attend_rows`; values are operands ``(N, K,
        F)``."""
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
        """Attend, backward, as :func:`gnnqlab.kernels.sparse.attention.attend_columns`; values, gradient are
        operands."""
        operands = (self._values(values), source_logits, packed, self._values(gradient), edge_gradients)
        return self._attend_columns(adjacency, *operands, columns=columns, slope=slope)

    def _product(self, base: Tensor | None, a: Operand, b: Operand, transposed: str, out: Tensor | None) -> Tensor:
        """Multiply as `mm` does, without a ``base``, or as `addmm` does."""
        a, b = turned(self._factor(a), self._factor(b), transposed)
        if tall_skinny.pays(a, b):
            return tall_skinny.tall_mm(a, b, base=base, out=out)
        return torch.mm(a, b, out=out) if base is None else torch.addmm(base, a, b, out=out)

    def _factor(self, operand: Operand) -> Tensor:
        """Return a factor of a product of matrices."""
        factor: Tensor = operand
        return factor

    def _sources(
        self, adjacency: Adjacency, x: Operand, halo: Operand | None, rows: Range | None, transposed: bool
    ) -> tuple[Any, Any]:
        """Return ``x`` and ``halo`` as a sum over these rows of a matrix takes them."""
        return x, halo

    def _values(self, operand: Operand) -> Any:
        """Return values of attention, or their gradient."""
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
        """Attend to all columns, differentiable in ``z (N, K, F)`` and the two vectors ``(K, F)`` of the logits.

        The logits, ``<a_source, z_u> + <a_target, z_v>``, are of ``z`` as it is; what is summed is its operand.
        """
