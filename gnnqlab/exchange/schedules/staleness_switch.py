"""When a pipeline uses yesterday's rows and when fresh ones (SYLVIE sections V-B and V-C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from gnnqlab.adaptive import Adaptive, Entry, State, Training
from gnnqlab.bits.assigner.descent import Watch
from gnnqlab.bits.orchestrator import Orchestrated

__all__ = ["StalenessSwitch", "Switched", "switching"]


class Switched(Protocol):
    """A schedule that can do either."""

    fresh: bool
    """Whether steps wait for their own rows; set between two epochs."""


class StalenessSwitch(Adaptive):
    """Asks for fresh rows where Eq. 5 asks for care, and after ``bound`` stale epochs in a row.

    Args:
        pipeline: what is switched.
        bound: most stale epochs in a row.
        watch: has judged the epoch before it is asked.
    """

    name = "freshness"

    def __init__(self, pipeline: Switched, bound: int, watch: Watch) -> None:
        self.pipeline, self.bound = pipeline, bound
        self.decisions: list[Entry] = []
        """Until they are read."""
        self._watch, self._stale = watch, 0

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        verdict = self._watch.verdict
        self._stale = 0 if self.pipeline.fresh or epoch == 0 else self._stale + 1
        late = self._stale >= self.bound
        fresh = verdict.careful or late
        if fresh != self.pipeline.fresh:
            bounded = f"{self._stale} stale epochs in a row, {self.bound} are allowed"
            what = "fresh rows" if fresh else "rows of the epoch before"
            self.decisions.append(verdict.entry(epoch, what, bounded if late and not verdict.careful else ""))
        self.pipeline.fresh = fresh

    def entries(self) -> Sequence[Entry]:
        decided, self.decisions[:] = list(self.decisions), []
        return decided

    def state(self) -> State:
        return State({"stale": self._stale, "fresh": self.pipeline.fresh})

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Go on from a state.

        Rows under way are not kept, so the next epoch is a fresh one whatever was decided; it counts as a stale one if
        it was to be one. So decisions go on as they would have, and the bound holds all the more.
        """
        self._stale, self.pipeline.fresh = facts["stale"], facts["fresh"]


def switching(pipeline: Switched, bound: int, training: Training) -> list[Adaptive]:
    """Return what switches a pipeline; it obeys the formula of the widths where these watch the descent already."""
    watch = next((each for each in training.adaptives.values() if isinstance(each, Watch)), None)
    if watch is not None:
        return [StalenessSwitch(pipeline, bound, watch)]
    watch = Watch.of(Orchestrated(), training)
    return [watch, StalenessSwitch(pipeline, bound, watch)]
