"""Stand-alone halo exchange: receive rows of peers, and send their gradients back; without graph or trainer.

Letters: N local rows, H received rows, D columns.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gnnqlab.bits.row import EXACT
from gnnqlab.errors import MissingMessage
from gnnqlab.halo.halo_plan import PLANS, HaloPlan
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
    D or bits get an error, never wrong rows. Gradients can be differentiated again (a loss on forces), and a layer with
    an exchange can be compiled by ``torch.compile(..., fullgraph=True)``, with the default codec.

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
        RuntimeError: if a message is not received, with its sender.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0])  # one process has no peers
        >>> exchange_rows(torch.ones(5, 3), plan, bits=4).shape
        torch.Size([0, 3])
    """
    plan.check_rows(x)
    codecs = 0
    if torch.compiler.is_compiling():
        # The tracer knows tensors and numbers only; the rules below are those of the call that is traced.
        if codec is not _STOCHASTIC:
            raise ValueError("exchange_rows in compiled code must have the default codec; leave out codec")
    else:
        epoch, layer = _whole_number("epoch", epoch), _whole_number("layer", layer)
        codecs = plan.number_of(_pair("codec", codec) if isinstance(codec, tuple | list) else codec)
    widths = _pair("bits", bits if isinstance(bits, tuple | list) else (bits, EXACT))
    if not torch.compiler.is_compiling():
        widths = ByDirection(_whole_number("bits", widths.forward), _whole_number("bits", widths.backward))
        for direction in ("forward", "backward"):
            _channel(plan, codecs, widths, layer, direction, x.device)
        # Before a message is posted, so that an error leaves no transfer pending.
        check_counter(plan.seed, epoch, stream("forward", layer))
    call = plan.number, codecs, widths.forward, widths.backward, layer, epoch
    # The conversion is outside of the operator, so that autograd converts the gradient back.
    halo: Tensor = _send_rows(x.float().contiguous(), plan.num_halo, *call)  # (H, D)
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


# Two operators of PyTorch, so that compiled code and autograd know them. Each is the gradient of the other, because
# both are linear; so gradients can be differentiated again, as for a loss on forces. `rows`: number of returned rows.
_Operator = Callable[..., Tensor]


@torch.library.custom_op("gnnqlab::send_rows", mutates_args=())
def _send_rows(
    x: Tensor, rows: int, plan: int, codecs: int, forward_bits: int, backward_bits: int, layer: int, epoch: int
) -> Tensor:
    """Send own rows and receive halo rows, ``(N, D)`` -> ``(H, D)``."""
    channel = _channel(PLANS[plan], codecs, ByDirection(forward_bits, backward_bits), layer, "forward", x.device)
    return _transfer(channel, x, x.new_empty(rows, x.shape[1]), epoch)


@torch.library.custom_op("gnnqlab::return_gradients", mutates_args=())
def _return_gradients(
    x: Tensor, rows: int, plan: int, codecs: int, forward_bits: int, backward_bits: int, layer: int, epoch: int
) -> Tensor:
    """Send gradients of halo rows and add those received, ``(H, D)`` -> ``(N, D)``."""
    channel = _channel(PLANS[plan], codecs, ByDirection(forward_bits, backward_bits), layer, "backward", x.device)
    return _transfer(channel, x, x.new_zeros(rows, x.shape[1]), epoch)


def _register(operator_: Any, gradient_of_operator: _Operator) -> None:
    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.num_rows, ctx.call = inputs[0].shape[0], inputs[2:]

    def differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient_of_operator(gradient.contiguous(), ctx.num_rows, *ctx.call), *[None] * (1 + len(ctx.call))

    operator_.register_fake(lambda x, rows, *call: x.new_empty(rows, x.shape[1]))
    operator_.register_autograd(differentiate, setup_context=save)


_register(_send_rows, _return_gradients)
_register(_return_gradients, _send_rows)


def _transfer(channel: Channel, x: Tensor, out: Tensor, epoch: int) -> Tensor:
    pending_rows = channel.post(x, out, epoch=epoch)
    if x.is_cuda:
        raise_refused(x.device)  # CUDA kernels only record non-finite rows; this check raises the error
    try:
        out = pending_rows.decode()
    except MissingMessage as error:
        reason = "within the time limit of the process group" if error.is_late else "before its connection ended"
        raise RuntimeError(
            f"exchange_rows must be called by all ranks, got no {channel.direction} message of rank {error.peer} "
            f"{reason} (epoch {epoch}, layer {channel.layer}); call it, and the backward pass, equally often on all "
            "ranks"
        ) from error
    # No trainer reads the records of messages, and they would accumulate.
    channel.arrivals.clear()
    return out


def _channel(
    plan: HaloPlan, codecs: int, widths: ByDirection, layer: int, direction: str, device: torch.device
) -> Channel:
    codec, bits = of_direction(plan.codecs[codecs], direction), of_direction(widths, direction)
    if bits not in {*codec.widths, EXACT}:
        raise ValueError(
            f"bits must be a bit-width of the codec: {type(codec).__name__} supports {sorted(codec.widths)}, got "
            f"{bits} {direction}; choose codec Stochastic() or other bits"
        )
    return plan.channel(ExchangeKey(layer, direction), codec, bits, device)
