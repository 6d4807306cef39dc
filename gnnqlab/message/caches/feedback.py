"""Error feedback: what rounding left of a row goes into the same row's next message (EC-Graph, ICDE 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.message.caches.cache import Cache, Held, needs_fading_errors
from gnnqlab.message.caches.row_cache_state import RowCacheCheckpoint, RowCacheState
from gnnqlab.message.channels.selection import AllRowsOfRoute, Outgoing, all_places
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.direction import of_direction
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.layout import Layout
from gnnqlab.partition.plan import Plan, Route
from gnnqlab.settings import OneOf, check

__all__ = ["FedBack", "Feedback"]

DIRECTIONS = ("forward", "backward")
_BIASED = "puts what was left of a row into its next message, so that one message is biased"


@dataclass(frozen=True)
class Feedback(Cache):
    """What rounding left of a row is added to the same row's next message (EC-Graph's responding-end compensation).

    ``m_t = x_t + e_(t-1)``, ``e_t = m_t - C(m_t)``, ``e_0 = 0``, C the codec, biased or not; each row and receiver has
    an e. What receivers decode adds up: ``sum_t C(m_t) = sum_t x_t - e_T``, so that over a training the sum of all
    messages is off by one rounding, where rounding to the nearest alone errs alike in every epoch in which a row
    stays. Only the sender keeps e, in float32, and in checkpoints; bytes and messages are those of the codec.

    **One message is biased**: given what was left, ``E[C(m_t)] = x_t + e_(t-1)``, with any codec. So the gradient of an
    epoch is not unbiased and Theorem 1 (AdaQP) has nothing to say of it (:mod:`gnnqlab.systems.unbiased`): bits that
    weigh rows by its variance are refused, ``theory.check`` and variances of forecasts too, and so are widths where a
    message leaves more than it takes, where e would grow.

    Differs: EC-Graph feeds back gradients alone, ``direction="backward"``, and codes rows forward against a prediction;
    its codes lie between the ends of a whole message. With :class:`gnnqlab.message.caches.difference.Difference`
    nothing need be fed back: what a message left is in the next difference.

    Example:
        >>> Feedback().directions, Feedback(direction="backward").directions
        (('forward', 'backward'), ('backward',))
    """

    direction: Annotated[str, OneOf(("both", *DIRECTIONS))] = "both"
    """Whose errors are fed back: ``forward`` (rows), ``backward`` (their gradients, as EC-Graph does) or ``both``."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions in which errors are fed back."""
        return DIRECTIONS if self.direction == "both" else (self.direction,)

    def expected_share(self) -> float:
        """Return the share of rows that travel: all."""
        return 1.0

    def build(self) -> None:
        """Choose no rows: all travel, and receivers hold none."""
        return None

    def at_work(self) -> FeedbackAtWork:
        """Return what runs on one worker."""
        return FeedbackAtWork(self)

    def biased(self, direction: str) -> str:
        """Say why one message of a direction is biased; empty where nothing is fed back."""
        return _BIASED if direction in self.directions else ""

    def refuses(self, system: Any) -> str:
        """Say why errors cannot be fed back in a system."""
        for direction in self.directions:
            bits = of_direction(system.bits, direction)
            if bits.weighs_rows:
                return (
                    f"it {_BIASED}, and bits {type(bits).__name__} weigh rows by the variance of unbiased codes "
                    "(AdaQP Theorem 1); choose cache Difference() or other bits"
                )
        if system.exchange.sends_blocks:
            return (
                "what is left is kept of each row and receiver, and this exchange sends whole blocks to all; choose "
                "exchange Halo() or Replicas()"
            )
        if system.schedule.in_turn:
            return (
                "rows that are fetched again for the backward pass must come as they came before, without what was "
                "left of them then; choose schedule Synchronous(), Overlapped() or Pipelined()"
            )
        return needs_fading_errors(system, self.directions)


class FeedbackAtWork(RowCacheState):
    """What is left of the rows that one worker sends."""

    def __init__(self, settings: Feedback) -> None:
        super().__init__(alike=False)
        self._directions = settings.directions

    def build(self) -> None:
        return None

    def selection_at(self, place: ExchangeKey, plan: Plan) -> AllRowsOfRoute:
        """Return the selection of a place: every row, with what was left of it in the directions that feed it back."""
        return FedBack(plan, self.held_at(place)) if place.direction in self._directions else AllRowsOfRoute()

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [RowCacheCheckpoint("feedback", self, training.worker)]


class FedBack(AllRowsOfRoute):
    """Every row, with what was left of it.

    Args:
        plan: with all rows that the place may send.
        left: where to keep it; whoever gives it keeps it in checkpoints.
    """

    encodes_rows = False

    def __init__(self, plan: Plan, left: Held) -> None:
        self._plan = plan
        self.left = left
        """(``send``, peer) -> what is left of all rows of a route, float32 ``(n, D)``."""

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        if not layout.num_bytes:
            return Outgoing(x, route.rows, route.ids, layout, buffer)
        left = self._left_of(route.peer, x)
        message = x.index_select(0, route.rows).add_(left[_at(route)])
        return Outgoing(message, all_places(route.num_rows, x), route.ids, layout, buffer)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Keep what the message leaves of its rows."""
        layout = message.layout
        assert layout is not None
        if not layout.num_bytes:
            return
        came, places, ids = (
            torch.empty_like(message.x),
            layout.to_wire_order(message.rows),
            layout.to_wire_order(message.ids),
        )
        codec.decode(message.segment, layout, came, places, accumulate=False, ids=ids, noise=noise)
        self.left["send", route.peer][_at(route)] = message.x.sub_(came)

    def _left_of(self, peer: int, x: Tensor) -> Tensor:
        shape = (self._plan.to_peer(peer).num_rows, x.shape[1])
        left = self.left.get(("send", peer))
        if left is None or left.shape != shape:
            left = self.left["send", peer] = x.new_zeros(shape)
        return left


def _at(route: Route) -> Tensor | slice:
    """Return which rows of all those of a route these are."""
    return slice(None) if route.kept is None else route.kept
