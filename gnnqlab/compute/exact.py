"""Float32 products whose saved activations have 1, 2, 4 or 8 bits (EXACT).

The forward pass is bitwise that of float32: nothing is rounded before a product, so no layer needs products of its own.
Saved as codes are inputs of products with weights, rows and sums of attention, and inputs of LayerNorm. A ReLU saves
one bit per element, dropout nothing (its mask is a function of ids and seed), and an aggregation nothing. Saved in
float32 are raw features, weights, values per row or per head, rows if a node has several, and all that a model computes
with PyTorch directly, such as an LSTM.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.compute.float32 import PlainProducts
from gnnqlab.compute.gradients import AttendFunction, LinearFunction
from gnnqlab.compute.packed import Counter, PackedRows, pack
from gnnqlab.compute.packed_gradients import LayerNorm, PackedAffine, Rectifier
from gnnqlab.compute.products import Compute, Operand, PassRows, Products, Range
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.rowwise.nodewise import Mask, Norm, step_by_step
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.settings import OneOf, check
from gnnqlab.settings import Range as Between

__all__ = ["ExactActivations", "ExactProducts"]


@dataclass(frozen=True)
class ExactActivations(Compute):
    """Compute: products in float32, with saved activations in few bits (EXACT).

    Differs: Z and S are rounded to bfloat16 before the codes are made; the authors truncate them afterwards, which
    biases decoded values. Dropout saves no mask; the projection is drawn again, not saved; an activation that two
    products share is saved once.
    """

    bits: Annotated[int, OneOf((1, 2, 4, 8))] = 8
    """Bits of a code. The default of the authors' library is 2, of their command line 8."""
    ratio: Annotated[float, Between(0, 1, open_low=True)] = 1.0
    """Columns after the random projection of product inputs, relative to before, in (0, 1]; 1: no projection."""

    def __post_init__(self) -> None:
        check(self)

    def refuses_activation(self, activation: str | None) -> str | None:
        """Return the reason why a model with this activation cannot be trained, or ``None``."""
        return _refusal(activation)

    def build(self, device: torch.device | str = "cpu") -> Products:
        """Create the products of one worker."""
        return ExactProducts(self.bits, self.ratio)


