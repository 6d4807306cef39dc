"""One exchange of a plan from its settings: start the messages, wait for them, and name the cause of a failure.

Letters: N local rows, H received rows, D columns.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnqlab.bits.row import EXACT
from gnnqlab.errors import MissingMessage, NonFiniteMessage, NonFiniteRow, UnexpectedMessage
from gnnqlab.halo.halo_plan import PLANS, STOCHASTIC, HaloPlan
from gnnqlab.kernels.codec.rows import raise_refused
from gnnqlab.kernels.noise import check_counter, stream
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.message.exchange_key import ExchangeKey

__all__ = ["STOCHASTIC", "Call", "PostedRows", "call_of", "check_stateless"]


class Call(NamedTuple):
    """Settings of an exchange as whole numbers, because an operator of PyTorch takes no objects."""

    plan: int
    codecs: int
    """Position of the codecs in :attr:`HaloPlan.codecs`."""
    forward_bits: int
    """Bit-width from owners to halos."""
    backward_bits: int
    """Bit-width from halos to owners."""
    layer: int
    epoch: int
    order: int = 0
    """Number of differentiations: 1 for the gradient of a call, 2 for the gradient of that."""

    @property
    def derivative(self) -> Call:
        """Call of the gradient."""
        return self._replace(order=self.order + 1)

    def channel(self, plan: HaloPlan, direction: str, device: torch.device) -> Channel:
        """Return the channel of this call in a direction; settings are checked at its first use.

        Raises:
            ValueError: if the codec has state or does not support the bit-width.
        """
        bits = self.forward_bits if direction == "forward" else self.backward_bits
        # A round of its own for each second derivative, so that its rounding errors are independent of the first ones.
        place = ExchangeKey(self.layer, direction, self.order // 2)
        key = place, self.codecs, bits, device
        if (channel := plan.opened.get(key)) is not None:
            return channel
        codec = of_direction(plan.codecs[self.codecs], direction)
        check_stateless(codec)
        if bits not in {*codec.widths, EXACT}:
            raise ValueError(
                f"bits must be a bit-width of the codec: {type(codec).__name__} supports {sorted(codec.widths)}, got "
                f"{bits} {direction}; choose codec Stochastic() or other bits"
            )
        plan.opened[key] = plan.channel(place, codec, bits, device)
        return plan.opened[key]


def call_of(
    plan: HaloPlan,
    device: torch.device,
    *,
    codec: Codec | Sequence[Codec],
    bits: int | Sequence[int],
    epoch: int,
    layer: int,
    function: str,
    is_reduction: bool = False,
) -> Call:
    """Check the settings of an exchange and return them as numbers.

    Args:
        function: name of the public function, for errors.
        is_reduction: True if the first of a pair is for rows that halos send to owners.

    Raises:
        TypeError, ValueError: as :func:`gnnqlab.halo.halo_rows.exchange_rows`.
    """
    is_compiling, codecs = torch.compiler.is_compiling(), 0
    if is_compiling:
        # The tracer knows tensors and numbers only; the rules below are those of the call that is traced.
        if codec is not STOCHASTIC:
            raise ValueError(f"{function} in compiled code must have the default codec; leave out codec")
    else:
        codecs = plan.number_of(
            codec if isinstance(codec, Codec) else ByDirection(*_pair("codec", codec, is_reduction))
        )
    forward, backward = _pair("bits", bits if isinstance(bits, tuple | list) else (bits, EXACT), is_reduction)
    if is_compiling:
        return Call(plan.number, codecs, forward, backward, layer, epoch)
    if {type(epoch), type(layer), type(forward), type(backward)} != {int}:
        epoch, layer = _whole_number("epoch", epoch), _whole_number("layer", layer)
        forward, backward = _whole_number("bits", forward), _whole_number("bits", backward)
    call = Call(plan.number, codecs, forward, backward, layer, epoch)
    # Before a message is posted, so that an error leaves no transfer pending.
    for direction in ("forward", "backward"):
        call.channel(plan, direction, device)
    check_counter(plan.seed, epoch, stream("forward", layer))
    return call


def _pair(name: str, values: Any, is_reduction: bool) -> tuple[Any, Any]:
    if len(values) != 2:
        raise ValueError(f"{name} must be one for rows, or a pair for rows and gradients, got {values!r}")
    return (values[1], values[0]) if is_reduction else (values[0], values[1])


def _whole_number(name: str, value: Any) -> int:
    """Return an argument as an ``int``; also NumPy's whole numbers and tensors of one."""
    try:
        if isinstance(value, bool):  # it has an index, but is no count
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None


