"""Error feedback: the rounding error of a row is added to its next message (EC-Graph, ICDE 2022).

Letters: n rows of a route, k of them in a message, D columns.
"""

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
_BIASED = "adds the rounding error of a row to its next message, so a single message is biased"


@dataclass(frozen=True)
class Feedback(Cache):
    """Add the rounding error of a row to its next message (EC-Graph's responding-end compensation).

    ``m_t = x_t + e_(t-1)``, ``e_t = m_t - C(m_t)``, ``e_0 = 0``, C the codec, biased or not, with one e per row and
    receiver. The decoded messages sum to ``sum_t C(m_t) = sum_t x_t - e_T``: over a training the sum is off by a single
    rounding error, while rounding to the nearest alone repeats the same error as long as a row does not change. Only
    the sender stores e, in float32, and saves it in checkpoints; messages have the same size as without feedback.

    **A single message is biased**: given e, ``E[C(m_t)] = x_t + e_(t-1)`` with an unbiased codec. So the gradient of an
    epoch is biased and Theorem 1 (AdaQP) does not apply (:mod:`gnnqlab.systems.unbiased`): adaptive bit policies based
    on its variance, ``theory.check`` and variances of forecasts are refused, and so are bit-widths at which e would
    grow.

    Differs: EC-Graph feeds back gradients only, ``direction="backward"``, and encodes embeddings relative to a
    prediction; its codes span the range of a whole message. :class:`gnnqlab.message.caches.difference.Difference` needs
    no feedback: the error of a message is part of the next difference.

    Example:
        >>> Feedback().directions, Feedback(direction="backward").directions
        (('forward', 'backward'), ('backward',))
    """

    direction: Annotated[str, OneOf(("both", *DIRECTIONS))] = "both"
    """Errors to feed back: of embeddings (``forward``), of gradients (``backward``, as in EC-Graph), or of ``both``."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def directions(self) -> tuple[str, ...]:
        """Directions in which errors are fed back."""
        return DIRECTIONS if self.direction == "both" else (self.direction,)

    def expected_share(self) -> float:
        """Return the share of rows that are sent: 1."""
        return 1.0

    def build(self) -> None:
        """Return ``None``: all rows are sent, and receivers store no copies."""
        return None

    def at_work(self) -> FeedbackAtWork:
        """Create the run-time state of one worker."""
        return FeedbackAtWork(self)

    def biased(self, direction: str) -> str:
        """Return the reason why messages of a direction are biased; empty without feedback."""
        return _BIASED if direction in self.directions else ""

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use error feedback, or an empty string."""
        for direction in self.directions:
            bits = of_direction(system.bits, direction)
            if bits.weighs_rows:
                return (
                    f"it {_BIASED}, and bits {type(bits).__name__} assume unbiased codes (AdaQP Theorem 1); choose "
                    "cache Difference() or other bits"
                )
        if system.exchange.sends_blocks:
            return (
                "errors are stored per row and receiver, but this exchange sends whole blocks to all; choose exchange "
                "Halo() or Replicas()"
            )
        if system.schedule.in_turn:
            return (
                "rows that are fetched again for the backward pass must be identical, but error feedback would change "
                "them; choose schedule Synchronous(), Overlapped() or Pipelined()"
            )
        return needs_fading_errors(system, self.directions)


class FeedbackAtWork(RowCacheState):
    """Run-time state of one worker: errors of the rows that it sends."""

    def __init__(self, settings: Feedback) -> None:
        super().__init__(both_ends=False)
        self._directions = settings.directions

    def build(self) -> None:
        return None

    def selection_at(self, place: ExchangeKey, plan: Plan) -> AllRowsOfRoute:
        """Return the selection of an exchange key: every row, plus its error in directions with feedback."""
        return FedBack(plan, self.held_at(place)) if place.direction in self._directions else AllRowsOfRoute()

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [RowCacheCheckpoint("feedback", self, training.worker)]


class FedBack(AllRowsOfRoute):
    """Selection that sends every row plus the error of its last message.

    Args:
        plan: plan with all rows that may be sent.
        left: storage of the errors; the caller saves it in checkpoints.
    """

    encodes_rows = False

    def __init__(self, plan: Plan, left: Held) -> None:
        self._plan = plan
        self.left = left
        """(``send``, peer) -> errors of all rows of a route, float32 ``(n, D)``."""

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        if not layout.num_bytes:
            return Outgoing(x, route.rows, route.ids, layout, buffer)
        errors = self._error_of(route.peer, x)  # (n, D), all rows of the route
        # m_t = x_t + e_(t-1); index_select copies, so ``x`` itself is unchanged.
        message = x.index_select(0, route.rows).add_(errors[_sampled(route)])  # (k, D)
        # The codec encodes rows 0 to k - 1 of ``message`` in place of rows of ``x``.
        return Outgoing(message, all_places(route.num_rows, x), route.ids, layout, buffer)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Store the errors of the message, ``e = m - C(m)``."""
        layout = message.layout
        assert layout is not None
        if not layout.num_bytes:
            return
        # Decode what the receiver will decode: the error includes the rounding of the parameters.
        rows, places, ids = (
            torch.empty_like(message.x),  # (k, D)
            layout.to_wire_order(message.rows),
            layout.to_wire_order(message.ids),
        )
        codec.decode(message.segment, layout, rows, places, accumulate=False, ids=ids, noise=noise)
        self.left["send", route.peer][_sampled(route)] = message.x.sub_(rows)  # errors of other rows are unchanged

    def _error_of(self, peer: int, x: Tensor) -> Tensor:
        """Return the stored errors of a route, zeros at first."""
        shape = (self._plan.to_peer(peer).num_rows, x.shape[1])  # all rows of the route, sampled or not
        errors = self.left.get(("send", peer))
        if errors is None or errors.shape != shape:
            errors = self.left["send", peer] = x.new_zeros(shape)
        return errors


def _sampled(route: Route) -> Tensor | slice:
    """Return the positions of the sampled rows among all rows of a route."""
    return slice(None) if route.sampled_positions is None else route.sampled_positions
