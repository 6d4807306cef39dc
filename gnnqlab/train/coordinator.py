"""SYLVIE's Coordinator: one place decides about widths and staleness, and says why (sections V-A to V-C).

All it looks at is the same on every worker: the summed loss and the longest epoch, which came with the weight
gradients (``reduction.py``). So all decide alike, and nobody is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.exchange.pipeline import AdaptivePipeline, Pipeline

__all__ = ["Coordinator", "Descent"]


class Descent:
    """How fast the loss falls, beside how fast it fell δ epochs ago.

    ``F_t = λ F_(t-1) + (1 - λ) L_t`` and ``LDR_t = (F_(t-1) - F_t) / et_t`` with the time ``et_t`` of epoch t.

    Differs: the paper prints ``(F_t - F_(t-1)) / et_t``, which is negative while the loss falls, against its own text
    (erratum SY-1).

    Differs: ``et_t`` is the time of epoch t - 1, because the seconds travel with the weight gradients of epoch t, and
    a worker must know them before these are summed. It is the time in which the loss fell: L_t is found before the step
    of epoch t. The first epoch also sets things up and counts nowhere; the one after it stands in.

    Args:
        momentum: λ.
        delta: δ, in epochs.
    """

    def __init__(self, momentum: float, delta: int) -> None:
        self.momentum, self.delta = momentum, delta
        self.loss: float | None = None
        """F."""
        self.epoch_s: float | None = None
        """Seconds that were told last."""
        self._falls: deque[float] = deque(maxlen=delta + 1)
        self._seconds: deque[float | None] = deque(maxlen=delta + 1)

    @property
    def rates(self) -> list[float]:
        """``LDR_(t-δ)`` to ``LDR_t``; fewer in the first epochs, and none while no time is known."""
        return [fall / max(epoch_s, 1e-9) for fall, epoch_s in zip(self._falls, self._seconds) if epoch_s is not None]

    def add(self, loss: float, epoch_s: float | None) -> tuple[float, float] | None:
        """Take an epoch's loss and how long it took to get there; return ``(LDR_(t-δ), LDR_t)``.

        Args:
            loss: ``L_t``.
            epoch_s: seconds of the epoch that led to it; ``None`` if nobody knows: those told last, or else next.

        Returns:
            ``None`` in the first δ + 1 epochs.

        Example:
            >>> descent = Descent(momentum=0.0, delta=1)
            >>> [descent.add(loss, epoch_s=1.0) for loss in (4.0, 2.0, 1.0)]
            [None, None, (2.0, 1.0)]
        """
        before, momentum = self.loss, self.momentum
        self.loss = loss if before is None else momentum * before + (1 - momentum) * loss
        if self.epoch_s is None and epoch_s is not None:
            self._seconds = deque([epoch_s] * len(self._seconds), maxlen=self.delta + 1)
        self.epoch_s = self.epoch_s if epoch_s is None else epoch_s
        if before is not None:
            self._falls.append(before - self.loss)
            self._seconds.append(self.epoch_s)
        rates = self.rates
        return (rates[0], rates[-1]) if len(rates) > self.delta else None

    def state(self) -> dict[str, Any]:
        """Return all of it as plain JSON."""
        falls, seconds = list(self._falls), list(self._seconds)
        kept = {"momentum": self.momentum, "delta": self.delta, "loss": self.loss, "epoch_s": self.epoch_s}
        return {**kept, "falls": falls, "seconds": seconds}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Descent:
        """Return what :meth:`state` was taken from.

        Example:
            >>> descent = Descent(momentum=0.5, delta=1)
            >>> told = [descent.add(loss, 2.0) for loss in (8.0, 4.0)]
            >>> Descent.of(descent.state()).add(2.0, 2.0) == descent.add(2.0, 2.0)
            True
        """
        descent = cls(state["momentum"], state["delta"])
        descent.loss, descent.epoch_s = state["loss"], state["epoch_s"]
        descent._falls.extend(state["falls"])
        descent._seconds.extend(state["seconds"])
        return descent


_Rates = tuple[float, float] | None
"""``(LDR_(t-δ), LDR_t)``."""


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

    def after_epoch(self, epoch: int, loss: float, epoch_s: float | None) -> None:
        """Decide about the next epoch; every worker must be told the same.

        Args:
            epoch: the one that has ended.
            loss: its loss, summed over all workers.
            epoch_s: seconds of the epoch before it on the slowest worker; ``None`` if nobody knows.
        """
        if self.widths is not None:
            self.obey(self.widths.settings)  # they can be steered
        rates = self._descent.add(loss, epoch_s)
        settings = Orchestrated() if self.widths is None else self.widths.settings
        careful = rates is not None and settings.widens(*rates)
        why = "there is no earlier rate to compare with yet"
        if rates is not None:
            why = f"the loss fell by {rates[1]:.4g} a second, by {rates[0]:.4g} {self._descent.delta} epochs before"
        if self.widths is not None and rates is not None and self.widths.move(wider=careful):
            self._say(epoch, f"base width {self.widths.base}", why, rates)
        if self.pipeline is not None:
            self._switch(epoch, self.pipeline, careful, why, rates)

    def state(self) -> dict[str, Any]:
        """Return what decisions go on from, as plain JSON."""
        base = None if self.widths is None else self.widths.base
        fresh = None if self.pipeline is None else self.pipeline.fresh
        return {"descent": self._descent.state(), "stale": self._stale, "base": base, "fresh": fresh}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned.

        Rows under way are not kept, so the next epoch is a fresh one whatever was decided; it counts as a stale one if
        it was to be one. So decisions go on as they would have, and the bound holds all the more.
        """
        self._descent, self._stale = Descent.of(state["descent"]), state["stale"]
        if self.widths is not None:
            self.widths.base = state["base"]
        if self.pipeline is not None:
            self.pipeline.fresh = state["fresh"]

    def _switch(self, epoch: int, pipeline: Pipeline, careful: bool, why: str, rates: _Rates) -> None:
        self._stale = 0 if pipeline.fresh or epoch == 0 else self._stale + 1
        late = self._stale >= self.bound
        fresh = careful or late
        if fresh != pipeline.fresh:
            reason = f"{self._stale} stale epochs in a row, {self.bound} are allowed" if late and not careful else why
            self._say(epoch, "fresh rows" if fresh else "rows of the epoch before", reason, rates)
        pipeline.fresh = fresh

    def _say(self, epoch: int, what: str, why: str, rates: _Rates) -> None:
        earlier, rate = rates or (None, None)
        self.decisions.append(
            {
                "epoch": epoch + 1,
                "what": what,
                "why": why,
                "rate": rate,
                "earlier_rate": earlier,
                "F": self._descent.loss,
            }
        )
