"""Integer operands of products: rows, weights and gradients (TANGO); sums, results and weight updates in float32.

TANGO (Chen et al., SC 2023) quantizes operands with one scale per tensor and stochastic rounding, multiplies integers,
and stores float32 weights (section 3.2). One scale per row is our addition. The products for each scale:

* ``X W`` and ``dY W^T``: integers with 32-bit sums, which are multiplied by the scales of the row and of the weight.
* ``A X`` and attention: float32 sums of codes times edge weight and row scale; logits use the original z, and are exact
  unless ``exact_logits`` is ``False``.
* ``X^T dY`` sums over rows. One scale per tensor: integers. A scale per row cannot be factored out of the sum: float32
  sums of codes times both scales; only the codes are rounded.

Rounding is unbiased and a function of (seed, epoch, operand, global node, column). Effect of the scale:

* ``row``: P workers train the same as one process, up to the order of float32 sums, because the owner and the receivers
  of a row get the same codes.
* ``whole``, one scale for all workers' rows: the same, but each operand needs all rows and an all-reduced maximum. So
  nothing can be multiplied during an exchange, and schedules that overlap are refused.
* ``tensor``, one scale for all rows that a worker prepares at once (its rows; with overlap its central and its marginal
  rows separately; received rows): no worker waits for the range of another. P workers round with other steps than one
  process, still unbiased.

Under a vertex-cut, copies of a node round parts of its gradient, with any scale: only the forward pass is that of one
process.

Received rows that a codec has quantized are decoded, quantized again, and counted (``rounded_twice`` of
``run.records``): codes of a codec start at the smallest element of a row, those of products at zero, so they cannot be
shared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.compute.amax import WHOLE, Largest
from gnnqlab.compute.bit_rule import CHOICES, BitChoice, relative_error
from gnnqlab.compute.codes import Codes, Quantized, StreamCounters, check_packing, rows_to_sum
from gnnqlab.compute.edge_products import EdgeProducts
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.products import Compute, Operand, PassRows, Products, Range
from gnnqlab.kernels.codec.quantize import SCALES, WIDTHS, NoiseCounter, check_bits, quantize
from gnnqlab.kernels.dense.code_rows import QuantizedRows
from gnnqlab.kernels.dense.int8_mm import MAX_TERMS, int8_mm, int8_mm_scaled, int8_mm_transposed
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.int8_edges import int8_attend_columns, int8_attend_rows, quantized_sum

__all__ = ["Int8Products", "QuantizedProducts"]

ROUNDINGS = ("stochastic", "nearest")
AUTO = "auto"
_MAX_RUNS = 8
"""Limit of runs of rows with one scale for which one integer product per run is faster."""
_BLOCK = 8192
"""Rows per block in which errors are summed, in float64."""


@dataclass(frozen=True)
class Int8Products(Compute):
    """Compute: operands are codes of ``bits`` bits, quantized once per pass; weights are updated in float32.

    Inputs of an exponential are exact by default, because there an error e multiplies odds by exp(e) (section 3.2, Eqs.
    7, 8). These are the logits of attention, and the layer before the loss: for one label (softmax), for several (a
    sigmoid each), and for links, whose score is the dot product of two rows, so that both errors would enter one
    exponent.
    """

    bits: int | str = 8
    """Bits of a code, 2 to 8, each stored in a byte. ``auto``: 8 in the first epoch, then for the whole training the
    fewest of 8, 6, 4 and 2 with a relative error of the first layer's output of at most 0.3 (Eq. 4)."""
    scale: str = "row"
    """Scale of rows and their gradients: ``row``, one per row; ``tensor``, one for all rows that a worker prepares at
    once; ``whole``, one for all workers' rows of a matrix (as in the paper), with an all-reduce per operand."""
    rounding: str = "stochastic"
    """``stochastic``, unbiased, or ``nearest``, for comparison: the paper's Test2."""
    exact_classifier: bool = True
    """Multiply in float32 in the layer before the loss (section 3.2); ``False`` is the paper's Test1."""
    exact_logits: bool = True
    """True: both halves of an edge's logit are float32 (section 3.2). False: they are rounded to codes before they are
    added, as in section 3.3 (erratum TG-5). With one scale per row the heads of a node share a scale, so the value of a
    single head determines its scale and is not changed by rounding; choose another scale to round it."""
    packed: str = "auto"
    """Packing of codes of at most four bits, two per byte, for aggregations; sums do not change. ``auto``: if measured
    to be faster; ``always``, which ``bits`` must allow; or ``never``."""

    def __post_init__(self) -> None:
        if isinstance(self.bits, str) and self.bits != AUTO:
            raise ValueError(f"bits must be one of {WIDTHS} or {AUTO!r}, got {self.bits!r}")
        check_bits(self.first_bits)
        for name, choices in (("scale", (*SCALES, WHOLE)), ("rounding", ROUNDINGS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        check_packing(self.packed, self.bits)

    @property
    def first_bits(self) -> int:
        """Bits of the first epoch."""
        return max(CHOICES) if isinstance(self.bits, str) else self.bits

    def build(self, device: torch.device | str = "cpu") -> Products:
        """Create the products of one worker."""
        return QuantizedProducts(self)

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use these products, or an empty text."""
        if not self.exact_logits and system.schedule.in_turn:
            return (
                "exact_logits=False rounds logits once per pass, but sequential attention computes them twice; choose "
                "exact_logits=True or another schedule"
            )
        if self.scale != WHOLE:
            return ""
        if not system.schedule.computes_after:
            return (
                "scale='whole' is known only after all rows have been received, but this schedule prepares some "
                "earlier; choose schedule Synchronous() or scale='row'"
            )
        if system.exchange.sends_blocks or system.sampler.p < 1.0:
            return "scale='whole' needs all rows, but blocks or samples are quantized alone; choose scale='row'"
        return ""


class QuantizedProducts(EdgeProducts):
    """Products of integer codes on one worker.

    Example:
        >>> products = QuantizedProducts()
        >>> products.linear(torch.tensor([[127.0, 2.0]]), torch.ones(2, 1)).item()
        129.0
    """

    _attend_rows, _attend_columns = staticmethod(int8_attend_rows), staticmethod(int8_attend_columns)

    def __init__(self, settings: Int8Products = Int8Products()) -> None:
        super().__init__()
        self.settings = settings
        self.bits = settings.first_bits
        """Bits of codes that are made from now on."""
        self._choice: BitChoice | None = None
        self._owned: Tensor | None = None
        self._largest = Largest()
        self.quantized: Quantized = Quantized()
        """Counts since the products were built."""
        self._weights: MutableMapping[Tensor, tuple[Codes, int]] = WeakTensorKeyDictionary()  # codes and version
        self._rows: PassRows | None = None
        self._passes = 0
        self._numbers = StreamCounters()

    @property
    def exact(self) -> Products:
        return PLAIN if self.settings.exact_classifier else self

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        """Return the callback that chooses the bits if they are ``auto``, and set up the group for a common scale.

        Raises:
            ValueError: if scale ``whole`` has several workers, but no process group.
        """
        if self.settings.scale == WHOLE and training.worker.workers > 1:
            if not training.distributed:
                raise ValueError(
                    f"scale 'whole' needs a process group, got {training.worker.workers} workers without one; choose "
                    "scale 'row'"
                )
            # Collective: every worker must create the group.
            self._largest.group = dist.new_group()
        if self.settings.bits != AUTO:
            return ()
        # Positions of owned rows among the worker's rows, int64, for the rule's mean.
        shard, self._choice = training.shard, BitChoice(self)
        self._owned = torch.isin(shard.row_ids, shard.owned).nonzero().squeeze(1).to(training.worker.device)
        return (self._choice,)

    def note_requantized(self, elements: int) -> None:
        self.quantized.num_requantized += elements

    def on_first_aggregation(self, output: Tensor) -> None:
        if self._choice is None or self._owned is None or self._choice.settled:
            return
        x, errors = output.flatten(1), dict.fromkeys(CHOICES, 0.0)
        # A stream of its own: the trial does not change the noise of later operands.
        noise = self._noise(self._ids(output), stream("bits", 0))
        maximum = self._largest.get(output, self.settings.scale)
        for bits in CHOICES:
            rows = self._round(x, self.settings.scale, noise, maximum, bits=bits)
            for block in self._owned.split(_BLOCK) if len(self._owned) else ():  # owned rows only: replicas count once
                decoded_rows = rows.codes[block] * rows.scales[block].unsqueeze(1)
                errors[bits] += relative_error(x[block], decoded_rows) * decoded_rows.numel()
        self._choice.take(len(self._owned) * x.shape[1], errors)

    @property
    def by_rows(self) -> bool:
        return self.settings.scale != WHOLE

    def operand(self, x: Operand, rows: Range | None = None) -> Operand:
        if rows is None or self.by_rows or not isinstance(x, Tensor):
            return super().operand(x, rows)
        if rows != (0, x.shape[0]):
            raise ValueError(f"scale 'whole' needs all {x.shape[0]} rows at once, got rows {rows}")
        return super().operand(x)

    @property
    def of_logits(self) -> Products:
        return PLAIN if self.settings.exact_logits else self

    def begin(self, rows: PassRows | None = None) -> None:
        super().begin()
        self._weights.clear()
        self._rows, self._numbers = rows, StreamCounters()
        self._passes += 1

    def weight(self, w: Operand) -> Operand:
        if not isinstance(w, Tensor):
            return w
        codes, version = self._weights.get(w, (None, None))
        if codes is None or version != w._version:  # in-place updates change the version
            # One scale for all rows, as an integer product that sums over them needs.
            # A weight may have as many rows as this worker has nodes; its noise must not depend on their ids.
            ids = torch.arange(len(w), device=w.device)  # (D_in,)
            codes = self._quantize(w, self._numbers.stream("weight"), "tensor", ids)
            codes = dataclasses.replace(codes, step=float(codes.scales[0]) if len(codes.scales) else 0.0)
            self._weights[w] = codes, w._version
        return codes

    def halo(self, x: Operand, local: Operand, ids: Tensor) -> Operand:
        if not isinstance(x, Tensor) or x.dtype != torch.float32:
            return x
        # The noise stream of the owned rows, so that a node's row has the same codes at its owner and its receivers.
        return self._quantize(x, local.stream, self.settings.scale, ids, local.largest)

    def part(self, operand: Operand, rows: Range) -> Operand:
        if isinstance(operand, Tensor):
            return operand[rows[0] : rows[1]]
        slices = (operand.codes[rows[0] : rows[1]], operand.scales[rows[0] : rows[1]])  # views
        shape = (rows[1] - rows[0], *operand.shape[1:])
        return Codes(*slices, shape, operand.stream, operand.step, operand.bits, operand.largest)

    def dense(self, operand: Operand) -> Tensor:
        if isinstance(operand, Tensor):
            return operand
        values: Tensor = operand.codes * operand.scales.unsqueeze(1)
        return values.view(operand.shape)

    def _product(self, base: Tensor | None, a: Operand, b: Operand, transposed: str, out: Tensor | None) -> Tensor:
        a, b, bias = self._codes(a), self._codes(b), None
        if base is not None and base.dim() == 1 and transposed != "a":
            base, bias = None, base  # a row: the kernel adds it while it writes the result
        if base is not None and out is None:
            rows, columns = a.shape[1] if transposed == "a" else a.shape[0], b.shape[0 if transposed == "b" else 1]
            out = torch.empty((rows, columns), device=base.device)
        if base is not None and out is not None and out is not base:
            out.copy_(base)  # (O,) or (N, O) -> (N, O); the product adds to it
        if transposed == "a":
            return self._over_rows(a, b, out, accumulate=base is not None)
        return self._over_columns(a, b, transposed == "b", bias, out, accumulate=base is not None)

    def _sources(
        self, adjacency: Adjacency, x: Operand, halo: Operand | None, rows: Range | None, transposed: bool
    ) -> tuple[Any, Any]:
        codes = self._codes(x), None if halo is None else self._codes(halo)
        return rows_to_sum(adjacency, *codes, packed=self.settings.packed, rows=rows, transposed=transposed)

    def _values(self, operand: Operand) -> QuantizedRows:
        return self._codes(operand).rows

    def _over_columns(
        self, a: Codes, b: Codes, transposed: bool, bias: Tensor | None, out: Tensor | None, *, accumulate: bool
    ) -> Tensor:
        """Return ``a @ b`` or ``a @ b.T``: integers if b has one scale and sums cannot overflow, else float32."""
        if b.step is not None and a.codes.shape[1] < MAX_TERMS:
            # The kernel finds the largest magnitude of its result, which is the scale of the next operand.
            maximum = (
                self._largest.allocate(a.codes.device) if out is None and self.settings.scale == "tensor" else None
            )
            product = int8_mm(
                a.codes, a.scales, b.codes, b.step,
                transposed=transposed, bias=bias, out=out, accumulate=accumulate, largest=maximum,
            )  # fmt: skip
            if maximum is not None:
                self._largest.store(product, maximum)
            return product
        # Decoded operands: several scales in a sum, or so many terms that integers could overflow.
        product = PLAIN.mm(self.dense(a), self.dense(b), transposed="b" if transposed else "")
        product = product if bias is None else product + bias
        if out is None:
            return product
        return out.add_(product) if accumulate else out.copy_(product)

    def _over_rows(self, a: Codes, b: Codes, out: Tensor | None, *, accumulate: bool) -> Tensor:
        """Return ``a.T @ b``: integers for each run of rows with one scale, or float32 sums."""
        scales = a.scales * b.scales  # (N,): the scale of each row's products
        if out is None:
            out, accumulate = torch.zeros((a.codes.shape[1], b.codes.shape[1]), device=scales.device), True
        if self.settings.scale != "row":
            # Few scales, each for a run of rows; more runs would cost more calls than integers save.
            steps, counts = torch.unique_consecutive(scales, return_counts=True)
            if len(steps) <= _MAX_RUNS:
                out = out if accumulate else out.zero_()
                start = 0
                # Rows that were quantized together are contiguous and share a scale: one integer product per run.
                for step, count in zip(steps.tolist(), counts.tolist(), strict=True):
                    stop = start + count
                    int8_mm_transposed(a.codes[start:stop], b.codes[start:stop], step, out=out, accumulate=True)
                    start = stop
                return out
        return int8_mm_scaled(a.codes, b.codes, scales, out=out, accumulate=accumulate)  # a scale per row

    def _codes(self, x: Operand) -> Codes:
        """Return the codes of an operand and count them; a matrix is quantized for this product only."""
        codes = self._prepare(x) if isinstance(x, Tensor) else x
        self.quantized.num_used += codes.codes.numel()
        return codes

    def _sum_alone(self, incidence: Adjacency, x: Tensor) -> Tensor:
        kernel_scale = "tensor" if self.settings.scale == WHOLE else self.settings.scale
        self.quantized.num_used += x.numel()
        self.quantized.num_quantized += x.numel()
        return quantized_sum(
            incidence, x, bits=self.bits, scale=kernel_scale, noise=self._noise(self._ids(x), self._stream(x))
        )

    def _prepare(self, x: Tensor) -> Codes:
        return self._quantize(x, self._stream(x), self.settings.scale)

    def _blank(self, x: Tensor) -> Codes:
        # (N, ...) -> (N, D), as in `_quantize`; rows are written later, range by range.
        width = x[0].numel() if len(x) else x.flatten(1).shape[1]
        codes = torch.empty((x.shape[0], width), dtype=torch.int8, device=x.device)
        return Codes(codes, torch.empty(x.shape[0], device=x.device), tuple(x.shape), self._stream(x), bits=self.bits)

    def _fill(self, operand: Codes, x: Tensor, rows: Range) -> None:
        start, stop = rows
        out = QuantizedRows(operand.codes[start:stop], operand.scales[start:stop])
        noise = self._noise(self._ids(x)[start:stop], operand.stream)
        quantize(x[start:stop].flatten(1).float(), bits=self.bits, scale=self.settings.scale, noise=noise, out=out)
        self.quantized.num_quantized += out.codes.numel()

    def _quantize(
        self, x: Tensor, number: int, scale: str, ids: Tensor | None = None, largest: float | None = None
    ) -> Codes:
        ids = self._ids(x) if ids is None else ids
        matrix = x.flatten(1).float()  # (N, K, F) -> (N, K · F)
        maximum = self._largest.get(x, scale) if largest is None else largest
        rows = self._round(matrix, scale, self._noise(ids, number), maximum)
        self.quantized.num_quantized += rows.codes.numel()
        # A number is the maximum of all workers, which halo rows use too; a tensor is that of one product.
        common_maximum = maximum if isinstance(maximum, float) else None
        return Codes(rows.codes, rows.scales, tuple(x.shape), number, bits=self.bits, largest=common_maximum)

    def _round(
        self,
        x: Tensor,
        scale: str,
        noise: NoiseCounter | None,
        largest: float | Tensor | None,
        *,
        bits: int | None = None,
    ) -> QuantizedRows:
        # for the kernel both are one scale; `largest` makes it common
        kernel_scale = "tensor" if scale == WHOLE else scale
        return quantize(x, bits=bits or self.bits, scale=kernel_scale, noise=noise, largest=largest)

    def _stream(self, x: Tensor) -> int:
        return self._numbers.stream("operand" if self._of_nodes(x) else "loose")

    def _of_nodes(self, x: Tensor) -> bool:
        return self._rows is not None and len(self._rows.ids) == x.shape[0]

    def _ids(self, x: Tensor) -> Tensor:
        """Return the global ids of rows if there is one per node, else consecutive numbers."""
        if self._rows is not None and self._of_nodes(x):
            return self._rows.ids
        return torch.arange(x.shape[0], device=x.device)

    def _noise(self, ids: Tensor, number: int) -> NoiseCounter | None:
        if self.settings.rounding == "nearest":
            return None
        # Without rows of a pass, a count of passes takes the place of the epoch.
        seed, epoch = (0, self._passes) if self._rows is None else (self._rows.seed, self._rows.epoch)
        return NoiseCounter(ids, seed, epoch, number)
