"""Exchange in two steps, start and wait, which overlaps computation between them, forward and backward.

Letters: N local rows, H received rows, D columns.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gnnqlab.halo.halo_plan import HaloPlan
from gnnqlab.halo.row_transfers import STOCHASTIC, Call, PostedRows, call_of
from gnnqlab.message.codecs.codec import Codec

__all__ = ["PendingExchange", "start_exchange"]


class PendingExchange:
    """Halo rows in flight; create it by :func:`start_exchange`."""

    def __init__(self, token: Tensor, link: _Link, dtype: torch.dtype) -> None:
        self._token, self._link, self._dtype = token, link, dtype
        self._rows: Tensor | None = None

    def wait(self) -> Tensor:
        """Wait for the rows and return them, ``(H, D)``; a further call returns the same tensor.

        Raises:
            UnexpectedMessage, RuntimeError: as :func:`gnnqlab.halo.halo_rows.exchange_rows`.
        """
        if self._rows is None:
            self._rows = _Wait.apply(self._token, self._link).to(self._dtype)
        return self._rows


def start_exchange(
    x: Tensor,
    plan: HaloPlan,
    *,
    codec: Codec | tuple[Codec, Codec] = STOCHASTIC,
    bits: int | tuple[int, int] = 32,
    epoch: int = 0,
    layer: int = 0,
) -> PendingExchange:
    """Start an exchange of halo rows and return before they are received.

    Computation between this call and :meth:`PendingExchange.wait` overlaps the transfer. In the backward pass the
    gradients of that computation are computed while the gradients of the halo rows are sent. Several exchanges of
    different layers or plans may be in flight. All ranks start them in the same order, and wait in the same order;
    with ``check_order=True`` a plan compares the order of starts. Results, derivatives and errors are those of
    :func:`gnnqlab.halo.halo_rows.exchange_rows`. Transport ``direct`` overlaps whole exchanges, ``ring`` its first
    round, ``all-to-all`` the bodies of messages.

    Args:
        x: rows of this rank, floating-point ``(N, D)``, finite.
        plan, codec, bits, epoch, layer: as :func:`gnnqlab.halo.halo_rows.exchange_rows`.

    Raises:
        RuntimeError: in compiled code, where messages cannot be in flight.
        TypeError, ValueError, NonFiniteMessage: as :func:`gnnqlab.halo.halo_rows.exchange_rows`; also if an exchange
            of this layer is in flight.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0], num_rows=5)  # one process has no peers
        >>> pending = start_exchange(torch.ones(5, 3), plan, bits=4)
        >>> pending.wait().shape
        torch.Size([0, 3])
    """
    if torch.compiler.is_compiling():
        raise RuntimeError("start_exchange must not be compiled, got a traced call; use exchange_rows there")
    plan.check_rows(x)
    call = call_of(plan, x.device, codec=codec, bits=bits, epoch=epoch, layer=layer, function="start_exchange")
    link = _Link(call, "forward", x.shape[0], plan.num_halo)
    return PendingExchange(_Start.apply(x.float().contiguous(), link), link, x.dtype)


class _Link:
    """Messages between the start and the wait of one exchange, which are two nodes of the autograd graph."""

    def __init__(self, call: Call, direction: str, num_sent: int, num_received: int) -> None:
        self._call, self._direction, self._num_sent, self._num_received = call, direction, num_sent, num_received
        self._posted: PostedRows | None = None

    @cached_property
    def gradient(self) -> _Link:
        """Exchange of the gradients, in the other direction."""
        direction = "backward" if self._direction == "forward" else "forward"
        return _Link(self._call.derivative, direction, self._num_received, self._num_sent)

    def start(self, x: Tensor) -> None:
        self._posted = PostedRows(self._call, self._direction, x, self._num_received)

    def finish(self) -> Tensor:
        assert self._posted is not None, "a wait follows its start"
        posted, self._posted = self._posted, None
        return posted.finish()


# The gradient of a wait starts the messages of the gradients, and that of a start waits for them. Between the two,
# autograd computes the gradients of the operations between start and wait, because later operations come first.


class _Start(torch.autograd.Function):
    """Start an exchange; return an empty tensor that ties the wait to it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, link: _Link) -> Tensor:
        ctx.link = link
        link.start(x)
        return x.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Wait.apply(gradients[0], ctx.link.gradient), None


class _Wait(torch.autograd.Function):
    """Wait for an exchange and return its rows."""

    @staticmethod
    def forward(ctx: Any, token: Tensor, link: _Link) -> Tensor:
        ctx.link = link
        return link.finish()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Start.apply(gradients[0].contiguous(), ctx.link.gradient), None
