"""The axis ``schedule``: in which order the verbs of an exchange run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from torch import Tensor

from gnnqlab.axis_part import AxisPart, Running, complete, not_predicted
from gnnqlab.message.exchange_key import ExchangeKey

__all__ = ["PendingRows", "Overlapped", "Runner", "Schedule", "Step", "Synchronous", "runner_of"]


class PendingRows(Protocol):
    """Rows on their way from other workers; see :class:`gnnqlab.message.channels.incoming.PendingReceive`."""

    @property
    def sampled_in(self) -> int | None:
        """Epoch whose sample of rows this is; ``None``: all rows."""

    def wait(self) -> None:
        """Return when every byte has come."""

    def decode(self, out: Tensor | None = None) -> Tensor:
        """Put the rows into their places, or add them there, once they have come."""


class Step(Protocol):
    """One layer's look at neighbours in one direction, as five verbs; an exchange says what each does.

    It may take several rounds: a halo has one, replicas that gather sums and scatter totals two, workers that take
    turns to broadcast as many as there are workers.
    """

    @property
    def rounds(self) -> int:
        """How many exchanges it takes, at least 1."""

    @property
    def chained(self) -> bool:
        """Whether a round sends what the one before it made, so that it cannot be posted earlier."""

    def prepare(self) -> None:
        """Compute what has to travel first."""

    def post(self, round: int) -> PendingRows:
        """Encode the rows of a round and start moving them; return what comes from others."""

    def independent(self) -> None:
        """Compute what needs nothing from other workers."""

    def wait(self, round: int, came: PendingRows) -> None:
        """Take what came: for this round of this step, or for that of an earlier epoch."""

    def dependent(self, round: int) -> None:
        """Compute what needed it."""


class Runner(Running, ABC):
    """Base class of what runs the steps of one worker's training."""

    @property
    def adapts(self) -> bool:
        """Return True if it may change while it trains; simulations read it."""
        return False

    @property
    def depth(self) -> int:
        """Return how many workers' rows are under way while another's are used; attention in turn reads it."""
        return 0

    @abstractmethod
    def run(self, step: Step, place: ExchangeKey) -> None:
        """Run the verbs of ``step``."""

    @abstractmethod
    def release(self) -> None:
        """Post what was held back until the weight gradients are summed."""

    @abstractmethod
    def drain(self) -> None:
        """Return when nothing is under way any more."""


class Schedule(AxisPart, ABC):
    """Base class of recipe parts of the axis."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("build",),)
    lag: ClassVar[int] = 0
    """Epochs between the post of a row and its use, at most; ``System`` and exchanges read it."""
    computes_after: ClassVar[bool] = False
    """Whether nothing is computed while rows travel; quantized products read it."""
    in_turn: ClassVar[bool] = False
    """Whether an exchange takes a round per worker, and its rows live for that round only; exchanges read it."""
    attention_fetches: ClassVar[int] = 1
    """How often rows of attention are sent forward in an epoch; forecasts read it."""

    @property
    def dropped_by(self) -> str:
        """Return ``receiver`` or ``owner``, which applies dropout to rows that are narrower once projected."""
        return "receiver"

    @property
    def needs_every_row(self) -> str:
        """Return why a sampler cannot leave rows out, or an empty text; ``System`` reads it."""
        return ""

    @property
    def assumes(self) -> str:
        """Return the assumption of :meth:`exposed`, in words, or an empty text; forecasts read it."""
        return ""

    @abstractmethod
    def build(self) -> Runner:
        """Return what runs this schedule on one worker."""

    def exposed(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return the seconds of an epoch's transfers that nothing hides; forecasts call it.

        Args:
            under_way: seconds that the rows of each exchange travel.
            beside: seconds of each exchange's products that need none of them.
            computing: seconds of the whole epoch that leave the link free.
        """
        raise not_predicted("schedule", self, "exposed")


def runner_of(schedule: Schedule) -> Runner:
    """Return what runs a schedule on one worker.

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
    """Communicate, then compute: the schedule of Vanilla."""

    computes_after: ClassVar[bool] = True

    def run(self, step: Step, place: ExchangeKey | None = None) -> None:
        step.prepare()
        for round_ in range(step.rounds):
            step.wait(round_, step.post(round_))
            if round_ == 0:
                step.independent()
            step.dependent(round_)

    def exposed(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return all of it: nothing is computed while rows travel.

        Example:
            >>> Synchronous().exposed([3.0, 1.0], [2.0, 2.0], 10.0)
            4.0
        """
        return sum(under_way)


@dataclass(frozen=True)
class Overlapped(_Stateless):
    """Compute what needs no other worker while rows are under way (AdaQP section 3.2, Fig. 7).

    Forward, central rows are multiplied while boundary rows travel; backward, the gradients of halo rows are
    computed first and travel while the gradients of owned rows are computed. Of several rounds the next one travels
    while a round is used, unless it sends what that makes.
    """

    def run(self, step: Step, place: ExchangeKey | None = None) -> None:
        step.prepare()
        came = step.post(0)
        step.independent()
        for round_ in range(step.rounds):
            step.wait(round_, came)
            more = round_ + 1 < step.rounds
            if more and not step.chained:
                came = step.post(round_ + 1)
            step.dependent(round_)
            if more and step.chained:
                came = step.post(round_ + 1)

    def exposed(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return what is longer than the products beside it.

        Example:
            >>> Overlapped().exposed([3.0, 1.0], [2.0, 2.0], 10.0)
            1.0
        """
        return sum(under_way) - sum(min(travel, product) for travel, product in zip(under_way, beside, strict=True))
