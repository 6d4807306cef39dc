"""The axis ``schedule``: order of communication and computation of an exchange."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from torch import Tensor

from gnnqlab.axis_part import AxisPart, Running, complete, not_predicted
from gnnqlab.bits.assigner.descent import Comparing
from gnnqlab.message.channels.stored_rows import StoredRows
from gnnqlab.message.exchange_key import ExchangeKey

__all__ = ["PendingRows", "Overlapped", "Runner", "Schedule", "Step", "Synchronous", "runner_of"]


class PendingRows(Protocol):
    """Interface of pending rows of an exchange; see :class:`gnnqlab.message.channels.incoming.PendingReceive`."""

    @property
    def sampled_in(self) -> int | None:
        """Epoch in which the rows were sampled; ``None``: all rows."""

    def wait(self) -> None:
        """Wait until all bytes are received."""

    def decode(self, out: Tensor | None = None) -> Tensor:
        """Wait, then write the rows to their output, or add them there."""

    def to_store(self) -> StoredRows | None:
        """Wait, then return the rows for a checkpoint; ``None`` for rows that are sent once in the whole run."""


class Step(Protocol):
    """Interface of one layer's aggregation in one direction, in five operations that an exchange implements.

    It may have several rounds: one for a halo, two for replicas, which gather sums and scatter totals, and one per
    worker if workers broadcast in turn.
    """

    @property
    def rounds(self) -> int:
        """Number of communication rounds, at least 1."""

    @property
    def chained(self) -> bool:
        """True if a round sends results of the previous one, so that it cannot be posted earlier."""

    def prepare(self) -> None:
        """Compute the rows to send first."""

    def post(self, round: int) -> PendingRows:
        """Encode and send the rows of a round; return the rows to receive."""

    def independent(self) -> None:
        """Compute everything that needs no remote rows."""

    def wait(self, round: int, pending: PendingRows) -> None:
        """Wait for received rows, of this round or, in a pipeline, of the same round in an earlier epoch."""

    def dependent(self, round: int) -> None:
        """Compute everything that needs the received rows."""


class Runner(Running, ABC):
    """Base class that runs the steps of one worker in training."""

    @property
    def adapts(self) -> bool:
        """True if the schedule may change during training; read by simulations."""
        return False

    @property
    def depth(self) -> int:
        """Number of workers whose rows are prefetched while those of another are used; read by attention."""
        return 0

    @abstractmethod
    def run(self, step: Step, place: ExchangeKey) -> None:
        """Run the operations of ``step`` in the order of the schedule."""

    @abstractmethod
    def release(self) -> None:
        """Post messages that were delayed until after the all-reduce of weight gradients."""

    @abstractmethod
    def drain(self) -> None:
        """Wait until no message is in flight."""


class Schedule(AxisPart, ABC):
    """Base class of the parts of this axis."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("build",),)
    renamed: ClassVar[dict[str, str]] = {"exposed": "exposed_seconds"}
    lag: ClassVar[int] = 0
    """Maximum staleness of rows in epochs; read by ``System`` and exchanges."""
    computes_after: ClassVar[bool] = False
    """True if nothing is computed while rows are in flight; read by quantized products."""
    in_turn: ClassVar[bool] = False
    """True if an exchange has one round per worker, whose rows are freed after the round; read by exchanges."""
    attention_fetches: ClassVar[int] = 1
    """Number of times per epoch that attention sends its rows forward; read by forecasts."""

    @property
    def dropped_by(self) -> str:
        """Side that applies dropout to rows that are smaller once projected: ``receiver`` or ``owner``."""
        return "receiver"

    @property
    def needs_every_row(self) -> str:
        """Reason why a sampler must not omit rows, or an empty string; read by ``System``."""
        return ""

    @property
    def assumes(self) -> str:
        """Assumption of :meth:`exposed_seconds`, as text, or an empty string; read by forecasts."""
        return ""

    @abstractmethod
    def build(self) -> Runner:
        """Create the runner of one worker."""

    def exposed_seconds(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return the seconds of an epoch's transfers that are not hidden behind computation; forecasts call it.

        Args:
            under_way: transfer seconds of each exchange.
            beside: seconds of each exchange's products that need no received rows.
            computing: seconds of the whole epoch in which the link is free.
        """
        raise not_predicted("schedule", self, "exposed_seconds")

    def with_decisions(
        self, losses: Sequence[float], rule: Comparing | None, epoch_s: Callable[[Schedule], float]
    ) -> Schedule:
        """Return the schedule with its decisions about losses of traced epochs; forecasts call it.

        Args:
            losses: loss of each epoch; empty if none was traced.
            rule: comparison of descent rates of the bit policy; ``None`` if it has none.
            epoch_s: function that predicts the seconds of an epoch with a schedule.
        """
        return self


def runner_of(schedule: Schedule) -> Runner:
    """Create the runner of a schedule on one worker, and complete its defaults.

    Example:
        >>> runner_of(Synchronous())
        Synchronous()
    """
    runner = schedule.build()
    complete(runner, Runner)
    return runner


class _Stateless(Schedule, Runner):
    def build(self) -> Self:
        return self

    def release(self) -> None:
        pass

    def drain(self) -> None:
        pass


@dataclass(frozen=True)
class Synchronous(_Stateless):
    """Receive all rows, then compute: the schedule of Vanilla."""

    computes_after: ClassVar[bool] = True

    def run(self, step: Step, place: ExchangeKey | None = None) -> None:
        step.prepare()
        for round_ in range(step.rounds):
            # Wait at once: nothing is computed while rows are in flight.
            step.wait(round_, step.post(round_))
            if round_ == 0:
                step.independent()
            step.dependent(round_)

    def exposed_seconds(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return all transfer time: nothing is computed while rows are in flight.

        Example:
            >>> Synchronous().exposed_seconds([3.0, 1.0], [2.0, 2.0], 10.0)
            4.0
        """
        return sum(under_way)


@dataclass(frozen=True)
class Overlapped(_Stateless):
    """Overlap transfers with computation that needs no remote rows (AdaQP section 3.2, Fig. 7).

    Forward, central rows are aggregated while boundary rows are in flight; backward, the gradients of halo rows are
    computed first and sent while the gradients of owned rows are computed. With several rounds, the next one is in
    flight while a round is used, unless the rounds are chained.
    """

    def run(self, step: Step, place: ExchangeKey | None = None) -> None:
        step.prepare()
        # Post before computing, so that the transfer hides behind the products without remote rows (AdaQP Fig. 7).
        pending_rows = step.post(0)
        step.independent()
        for round_ in range(step.rounds):
            step.wait(round_, pending_rows)
            has_next_round = round_ + 1 < step.rounds
            if has_next_round and not step.chained:  # prefetch the next round during this round's products
                pending_rows = step.post(round_ + 1)
            step.dependent(round_)
            if has_next_round and step.chained:  # only now are the rows to send computed
                pending_rows = step.post(round_ + 1)

    def exposed_seconds(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return the transfer time that exceeds the products of the same exchange.

        Example:
            >>> Overlapped().exposed_seconds([3.0, 1.0], [2.0, 2.0], 10.0)
            1.0
        """
        # Each transfer hides behind the products of its own exchange, up to their length.
        return sum(under_way) - sum(min(travel, product) for travel, product in zip(under_way, beside, strict=True))