class ExactProducts(PlainProducts):
    """Float32 products whose gradients are computed from saved codes.

    Outside a training pass (:meth:`begin`) they are plain float32 products.
    """

    def __init__(self, bits: int = 8, ratio: float = 1.0) -> None:
        self.bits, self.ratio = bits, ratio
        self._pass: PassRows | None = None
        self._saves = 0
        # Weak: dropped with the tensor. Version of the tensor, True if projected, and codes.
        self._known: MutableMapping[Tensor, tuple[int, bool, PackedRows]] = WeakTensorKeyDictionary()

    def begin(self, rows: PassRows | None = None) -> None:
        self._pass = rows if rows is not None and rows.training else None
        self._saves = 0
        self._known.clear()

    @property
    def _packs(self) -> bool:
        return self._pass is not None and torch.is_grad_enabled()

    def saved(
        self, operand: Operand, ids: Tensor | None = None, like: Operand | None = None, *, project: bool = True
    ) -> Operand:
        """Pack rows into codes; unchanged outside a training pass, for raw features, and if not one row per node.

        Raises:
            ValueError: if they are not float32.
        """
        place = self._pass
        if place is None or operand is place.raw_features or not isinstance(operand, Tensor):
            return operand
        if operand.dtype != torch.float32:
            raise ValueError(
                f"compute exact saves float32 rows as codes, got {operand.dtype}; choose compute float32 for others"
            )
        ids = place.ids if ids is None else ids
        # Not one row per node: there are no ids for the noise, so the rows are saved in float32.
        if operand.shape[0] != ids.numel():
            return operand
        # The codes of a tensor are shared by all products that save it, until it is written to.
        entry = self._known.get(operand)
        project = project and self.ratio < 1.0 and operand.dim() == 2
        if entry is not None and entry[:2] == (operand._version, project):
            return entry[2]
        # The stream of the owned rows, so that a halo node has the codes that it has on its owner.
        counter = like.counter if isinstance(like, PackedRows) else self._next(place)
        ratio = self.ratio if project else 1.0
        packed = pack(operand, ids, bits=self.bits, counter=counter, ratio=ratio)
        self._known[operand] = operand._version, project, packed
        return packed

    def _next(self, place: PassRows) -> Counter:
        # A stream for each saved tensor, so that rounding errors of layers are independent.
        self._saves += 1
        return Counter(place.seed, place.epoch, stream("kept", self._saves - 1))

    def rowwise(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        if not self._packs:
            return compute(*rows)
        with _Elementwise(self):
            return compute(*rows)

    def nodewise(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None, inplace: bool = False
    ) -> Tensor:
        if not self._packs:
            return super().nodewise(x, norm, activation=activation, mask=mask, inplace=inplace)
        _expect_rectifier(activation)
        with _Elementwise(self):  # codes of the norm's input and the ReLU's bits: less memory than the fused pass saves
            return step_by_step(x, norm, activation=activation, mask=mask, inplace=inplace)[0]

    def nodewise_both(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None
    ) -> tuple[Tensor, Tensor]:
        if not self._packs:
            return super().nodewise_both(x, norm, activation=activation, mask=mask)
        _expect_rectifier(activation)
        with _Elementwise(self):
            # each step saves codes or bits
            dropped_rows, rows = step_by_step(x, norm, activation=activation, mask=mask)
        return rows, dropped_rows

    def part(self, operand: Operand, rows: Range) -> Operand:
        return self.dense(operand)[rows[0] : rows[1]]

    def dense(self, operand: Operand) -> Tensor:
        if isinstance(operand, PackedRows):
            return operand.dense()
        tensor: Tensor = operand
        return tensor

    def _product(self, base: Tensor | None, a: Operand, b: Operand, transposed: str, out: Tensor | None) -> Tensor:
        if base is None and isinstance(a, PackedRows) and a.projected and transposed == "a":
            # R ((x R).T b) in place of ((x R) R.T).T b: R multiplies (k, O), not (N, k).
            return torch.mm(a.projection(), torch.mm(a.rows().t(), self.dense(b)), out=out)
        return super()._product(base, a, b, transposed, out)

    def _factor(self, operand: Operand) -> Tensor:
        return self.dense(operand)

    def _values(self, operand: Operand) -> Tensor:
        return self.dense(operand)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not self._packs:
            return super().linear(x, weight, bias)
        # The same float32 product, as a function that saves codes of x.
        product: Tensor = LinearFunction.apply(x, weight, self)
        return product if bias is None else product + bias

    def affine(self, base: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        if not self._packs:
            return super().affine(base, x, weight, beta=beta, alpha=alpha)
        result: Tensor = PackedAffine.apply(base, x, weight, beta, alpha, self)
        return result

    def mixed(self, x: Tensor, weight: Tensor, *, beta: float, alpha: float) -> Tensor:
        if not self._packs:
            return super().mixed(x, weight, beta=beta, alpha=alpha)
        return self.affine(x, x, weight, beta=beta, alpha=alpha)

    def attend(
        self, adjacency: Adjacency, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float = 0.2
    ) -> Tensor:
        if not self._packs:
            return super().attend(adjacency, z, a_source, a_target, slope=slope)
        attended: Tensor = AttendFunction.apply(z, a_source, a_target, adjacency, slope, self)
        return attended


def _refusal(activation: str | None) -> str | None:
    if activation in (None, "none", "relu"):
        return None
    return (
        f"compute exact saves one bit per element for the slope of an activation, got {activation!r}, whose slope "
        "has more than two values; choose activation relu, or another compute"
    )


def _expect_rectifier(activation: str) -> None:
    reason = _refusal(activation)
    if reason is not None:
        raise ValueError(reason)


class _Elementwise(TorchFunctionMode):
    """Mode in which PyTorch's LayerNorm and ReLU functions save codes and signs."""

    def __init__(self, products: ExactProducts) -> None:
        super().__init__()
        self._products = products

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is functional.layer_norm:
            return self._norm(*args, **kwargs)
        if function in _RECTIFIERS:
            return self._rectify(function, *args, **kwargs)
        return function(*args, **kwargs)

    def _norm(
        self,
        x: Tensor,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        # Only rows normalized over all their columns are saved as codes.
        if x.dim() != 2 or tuple(normalized_shape) != tuple(x.shape[1:]):
            return functional.layer_norm(x, normalized_shape, weight, bias, eps)
        save = partial(self._products.saved, project=False)  # only inputs of products are projected
        output: Tensor = LayerNorm.apply(x, weight, bias, eps, self._products, save)
        return output

    def _rectify(self, function: Any, input: Tensor, inplace: bool = False) -> Tensor:
        if not input.requires_grad:  # nothing is saved for backward
            return torch.relu_(input) if inplace or function in _IN_PLACE else torch.relu(input)
        # One bit per element in place of the result that PyTorch would save.
        output: Tensor = Rectifier.apply(input, inplace or function in _IN_PLACE)
        return output


_IN_PLACE = (torch.relu_, Tensor.relu_)
_RECTIFIERS = (functional.relu, torch.relu, Tensor.relu, *_IN_PLACE)
