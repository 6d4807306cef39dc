"""Stand-alone halo exchange: receive rows of peers, and send their gradients back; without graph or trainer.

Letters: N local rows, H received rows, D columns.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.bits.row import EXACT
from gnnqlab.exchange.standalone.halo_plan import HaloPlan
from gnnqlab.kernels.codec.rows import raise_refused
from gnnqlab.kernels.noise import check_counter, stream
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Codec, Stochastic
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.message.exchange_key import ExchangeKey

__all__ = ["exchange_rows"]

_STOCHASTIC = Stochastic()


def exchange_rows(
    x: Tensor,
    plan: HaloPlan,
    *,
    codec: Codec | tuple[Codec, Codec] = _STOCHASTIC,
    bits: int | tuple[int, int] = 32,
    epoch: int = 0,
    layer: int = 0,
) -> Tensor:
    """Exchange halo rows, optionally quantized; return the received rows, differentiable in ``x``.

    Collective: every rank of the plan's group calls it in the same order with the same settings, and runs the backward
    pass through the result, even if it is empty. Messages have headers, so ranks that are out of step or disagree about
    D or bits get an error, never wrong rows.

    Rows are sent as float32 or as codes of float32: other types are converted, float64 is rounded, and the result has
    the type of ``x``. The rounding noise is a function of (seed, epoch, layer, the sender's row id, column); for codecs
    with noise per ``receiver`` also of the receiver's position among the sender's peers, and for gradients, which
    several ranks send, of the sender. Results are therefore reproducible, and two exchanges have independent errors
    only if their epochs or layers differ.

    Args:
        x: rows of this rank, floating-point ``(N, D)``, finite.
        plan: lists of the rows to send.
        codec: codec, or a pair of codecs for rows and for gradients.
        bits: bit-width of every row, one of the codec's ``widths``; 32 is float32. A single number applies to rows,
            with gradients in float32; a pair is one for rows, one for gradients.
        epoch: number of the training step, in ``[0, 2**32)``; part of the noise key.
        layer: index of the exchange in the model, in ``[0, 4096)``.

    Returns:
        Rows of rank 0, rank 1, ... in the order in which each sends them, ``(H, D)``.

    Raises:
        TypeError: if bits, epoch or layer are not whole numbers.
        ValueError: if x does not fit the plan, a codec does not support the bits, epoch or layer are out of range, or
            a tuple is not a pair.
        NonFiniteMessage: if a row to send holds NaN or Inf (``NonFiniteRow`` on a GPU).
        UnexpectedMessage: if a received message is not the expected one.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0])  # one process has no peers
        >>> exchange_rows(torch.ones(5, 3), plan, bits=4).shape
        torch.Size([0, 3])
    """
    plan.check_rows(x)
    epoch, layer = _whole_number("epoch", epoch), _whole_number("layer", layer)
    codecs = _pair("codec", codec) if isinstance(codec, tuple | list) else codec
    widths = _pair("bits", bits if isinstance(bits, tuple | list) else (bits, EXACT))
    widths = ByDirection(_whole_number("bits", widths.forward), _whole_number("bits", widths.backward))
    forward, backward = (
        _channel(
            x, plan, ExchangeKey(layer, direction), of_direction(codecs, direction), of_direction(widths, direction)
        )
        for direction in ("forward", "backward")
    )
    # Before a message is posted, so that an error leaves no transfer pending.
    check_counter(plan.seed, epoch, stream("forward", layer))
    # The conversion is outside of the function, so that autograd converts the gradient back.
    halo: Tensor = _ExchangeRows.apply(x.float().contiguous(), forward, backward, plan.num_halo, epoch)  # (H, D)
    return halo.to(x.dtype)


def _pair(name: str, values: Sequence[Any]) -> ByDirection:
    if len(values) != 2:
        raise ValueError(f"{name} must be one for rows, or a pair for rows and gradients, got {values!r}")
    return ByDirection(*values)


def _whole_number(name: str, value: Any) -> int:
    """Return an argument as an ``int``; also NumPy's whole numbers and tensors of one."""
    try:
        if isinstance(value, bool):  # it has an index, but is no count
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None


class _ExchangeRows(torch.autograd.Function):
    """Send own rows and receive halo rows; backward, send gradients of halo rows, and add those received."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Channel, backward: Channel, num_halo: int, epoch: int) -> Tensor:
        ctx.backward_channel, ctx.epoch, ctx.num_rows = backward, epoch, x.shape[0]
        return _transfer(forward, x, x.new_empty(num_halo, x.shape[1]), epoch)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        own_gradient = gradient.new_zeros(ctx.num_rows, gradient.shape[1])  # (H, D) -> (N, D)
        return _transfer(ctx.backward_channel, gradient.contiguous(), own_gradient, ctx.epoch), None, None, None, None


def _transfer(channel: Channel, x: Tensor, out: Tensor, epoch: int) -> Tensor:
    pending_rows = channel.post(x, out, epoch=epoch)
    if x.is_cuda:
        raise_refused(x.device)  # CUDA kernels only record non-finite rows; this check raises the error
    out = pending_rows.decode()
    # No trainer reads the records of messages, and they would accumulate.
    channel.arrivals.clear()
    return out


def _channel(x: Tensor, plan: HaloPlan, place: ExchangeKey, codec: Codec, bits: int) -> Channel:
    if bits not in {*codec.widths, EXACT}:
        raise ValueError(
            f"bits must be a bit-width of the codec: {type(codec).__name__} supports {sorted(codec.widths)}, got "
            f"{bits} {place.direction}; choose codec Stochastic() or other bits"
        )
    return plan.channel(place, codec, bits, x.device)
