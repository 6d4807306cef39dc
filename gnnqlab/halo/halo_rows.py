"""Functions of the halo exchange: receive rows of owners, add partial sums at owners, gather all rows; differentiable.

Letters: N local rows, H received rows, V rows of all ranks, D columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnnqlab.halo.halo_plan import HaloPlan
from gnnqlab.halo.row_transfers import STOCHASTIC, Call, PostedRows, call_of
from gnnqlab.message.codecs.codec import Codec

__all__ = ["all_gather_rows", "exchange_rows", "reduce_rows"]


def exchange_rows(
    x: Tensor,
    plan: HaloPlan,
    *,
    codec: Codec | tuple[Codec, Codec] = STOCHASTIC,
    bits: int | tuple[int, int] = 32,
    epoch: int = 0,
    layer: int = 0,
) -> Tensor:
    """Exchange halo rows, optionally quantized; return the received rows, differentiable in ``x``.

    Collective: every rank of the plan's group calls it in the same order with the same settings, and runs the backward
    pass through the result, even if it is empty. Messages have headers, so ranks that are out of step or disagree about
    D or bits get an error, never wrong rows. Gradients can be differentiated again (a loss on forces), and a layer with
    an exchange can be compiled by ``torch.compile(..., fullgraph=True)``, with the default codec.

    Derivatives are those of the exchange without rounding (straight-through): the gradient of a decoded row is sent to
    the owner of the row as if it were the row itself, and so on for higher derivatives, where rows and gradients are
    rounded again, independently and without bias. At 32 bits all of them are exact.

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
        ValueError: if x does not fit the plan, a codec does not support the bits or needs the state of a training,
            epoch or layer are out of range, or a tuple is not a pair.
        NonFiniteMessage: if a row to send holds NaN or Inf (``NonFiniteRow`` on a GPU).
        UnexpectedMessage: if a received message is not the expected one.
        RuntimeError: if a message is not received, with its sender; in the capture of a CUDA graph, whose replay would
            skip messages and repeat the noise.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0])  # one process has no peers
        >>> exchange_rows(torch.ones(5, 3), plan, bits=4).shape
        torch.Size([0, 3])
    """
    plan.check_rows(x)
    call = call_of(plan, x.device, codec=codec, bits=bits, epoch=epoch, layer=layer, function="exchange_rows")
    # The conversion is outside of the operator, so that autograd converts the gradient back.
    halo = _transfer(x.float().contiguous(), plan.num_halo, call, "forward")  # (H, D)
    return halo.to(x.dtype)


def reduce_rows(
    partial: Tensor,
    plan: HaloPlan,
    *,
    codec: Codec | tuple[Codec, Codec] = STOCHASTIC,
    bits: int | tuple[int, int] = 32,
    epoch: int = 0,
    layer: int = 0,
) -> Tensor:
    """Send halo rows to their owners, which add them: the transpose of :func:`exchange_rows`, and its gradient.

    With :func:`exchange_rows` these are gather and scatter of a vertex-cut: mirrors send partial sums, the master adds
    them to its own, ``x + reduce_rows(partial, plan)``, and returns the total. Collective and differentiable as
    :func:`exchange_rows`; the gradient of a sum is received from the owner. Errors and noise as there, as in the
    gradients of :func:`exchange_rows`: an exchange and a reduction of one pass need different layers.

    Args:
        partial: partial sums of the halo rows, floating-point ``(H, D)``, finite.
        plan: lists of the rows, whose receivers send here.
        codec: codec, or a pair of codecs for partial sums and for gradients.
        bits: bit-width of every row; a pair is one for partial sums, one for gradients.
        epoch: number of the training step.
        layer: index of the exchange in the model.

    Returns:
        Sum over ranks of the partial sums of each own row, zero for rows that no rank has in its halo, ``(N, D)``.

    Raises:
        TypeError, ValueError, NonFiniteMessage, UnexpectedMessage, RuntimeError: as :func:`exchange_rows`.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0], num_rows=2)  # one process has no halo
        >>> reduce_rows(torch.ones(0, 3), plan, bits=4).tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    plan.check_halo_rows(partial)
    settings: dict[str, Any] = {"codec": codec, "bits": bits, "epoch": epoch, "layer": layer}
    call = call_of(plan, partial.device, **settings, function="reduce_rows", is_reduction=True)
    total = _transfer(partial.float().contiguous(), plan.num_rows, call, "backward")  # (N, D)
    return total.to(partial.dtype)


