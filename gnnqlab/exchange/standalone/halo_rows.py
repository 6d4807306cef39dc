"""The exchange alone: rows of peers for whatever looks at them, their gradients home; no graph, no trainer.

Letters: N local rows, H rows that come, D columns.
"""

from __future__ import annotations

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
    """Return the rows that peers send, differentiable in ``x``: a halo exchange in as few bits as wanted.

    Every rank of the plan's group calls it, in the same order with the same settings, and runs the backward pass
    through what came, also where no row did. Messages have headers, so ranks that are out of step or disagree about D
    or bits get an error and no foreign rows.

    Rows travel as float32 or as codes of float32: rows of another type are converted, float64 rounded, and what comes
    has the type of ``x``. Noise is a function of (seed, epoch, layer, the sender's row id, column), with a codec whose
    noise is ``receiver`` also of which peer of its sender a row goes to, and of the sender for gradients, which several
    ranks have. So results repeat, and two exchanges that shall err independently need two epochs or layers.

    Args:
        x: rows of this rank, floating ``(N, D)``, finite.
        plan: which of them go where.
        codec: how a row becomes bytes; a pair is one for rows, one for gradients.
        bits: of every row, one of the codec's ``widths``; 32 is float32. A number is that of rows, and gradients travel
            as float32; a pair is one for rows, one for gradients.
        epoch: enters the noise; a training step's number, in ``[0, 2**32)``.
        layer: place in the model, in ``[0, 4096)``.

    Returns:
        The rows of rank 0, rank 1, ... in the order in which each sends them, ``(H, D)``.

    Raises:
        ValueError: if x is not of this plan, a codec cannot write the bits, or epoch or layer are out of range.
        NonFiniteMessage: if a row to send holds NaN or Inf (``NonFiniteRow`` on a GPU).
        UnexpectedMessage: if what comes is not what this call waits for.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0])  # one process has no peers
        >>> exchange_rows(torch.ones(5, 3), plan, bits=4).shape
        torch.Size([0, 3])
    """
    plan.check_rows(x)
    codecs = ByDirection(*codec) if isinstance(codec, tuple) else codec
    widths = ByDirection(*bits) if isinstance(bits, tuple) else ByDirection(bits, EXACT)
    forward, backward = (
        _channel(
            x, plan, ExchangeKey(layer, direction), of_direction(codecs, direction), of_direction(widths, direction)
        )
        for direction in ("forward", "backward")
    )
    check_counter(plan.seed, epoch, stream("forward", layer))
    came: Tensor = _ExchangeRows.apply(x.float().contiguous(), forward, backward, plan.num_halo, epoch)
    return came.to(x.dtype)


class _ExchangeRows(torch.autograd.Function):
    """Own rows out and halo rows in; backward the gradients of halo rows out, those of own rows in, added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Channel, backward: Channel, num_halo: int, epoch: int) -> Tensor:
        ctx.backward_channel, ctx.epoch, ctx.num_rows = backward, epoch, x.shape[0]
        return _moved(forward, x, x.new_empty(num_halo, x.shape[1]), epoch)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        home = gradient.new_zeros(ctx.num_rows, gradient.shape[1])
        return _moved(ctx.backward_channel, gradient.contiguous(), home, ctx.epoch), None, None, None, None


def _moved(channel: Channel, x: Tensor, out: Tensor, epoch: int) -> Tensor:
    came = channel.post(x, out, epoch=epoch)
    if x.is_cuda:
        raise_refused(x.device)  # kernels there cannot raise themselves
    out = came.decode()
    channel.arrivals.clear()
    return out


def _channel(x: Tensor, plan: HaloPlan, place: ExchangeKey, codec: Codec, bits: int) -> Channel:
    if bits not in {*codec.widths, EXACT}:
        raise ValueError(
            f"bits must be a width that the codec can write: {type(codec).__name__} writes {sorted(codec.widths)}, got "
            f"{bits} {place.direction}; choose codec Stochastic() or other bits"
        )
    return plan.channel(place, codec, bits, x.device)
