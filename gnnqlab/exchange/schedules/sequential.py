"""The schedule of SAR: one worker's rows at a time, freed after use (Mostafa, MLSys 2022).

Where the gradient of a sum needs no neighbour's row, it is pushed home without a fetch (case 1); where it does, as in
attention, rows are fetched again (case 2). So a worker holds the rows of ``1 + depth`` others at most, in place of its
whole halo, at the price of P - 1 messages in turn where there was one exchange.
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
    """Rows of one worker at a time, freed after use, and fetched again in the backward pass where that needs them.

    Results are those of `Synchronous` up to the order of float32 sums; rows, bytes and their noise are the same, but
    that attention fetches its rows twice.
    """

    in_turn: ClassVar[bool] = True
    needs_every_row: ClassVar[str] = "the rows of a turn are cut out of the whole halo once"
    """Why a sampler cannot leave rows out."""
    attention_fetches: ClassVar[int] = 2
    """Forward, and again for the backward pass."""
    depth: Annotated[int, Range(0), Option("prefetch")] = 1
    """Workers whose rows are under way while those of another are used, at least 0."""

    def __post_init__(self) -> None:
        check(self)

    def refuses(self, system: Any) -> str:
        """Say why a system cannot have it."""
        if not system.exchange.takes_turns:
            kind = type(system.exchange).__name__
            return f"the exchange {kind} has no rows of one worker at a time; choose exchange Halo()"
        if system.cache.build() is not None:
            return "a cache holds the rows that this schedule frees after use; choose cache NoCache()"
        return ""

    def build(self) -> Sequential:
        return self

    def run(self, step: Step, place: ExchangeKey | None = None) -> None:
        step.prepare()
        if self.depth == 0:
            step.independent()
        under_way: deque[PendingRows] = deque()
        posted = 0
        for round_ in range(step.rounds):
            while posted < min(step.rounds, round_ + 1 + self.depth):
                under_way.append(step.post(posted))
                posted += 1
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
        """What a forecast takes for granted."""
        return "" if self.depth == 0 else "products with other workers' rows hide nothing of what travels beside them"

    def exposed(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return all of it without prefetching, else what is longer than the products beside it.

        Example:
            >>> Sequential(depth=0).exposed([3.0], [2.0], 10.0), Sequential(depth=1).exposed([3.0], [2.0], 10.0)
            (3.0, 1.0)
        """
        other = Synchronous() if self.depth == 0 else Overlapped()
        return other.exposed(under_way, beside, computing)