def all_gather_rows(
    x: Tensor,
    plan: HaloPlan,
    *,
    codec: Codec | tuple[Codec, Codec] = STOCHASTIC,
    bits: int | tuple[int, int] = 32,
    epoch: int = 0,
    layer: int = 0,
) -> Tensor:
    """Gather the rows of all ranks on every rank, for comparison with the exchange of halo rows; differentiable.

    Own rows are not rounded. Collective; errors and noise as :func:`exchange_rows`.

    Args:
        x: rows of this rank, floating-point ``(N, D)``, finite.
        plan: plan of the halo exchange. At the first call it creates a plan of all rows, :meth:`HaloPlan.all_rows`,
            which counts the bytes.
        codec, bits, epoch, layer: as :func:`exchange_rows`.

    Returns:
        Rows of rank 0, rank 1, ..., ``(V, D)``.

    Raises:
        TypeError, ValueError, NonFiniteMessage, UnexpectedMessage, RuntimeError: as :func:`exchange_rows`.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0], num_rows=2)
        >>> all_gather_rows(torch.ones(2, 3), plan, bits=4).shape
        torch.Size([2, 3])
    """
    every = plan.all_rows()
    received = exchange_rows(x, every, codec=codec, bits=bits, epoch=epoch, layer=layer)  # (V - N, D)
    first = every.first_row_after(plan.rank)
    return torch.cat([received[:first], x, received[first:]])  # (V, D)


def _transfer(x: Tensor, num_rows: int, call: Call, direction: str) -> Tensor:
    """Send rows in a direction and return the ``num_rows`` rows of the other side; differentiable."""
    if not torch.compiler.is_compiling():
        # The first call of an operator of PyTorch imports its compiler, which takes seconds.
        eager: Tensor = _Transfer.apply(x, num_rows, call, direction)
        return eager
    operator_: _Operator = _send_rows if direction == "forward" else _add_rows
    return operator_(x, num_rows, *call)


class _Transfer(torch.autograd.Function):
    """Exchange in eager code. It is linear, so that its gradient is the exchange in the other direction."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, num_rows: int, call: Call, direction: str) -> Tensor:
        ctx.num_rows, ctx.call, ctx.direction = x.shape[0], call, direction
        return PostedRows(call, direction, x, num_rows).finish()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        direction = "backward" if ctx.direction == "forward" else "forward"
        result = _Transfer.apply(gradients[0].contiguous(), ctx.num_rows, ctx.call.derivative, direction)
        return result, None, None, None


# Two operators of PyTorch for compiled code, each the gradient of the other. `rows`: number of returned rows.
_Operator = Callable[..., Tensor]


@torch.library.custom_op("gnnqlab::send_rows", mutates_args=())
def _send_rows(
    x: Tensor,
    rows: int,
    plan: int,
    codecs: int,
    forward_bits: int,
    backward_bits: int,
    layer: int,
    epoch: int,
    order: int,
) -> Tensor:
    """Send own rows and receive halo rows, ``(N, D)`` -> ``(H, D)``."""
    call = Call(plan, codecs, forward_bits, backward_bits, layer, epoch, order)
    return PostedRows(call, "forward", x, rows).finish()


@torch.library.custom_op("gnnqlab::add_rows", mutates_args=())
def _add_rows(
    x: Tensor,
    rows: int,
    plan: int,
    codecs: int,
    forward_bits: int,
    backward_bits: int,
    layer: int,
    epoch: int,
    order: int,
) -> Tensor:
    """Send halo rows, such as gradients, to their owners and add those received, ``(H, D)`` -> ``(N, D)``."""
    call = Call(plan, codecs, forward_bits, backward_bits, layer, epoch, order)
    return PostedRows(call, "backward", x, rows).finish()


def _register(operator_: Any, gradient_of_operator: _Operator) -> None:
    def save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.num_rows, ctx.call = inputs[0].shape[0], inputs[2:]

    def differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        *call, order = ctx.call
        result = gradient_of_operator(gradient.contiguous(), ctx.num_rows, *call, order + 1)
        return result, *[None] * (1 + len(ctx.call))

    operator_.register_fake(lambda x, rows, *call: x.new_empty(rows, x.shape[1]))
    operator_.register_autograd(differentiate, setup_context=save)


_register(_send_rows, _add_rows)
_register(_add_rows, _send_rows)