def check_stateless(codec: Codec) -> None:
    """Check that a codec encodes rows without the state of a training.

    Raises:
        ValueError: if it has state.
    """
    if codec.at_work() is not codec:
        raise ValueError(
            f"a codec of an exchange must have no state, got {type(codec).__name__}, which follows the rows of a "
            "training of gnnqlab; choose codec LeastVariance()"
        )


def check_not_captured(device: torch.device) -> None:
    """Check that the operations of a device are not being captured in a CUDA graph.

    Raises:
        RuntimeError: if they are.

    Example:
        >>> check_not_captured(torch.device("cpu"))
    """
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "an exchange must not be captured in a CUDA graph, got a stream that captures: a replay would skip its "
            "messages and repeat its noise; capture the layers between two exchanges"
        )


class PostedRows:
    """Messages of one exchange in flight.

    Args:
        call: settings.
        direction: ``forward`` from owners to halos, ``backward`` from halos to owners.
        x: float32 ``(N, D)`` forward, ``(H, D)`` backward, contiguous.
        num_rows: number of rows of the result.

    Raises:
        NonFiniteMessage: if a row to send holds NaN or Inf.
        RuntimeError: in the capture of a CUDA graph.
    """

    def __init__(self, call: Call, direction: str, x: Tensor, num_rows: int) -> None:
        check_not_captured(x.device)
        self._plan = PLANS[call.plan]
        self._channel = call.channel(self._plan, direction, x.device)
        self._epoch = call.epoch
        shape = num_rows, x.shape[1]
        # Received gradients are added; received rows fill the output.
        out = x.new_zeros(shape) if direction == "backward" else x.new_empty(shape)
        self._number = self._plan.begin(self._channel.place, call.epoch)
        try:
            self._pending = self._channel.post(x, out, epoch=call.epoch)
            if x.is_cuda:
                raise_refused(x.device)  # CUDA kernels only record non-finite rows; this check raises the error
        except Exception as error:
            self._plan.in_flight.discard(self._channel.place)
            if isinstance(error, NonFiniteMessage | NonFiniteRow | MissingMessage | UnexpectedMessage):
                raise self._failed(error) from error
            raise

    def finish(self) -> Tensor:
        """Wait for the messages and return the decoded rows.

        Raises:
            RuntimeError: if a message is not received, with the first cause.
            UnexpectedMessage: if a message is not the expected one.
        """
        try:
            out = self._pending.decode()
        except (MissingMessage, UnexpectedMessage) as error:
            raise self._failed(error) from error
        finally:
            self._plan.in_flight.discard(self._channel.place)
        # No trainer reads the records of messages, and they would accumulate.
        self._channel.arrivals.clear()
        return out

    def _failed(self, error: Exception) -> Exception:
        """Return the error to raise, and write its record for the other ranks."""
        plan, channel = self._plan, self._channel
        call = f"plan {plan.name}, {channel.direction} call {self._number}, epoch {self._epoch}, layer {channel.layer}"
        if not isinstance(error, MissingMessage):
            plan.failures.write(f"{type(error).__name__} in {call}: {error}")
            error.args = (f"{error} ({call})",)
            return error
        plan.failures.write(call, waits_for=error.peer)
        rank, cause = plan.failures.cause(error.peer)
        reason = "within the time limit" if error.is_late else "before its connection ended"
        missing = f"got no {channel.direction} message of"
        if error.is_sent:
            missing = f"could not send its {channel.direction} message to"
        first = f"; the first cause is rank {rank}" if rank != error.peer else ""
        first += f": {cause}" if cause else ""
        return RuntimeError(
            f"exchange_rows must be called by all ranks, rank {plan.rank} {missing} rank {error.peer} {reason} ({call})"
            f"{first}; call it, and the backward pass, equally often on all ranks"
        )
