"""SYLVIE's Coordinator: one place decides about widths and staleness, and says why (sections V-A to V-C).

All it looks at is the same on every worker: the summed loss and the longest epoch. So all decide alike.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.exchange.pipeline import AdaptivePipeline, Pipeline

__all__ = ["Coordinator", "Descent"]


class Descent:
    """How fast the loss falls, beside how fast it fell δ epochs ago.

    ``F_t = λ F_(t-1) + (1 - λ) L_t`` and ``LDR_t = (F_(t-1) - F_t) / et_t`` with the time ``et_t`` of epoch t.

    Differs: the paper prints ``(F_t - F_(t-1)) / et_t``, which is negative while the loss falls, against its own text
    (erratum SY-1).

    Args:
        momentum: λ.
        delta: δ, in epochs.
    """

    def __init__(self, momentum: float, delta: int) -> None:
        self.momentum, self.delta = momentum, delta
        self.loss: float | None = None
        """F."""
        self.rates: deque[float] = deque(maxlen=delta + 1)

    def add(self, loss: float, epoch_s: float) -> tuple[float, float] | None:
        """Take an epoch's loss and seconds; return ``(LDR_(t-δ), LDR_t)``, ``None`` in the first epochs.

        Example:
            >>> descent = Descent(momentum=0.0, delta=1)
            >>> [descent.add(loss, epoch_s=1.0) for loss in (4.0, 2.0, 1.0)]
            [None, None, (2.0, 1.0)]
        """
        before, momentum = self.loss, self.momentum
        self.loss = loss if before is None else momentum * before + (1 - momentum) * loss
        if before is not None:
            self.rates.append((before - self.loss) / max(epoch_s, 1e-9))
        return (self.rates[0], self.rates[-1]) if len(self.rates) > self.delta else None


@dataclass
class Coordinator:
    """Moves the base width and switches between stale and fresh epochs."""

    widths: OrchestratedWidths | None
    """The policy whose base it moves, if the system has one."""
    pipeline: Pipeline | None
    """The schedule that it switches, if the system has one."""
    bound: int = 0
    """Most stale epochs in a row."""

    def __post_init__(self) -> None:
        self._descent = Descent(momentum=0.9, delta=5)
        self._stale = 0
        self.decisions: list[dict[str, Any]] = []
        """One entry for every decision; whoever reads it clears it."""

    @classmethod
    def of(cls, widths: object, schedule: object, runner: object) -> Coordinator | None:
        """Return who coordinates a system, or ``None`` if there is nothing to decide."""
        moves = widths if isinstance(widths, OrchestratedWidths) else None
        switches = runner if isinstance(schedule, AdaptivePipeline) and isinstance(runner, Pipeline) else None
        if moves is None and switches is None:
            return None
        coordinator = cls(moves, switches, schedule.bound if isinstance(schedule, AdaptivePipeline) else 0)
        if moves is not None:
            coordinator.obey(moves.settings)
        return coordinator

    def obey(self, settings: Orchestrated) -> None:
        """Compare by these settings from now on; others begin with no rate to compare with."""
        if (settings.momentum, settings.delta) != (self._descent.momentum, self._descent.delta):
            self._descent = Descent(settings.momentum, settings.delta)

    def after_epoch(self, epoch: int, loss: float, epoch_s: float) -> None:
        """Decide about the next epoch.

        Args:
            epoch: the one that has ended.
            loss: its loss, summed over all workers.
            epoch_s: its seconds on this worker; the longest of all workers counts.
        """
        if dist.is_initialized() and dist.get_world_size() > 1:
            longest = torch.tensor([epoch_s], dtype=torch.float64)
            longest = longest.cuda() if dist.get_backend() == "nccl" else longest
            dist.all_reduce(longest, op=dist.ReduceOp.MAX)
            epoch_s = float(longest)
        if self.widths is not None:
            self.obey(self.widths.settings)  # they can be steered
        rates = self._descent.add(loss, epoch_s)
        slower = rates is not None and rates[1] < rates[0]
        why = "there is no earlier rate to compare with yet"
        if rates is not None:
            why = f"the loss fell by {rates[1]:.4g} a second, by {rates[0]:.4g} {self._descent.delta} epochs before"
        if self.widths is not None and rates is not None and self.widths.move(wider=slower):
            self._say(epoch, f"base width {self.widths.base}", why)
        if self.pipeline is not None:
            self._switch(epoch, self.pipeline, slower, why)

    def _switch(self, epoch: int, pipeline: Pipeline, slower: bool, why: str) -> None:
        self._stale = 0 if pipeline.fresh or epoch == 0 else self._stale + 1
        late = self._stale >= self.bound
        fresh = slower or late
        if fresh != pipeline.fresh:
            reason = f"{self._stale} stale epochs in a row, {self.bound} are allowed" if late and not slower else why
            self._say(epoch, "fresh rows" if fresh else "rows of the epoch before", reason)
        pipeline.fresh = fresh

    def _say(self, epoch: int, what: str, why: str) -> None:
        self.decisions.append({"epoch": epoch + 1, "what": what, "why": why})
