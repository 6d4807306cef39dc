"""Assigned bit-widths with fixed link costs: workers choose the same bit-widths on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.bits.assigner.assigned import Assigned, AssignedWidths, Assigner
from gnnqlab.theory.cost import LinkCost
from gnnqlab.worker_context import WorkerContext

__all__ = ["Priced"]

BYTES_PER_S = 250_000.0


@dataclass(frozen=True, kw_only=True)
class Priced(Assigned):
    """The assigner's settings, with links of `BYTES_PER_S` that are never measured."""

    def build(self, worker: WorkerContext) -> AssignedWidths:
        return _PricedWidths(self)


class _PricedWidths(AssignedWidths):
    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        made = super().adaptives(training)
        for one in made:
            assert isinstance(one, Assigner)
            one.joint.cost = LinkCost.uniform(training.shard.workers, bytes_per_s=BYTES_PER_S)
            one.observe = lambda arrivals: None  # type: ignore[method-assign]
        return made
