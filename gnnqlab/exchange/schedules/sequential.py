"""The schedule of SAR: receive the rows of one worker at a time and free them after use (Mostafa, MLSys 2022).

If the gradient of an aggregation needs no remote rows, it is sent to their owner without a fetch (case 1); otherwise,
as in attention, rows are fetched again (case 2). A worker thus stores the rows of at most ``1 + depth`` others instead
of its whole halo, at the cost of P - 1 successive messages instead of one exchange.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnnqlab.exchange.schedules.schedule import Overlapped, PendingRows, Runner, Schedule, Step, Synchronous
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.settings import Option, Range, check

__all__ = ["Sequential"]


@dataclass(frozen=True, kw_only=True)
class Sequential(Schedule, Runner):
    """Receive rows of one worker at a time, free them after use, and fetch them again if the backward pass needs them.

    Results are those of `Synchronous` up to the order of float32 sums; rows, bytes and rounding noise are identical,
    except that attention fetches its rows twice.
    """

    in_turn: ClassVar[bool] = True
    needs_every_row: ClassVar[str] = "the halo is split by owner once, for all epochs"
    """Reason why a sampler must not omit rows."""
    attention_fetches: ClassVar[int] = 2
    """Attention sends its rows in the forward pass, and again for the backward pass."""
    depth: Annotated[int, Range(0), Option("prefetch")] = 1
    """Number of workers whose rows are prefetched while those of another are used, at least 0."""

    def __post_init__(self) -> None:
        check(self)

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this schedule, or an empty string."""
        if not system.exchange.takes_turns:
            kind = type(system.exchange).__name__
            return f"the exchange {kind} cannot receive rows from one worker at a time; choose exchange Halo()"
        if system.cache.build() is not None:
            return "a cache stores the rows that this schedule frees after use; choose cache NoCache()"
        return ""

    def build(self) -> Sequential:
        return self

    def run(self, step: Step, place: ExchangeKey | None = None) -> None:
        step.prepare()
        if self.depth == 0:  # nothing is prefetched, so there is nothing to overlap with
            step.independent()
        # At most 1 + depth exchanges at a time, which bounds the halo rows in memory.
        under_way: deque[PendingRows] = deque()
        num_posted = 0
        for round_ in range(step.rounds):
            while num_posted < min(step.rounds, round_ + 1 + self.depth):  # this round and the prefetched ones
                under_way.append(step.post(num_posted))
                num_posted += 1
            # After the first posts, so that these transfers overlap with the products of owned rows.
            if round_ == 0 and self.depth > 0:
                step.independent()
            step.wait(round_, under_way.popleft())
            step.dependent(round_)

    def release(self) -> None:
        pass

    def drain(self) -> None:
        pass

    @property
    def assumes(self) -> str:
        """Assumption of forecasts, as text."""
        return "" if self.depth == 0 else "products with remote rows hide no transfers"

    def exposed_seconds(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return all transfer time without prefetching, else the part that exceeds the products of the exchange.

        Example:
            >>> [Sequential(depth=depth).exposed_seconds([3.0], [2.0], 10.0) for depth in (0, 1)]
            [3.0, 1.0]
        """
        schedule = Synchronous() if self.depth == 0 else Overlapped()
        return schedule.exposed_seconds(under_way, beside, computing)
