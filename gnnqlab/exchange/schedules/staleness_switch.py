"""Switch a pipeline between stale and fresh rows (SYLVIE sections V-B and V-C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from gnnqlab.adaptive import Adaptive, Entry, State, Training
from gnnqlab.bits.assigner.descent import Comparing, Watch
from gnnqlab.bits.orchestrator import Orchestrated

__all__ = ["StalenessSwitch", "Switched", "replay", "switching"]


class Switched(Protocol):
    """Interface of a schedule that supports stale and fresh rows."""

    is_fresh: bool
    """True if steps use rows of their own epoch; set between two epochs."""


class StalenessSwitch(Adaptive):
    """Callback that selects fresh rows if Eq. 5 requires care, and after ``bound`` stale epochs in a row.

    Args:
        pipeline: schedule to switch.
        bound: maximum number of stale epochs in a row.
        watch: callback that evaluates Eq. 5; it must run first.
    """

    name = "freshness"

    def __init__(self, pipeline: Switched, bound: int, watch: Watch) -> None:
        self.pipeline, self.bound = pipeline, bound
        self.decisions: list[Entry] = []
        """Decisions that :meth:`entries` has not returned yet."""
        self._watch, self._stale = watch, 0

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        verdict = self._watch.verdict
        # The first epoch is always fresh, although ``is_fresh`` is not set: no earlier rows exist.
        self._stale = 0 if self.pipeline.is_fresh or epoch == 0 else self._stale + 1
        is_late = self._stale >= self.bound
        is_fresh = verdict.careful or is_late
        if is_fresh != self.pipeline.is_fresh:
            reason = f"{self._stale} stale epochs in a row, {self.bound} are allowed"
            decision = "fresh rows" if is_fresh else "rows of the epoch before"
            self.decisions.append(verdict.entry(epoch, decision, reason if is_late and not verdict.careful else ""))
        self.pipeline.is_fresh = is_fresh

    def entries(self) -> Sequence[Entry]:
        entries, self.decisions[:] = list(self.decisions), []
        return entries

    def state(self) -> State:
        return State({"stale": self._stale, "fresh": self.pipeline.is_fresh})

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._stale, self.pipeline.is_fresh = facts["stale"], facts["fresh"]


def switching(pipeline: Switched, bound: int, training: Training) -> list[Adaptive]:
    """Create the callbacks that switch a pipeline; an adaptive bit policy's evaluation of Eq. 5 is shared, if any."""
    # One evaluation of Eq. 5 for both decisions, so that bit-widths and staleness follow the same loss.
    watch = next((each for each in training.adaptives.values() if isinstance(each, Watch)), None)
    if watch is not None:
        return [StalenessSwitch(pipeline, bound, watch)]
    watch = Watch.from_training(Orchestrated(), training)
    # In this order: the switch reads the result that the watch computes after the same epoch.
    return [watch, StalenessSwitch(pipeline, bound, watch)]


@dataclass
class _Decision:
    """Pipeline without rows."""

    is_fresh: bool = False


def replay(
    losses: Sequence[float], settings: Comparing, *, bound: int, stale_s: float = 1.0, fresh_s: float = 1.0
) -> list[bool]:
    """Decide about recorded losses by the callbacks of a training; return True for each epoch with fresh rows.

    Seconds count because Eq. 5 compares falls of the loss per second: an epoch with fresh rows lasts longer.

    Args:
        losses: loss of each epoch; effects of staleness on it are ignored.
        settings: comparison of rates.
        bound: maximum number of stale epochs in a row.
        stale_s: seconds of an epoch with stale rows.
        fresh_s: seconds of an epoch with fresh rows.

    Example:
        >>> replay([9, 8, 7, 6, 5, 4], Orchestrated(), bound=2)
        [True, False, False, True, False, False]
    """
    pipeline, watch = _Decision(), Watch(settings)
    switch = StalenessSwitch(pipeline, bound, watch)
    fresh: list[bool] = []
    for epoch, loss in enumerate(losses):
        # As in a training: the seconds of an epoch are known after the next one, and those of the first are not used.
        epoch_s = None if epoch < 2 else fresh_s if fresh[-1] else stale_s
        fresh.append(epoch == 0 or pipeline.is_fresh)  # no earlier rows exist in the first epoch
        watch.after_epoch(epoch, loss, {"epoch_s": epoch_s})
        switch.after_epoch(epoch, loss, {})
    return fresh
