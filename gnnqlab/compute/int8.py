"""Rows, weights and gradients as integers where they are multiplied (TANGO); sums, results and weights in float32.

TANGO (Chen et al., SC 2023) quantizes what a product takes with one scale for a tensor, rounds by noise, multiplies
integers, and keeps float32 weights (section 3.2). A scale a row is ours. What each does to the products:

* ``X W`` and ``dY W^T``: integers with 32-bit sums; a row's scale and the weight's meet the sum.
* ``A X`` and attention: float32 sums of codes, each times its edge and its row's scale; logits are of z as it is.
* ``X^T dY`` sums over rows. One scale a tensor: integers. A scale a row does not leave the sum: float32 sums of codes
  times both scales, nothing rounded but the codes.

Rounding is unbiased and a function of (seed, epoch, operand, global node, column). So with a scale a row P workers
train what one process trains, up to the order of float32 sums: a row that its owner and its receivers round has the
same codes everywhere. A scale a tensor is that of what one worker prepares at once (its rows; under overlap its central
and its marginal rows apart; the rows that came): nobody waits for another's range, and P workers round with other steps
than one process, unbiased all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableMapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.prepared import PreparedProducts
from gnnqlab.compute.products import Operand, PassRows, Products, Range
from gnnqlab.kernels import aggregate as sparse
from gnnqlab.kernels.adjacency import Adjacency
from gnnqlab.kernels.aggregate import QuantizedRows
from gnnqlab.kernels.int8_edges import int8_attend_columns, int8_attend_rows
from gnnqlab.kernels.int8_mm import MOST_TERMS, int8_mm, int8_mm_scaled, int8_mm_transposed
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.quantize import SCALES, Noise, check_bits, quantize

__all__ = ["Codes", "Int8Products", "QuantizedProducts"]

ROUNDINGS = ("stochastic", "nearest")
_MOST_RUNS = 8
"""Runs of rows of one scale that are worth a product of integers each."""


@dataclass(frozen=True)
class Int8Products:
    """Compute: operands are codes of ``bits`` bits, quantized once a pass; weights are updated in float32."""

    bits: int = 8
    """Of a code, 2 to 8; each fills a byte."""
    scale: str = "row"
    """Of rows and their gradients: ``row``, one a row, or ``tensor``, one for all that is prepared at once."""
    rounding: str = "stochastic"
    """``stochastic``, unbiased, or ``nearest``, for comparison."""
    exact_classifier: bool = True
    """Multiply in float32 in the layer before the loss (section 3.2)."""

    def __post_init__(self) -> None:
        check_bits(self.bits)
        for name, known in (("scale", SCALES), ("rounding", ROUNDINGS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, got {getattr(self, name)!r}")

    def build(self, device: torch.device | str = "cpu") -> Products:
        """Return the products of one worker."""
        return QuantizedProducts(self)


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

    @property
    def rows(self) -> QuantizedRows:
        return QuantizedRows(self.codes, self.scales)


@dataclass
class Quantized:
    """Elements that products took as codes, and those that were quantized for it."""

    used: int = 0
    made: int = 0

    @property
    def avoided(self) -> int:
        """Elements that would have been quantized again if each product quantized what it takes."""
        return self.used - self.made


@dataclass
class _Numbers:
    """The next number of each kind of operand in a pass."""

    next: dict[str, int] = field(default_factory=dict)

    def stream(self, kind: str) -> int:
        number = self.next.get(kind, 0)
        self.next[kind] = number + 1
        return stream(kind, number % 4096)


class QuantizedProducts(PreparedProducts):
    """Products of integer codes, one worker's.

    Example:
        >>> products = QuantizedProducts()
        >>> products.linear(torch.tensor([[127.0, 2.0]]), torch.ones(2, 1)).item()
        129.0
    """

    def __init__(self, settings: Int8Products = Int8Products()) -> None:
        super().__init__()
        self.settings = settings
        self.quantized = Quantized()
        """Counted since the products were built."""
        self._weights: MutableMapping[Tensor, tuple[Codes, int]] = WeakTensorKeyDictionary()
        self._rows: PassRows | None = None
        self._passes = 0
        self._numbers = _Numbers()

    @property
    def exact(self) -> Products:
        return PLAIN if self.settings.exact_classifier else self

    def begin(self, rows: PassRows | None = None) -> None:
        super().begin()
        self._weights.clear()
        self._rows, self._numbers = rows, _Numbers()
        self._passes += 1

    def weight(self, w: Operand) -> Operand:
        if not isinstance(w, Tensor):
            return w
        codes, version = self._weights.get(w, (None, None))
        if codes is None or version != w._version:
            codes = self._alone(w, self._numbers.stream("weight"), "tensor")
            codes = dataclasses.replace(codes, step=float(codes.scales[0]) if len(codes.scales) else 0.0)
            self._weights[w] = codes, w._version
        return codes

    def halo(self, x: Operand, beside: Operand, ids: Tensor) -> Operand:
        if not isinstance(x, Tensor) or x.dtype != torch.float32:
            return x
        return self._alone(x, beside.stream, self.settings.scale, ids)

    def part(self, operand: Operand, rows: Range) -> Operand:
        if isinstance(operand, Tensor):
            return operand[rows[0] : rows[1]]
        of_part = (operand.codes[rows[0] : rows[1]], operand.scales[rows[0] : rows[1]])
        return Codes(*of_part, (rows[1] - rows[0], *operand.shape[1:]), operand.stream, operand.step)

    def dense(self, operand: Operand) -> Tensor:
        if isinstance(operand, Tensor):
            return operand
        values: Tensor = operand.codes * operand.scales.unsqueeze(1)
        return values.view(operand.shape)

    def mm(self, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        a, b = self._factors(a, b)
        if transposed == "a":
            return self._over_rows(a, b, out, accumulate=False)
        return self._over_columns(a, b, transposed == "b", None, out, accumulate=False)

    def addmm(self, base: Tensor, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        a, b = self._factors(a, b)
        if base.dim() == 1 and transposed != "a":
            return self._over_columns(a, b, transposed == "b", base, out, accumulate=False)
        if out is None:
            rows, columns = a.shape[1] if transposed == "a" else a.shape[0], b.shape[0 if transposed == "b" else 1]
            out = torch.empty((rows, columns), device=base.device)
        if out is not base:
            out.copy_(base)
        if transposed == "a":
            return self._over_rows(a, b, out, accumulate=True)
        return self._over_columns(a, b, transposed == "b", None, out, accumulate=True)

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
        x = self._codes(x)
        halo = None if halo is None else self._codes(halo).rows
        return sparse.spmm(adjacency, x.rows, halo, rows=rows, transposed=transposed, out=out, accumulate=accumulate)

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
        halo = None if halo_values is None else self._codes(halo_values).rows
        operands = (self._codes(values).rows, source_logits, target_logits, halo, halo_logits)
        return int8_attend_rows(adjacency, *operands, slope=slope, rows=rows, out=out)

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
        operands = (self._codes(values).rows, source_logits, packed, self._codes(gradient).rows, edge_gradients)
        return int8_attend_columns(adjacency, *operands, columns=columns, slope=slope)

    def _over_columns(
        self, a: Codes, b: Codes, transposed: bool, bias: Tensor | None, out: Tensor | None, *, accumulate: bool
    ) -> Tensor:
        """``a @ b``, or ``a @ b.T``: integers, where b has one scale and a sum few enough terms."""
        if b.step is not None and a.codes.shape[1] < MOST_TERMS:
            return int8_mm(
                a.codes, a.scales, b.codes, b.step, transposed=transposed, bias=bias, out=out, accumulate=accumulate
            )
        product = PLAIN.mm(self.dense(a), self.dense(b), transposed="b" if transposed else "")
        product = product if bias is None else product + bias
        if out is None:
            return product
        return out.add_(product) if accumulate else out.copy_(product)

    def _over_rows(self, a: Codes, b: Codes, out: Tensor | None, *, accumulate: bool) -> Tensor:
        """``a.T @ b``: integers for each run of rows of one scale, or float32 sums."""
        scales = a.scales * b.scales
        if out is None:
            out, accumulate = torch.zeros((a.codes.shape[1], b.codes.shape[1]), device=scales.device), True
        if self.settings.scale == "tensor":
            steps, counts = torch.unique_consecutive(scales, return_counts=True)
            if len(steps) <= _MOST_RUNS:
                out = out if accumulate else out.zero_()
                start = 0
                for step, count in zip(steps.tolist(), counts.tolist(), strict=True):
                    stop = start + count
                    int8_mm_transposed(a.codes[start:stop], b.codes[start:stop], step, out=out, accumulate=True)
                    start = stop
                return out
        return int8_mm_scaled(a.codes, b.codes, scales, out=out, accumulate=accumulate)

    def _factors(self, a: Operand, b: Operand) -> tuple[Codes, Codes]:
        return self._codes(a), self._codes(b)

    def _codes(self, x: Operand) -> Codes:
        """An operand that a product takes; a matrix is quantized for it alone."""
        codes = self._prepare(x) if isinstance(x, Tensor) else x
        self.quantized.used += codes.codes.numel()
        return codes

    def _prepare(self, x: Tensor) -> Codes:
        return self._alone(x, self._stream(x), self.settings.scale)

    def _blank(self, x: Tensor) -> Codes:
        width = x[0].numel() if len(x) else x.flatten(1).shape[1]
        codes = torch.empty((x.shape[0], width), dtype=torch.int8, device=x.device)
        return Codes(codes, torch.empty(x.shape[0], device=x.device), tuple(x.shape), self._stream(x))

    def _fill(self, operand: Codes, x: Tensor, rows: Range) -> None:
        first, last = rows
        out = QuantizedRows(operand.codes[first:last], operand.scales[first:last])
        noise = self._noise(self._ids(x)[first:last], operand.stream)
        quantize(
            x[first:last].flatten(1).float(), bits=self.settings.bits, scale=self.settings.scale, noise=noise, out=out
        )
        self.quantized.made += out.codes.numel()

    def _alone(self, x: Tensor, number: int, scale: str, ids: Tensor | None = None) -> Codes:
        ids = self._ids(x) if ids is None else ids
        rows = quantize(x.flatten(1).float(), bits=self.settings.bits, scale=scale, noise=self._noise(ids, number))
        self.quantized.made += rows.codes.numel()
        return Codes(rows.codes, rows.scales, tuple(x.shape), number)

    def _stream(self, x: Tensor) -> int:
        return self._numbers.stream("operand" if self._of_nodes(x) else "loose")

    def _of_nodes(self, x: Tensor) -> bool:
        return self._rows is not None and len(self._rows.ids) == x.shape[0]

    def _ids(self, x: Tensor) -> Tensor:
        """Global ids of rows of nodes; numbers of other rows."""
        if self._rows is not None and self._of_nodes(x):
            return self._rows.ids
        return torch.arange(x.shape[0], device=x.device)

    def _noise(self, ids: Tensor, number: int) -> Noise | None:
        if self.settings.rounding == "nearest":
            return None
        seed, epoch = (0, self._passes) if self._rows is None else (self._rows.seed, self._rows.epoch)
        return Noise(ids, seed, epoch, number)
