"""Loss descent rate, by which SYLVIE decides on bit-widths and staleness (sections V-A to V-C)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from gnnqlab.adaptive import DECISIONS, Adaptive, Entry, Sharing, State, Training

__all__ = ["Comparing", "Descent", "Verdict", "Watch"]


class Descent:
    """Loss descent rate (LDR) of each epoch, compared with that of δ epochs ago.

    ``F_t = λ F_(t-1) + (1 - λ) L_t`` and ``LDR_t = (F_(t-1) - F_t) / et_t`` with the time ``et_t`` of epoch t.

    Differs: the paper prints ``(F_t - F_(t-1)) / et_t``, which is negative while the loss falls, against its own text
    (erratum SY-1).

    Differs: ``et_t`` is the time of epoch t - 1, because the seconds are all-reduced together with the weight gradients
    of epoch t and must be known before. It is the time in which the loss fell: L_t is computed before the step of
    epoch t. The first epoch includes set-up, so its time is not used; that of the next epoch replaces it.

    Args:
        momentum: λ.
        delta: δ, in epochs.
    """

    def __init__(self, momentum: float, delta: int) -> None:
        self.momentum, self.delta = momentum, delta
        self.loss: float | None = None
        """F."""
        self.epoch_s: float | None = None
        """Last known seconds of an epoch."""
        self._falls: deque[float] = deque(maxlen=delta + 1)  # of the epochs t - δ to t
        self._seconds: deque[float | None] = deque(maxlen=delta + 1)

    @property
    def rates(self) -> list[float]:
        """``LDR_(t-δ)`` to ``LDR_t``; fewer in the first epochs, and none while no time is known."""
        # 1e-9 s prevents a division by zero with a coarse clock.
        return [fall / max(epoch_s, 1e-9) for fall, epoch_s in zip(self._falls, self._seconds) if epoch_s is not None]

    def add(self, loss: float, epoch_s: float | None) -> tuple[float, float] | None:
        """Add the loss and the time of an epoch; return ``(LDR_(t-δ), LDR_t)``.

        Args:
            loss: ``L_t``.
            epoch_s: seconds of the epoch that led to it; ``None`` if unknown: the last known ones are used, or else the
                next.

        Returns:
            ``None`` in the first δ + 1 epochs.

        Example:
            >>> descent = Descent(momentum=0.0, delta=1)
            >>> [descent.add(loss, epoch_s=1.0) for loss in (4.0, 2.0, 1.0)]
            [None, None, (2.0, 1.0)]
        """
        earlier_loss, momentum = self.loss, self.momentum
        # F_t = λ F_(t-1) + (1 - λ) L_t, with F_0 = L_0.
        self.loss = loss if earlier_loss is None else momentum * earlier_loss + (1 - momentum) * loss
        if self.epoch_s is None and epoch_s is not None:
            # The first known time replaces the unknown ones before it.
            self._seconds = deque([epoch_s] * len(self._seconds), maxlen=self.delta + 1)
        self.epoch_s = self.epoch_s if epoch_s is None else epoch_s
        if earlier_loss is not None:
            self._falls.append(earlier_loss - self.loss)
            self._seconds.append(self.epoch_s)
        rates = self.rates
        return (rates[0], rates[-1]) if len(rates) > self.delta else None

    def state(self) -> dict[str, Any]:
        """Return the complete state as plain JSON."""
        falls, seconds = list(self._falls), list(self._seconds)
        scalars = {"momentum": self.momentum, "delta": self.delta, "loss": self.loss, "epoch_s": self.epoch_s}
        return {**scalars, "falls": falls, "seconds": seconds}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Descent:
        """Restore a descent from its :meth:`state`.

        Example:
            >>> descent = Descent(momentum=0.5, delta=1)
            >>> rates = [descent.add(loss, 2.0) for loss in (8.0, 4.0)]
            >>> Descent.from_state(descent.state()).add(2.0, 2.0) == descent.add(2.0, 2.0)
            True
        """
        descent = cls(state["momentum"], state["delta"])
        descent.loss, descent.epoch_s = state["loss"], state["epoch_s"]
        descent._falls.extend(state["falls"])
        descent._seconds.extend(state["seconds"])
        return descent


Rates = tuple[float, float]
"""``(LDR_(t-δ), LDR_t)``."""


class Comparing(Protocol):
    """Settings for the comparison of descent rates; ``Orchestrated`` has them."""

    @property
    def momentum(self) -> float: ...
    @property
    def delta(self) -> int: ...
    def widens(self, earlier: float, rate: float) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of comparing descent rates after an epoch."""

    careful: bool
    """True if Eq. 5 calls for more precision: more bits, and fresh rows in place of stale ones."""
    reason: str
    rates: Rates | None
    """The two rates; ``None`` while there is no earlier one."""
    running_loss: float | None
    """F."""

    def entry(self, epoch: int, what: str, reason: str = "") -> Entry:
        """Return the log entry of a decision after an epoch; ``reason`` replaces the reason of this verdict."""
        earlier_rate, rate = self.rates or (None, None)
        line = {"epoch": epoch + 1, "what": what, "why": reason or self.reason}
        return DECISIONS, {**line, "rate": rate, "earlier_rate": earlier_rate, "F": self.running_loss}


class Watch(Adaptive):
    """Callback that compares descent rates for the components that use them: SYLVIE's Coordinator without decisions.

    Its inputs, the summed loss and the longest epoch, are identical on every worker. So all workers get the same result
    without further communication.

    Args:
        settings: of the comparison.
        extract_s: seconds in which all workers' shards computed the nodes' importance; NaN if unknown.
    """

    by_seconds = True
    reductions: Mapping[str, Sharing] = {"epoch_s": "max"}

    def __init__(self, settings: Comparing, *, name: str = "descent", extract_s: float = math.nan) -> None:
        self.name = name
        self.settings = settings
        self.verdict: Verdict
        """Verdict of the last epoch."""
        self._descent = Descent(settings.momentum, settings.delta)
        self._extract_s = extract_s

    @classmethod
    def from_training(cls, settings: Comparing, training: Training) -> Watch:
        """Create the watch of a training."""
        # The importance of nodes needs the whole graph, so it is computed for one shard after another: times add up.
        extract_s = getattr(training.shard, "extract_s", math.nan) * training.worker.workers
        return cls(settings, name=training.worker.named("descent"), extract_s=extract_s)

    def values_to_reduce(self, epoch_s: float | None) -> dict[str, float | None]:
        return {"epoch_s": epoch_s}

    def after_epoch(self, epoch: int, loss: float, shared: Mapping[str, float | None]) -> None:
        """Compare the rates; ``epoch_s``: time of the epoch before on the slowest worker, if known on all workers."""
        rates = self._descent.add(loss, shared["epoch_s"])
        is_careful, reason = False, "there is no earlier rate to compare with yet"
        if rates is not None:
            is_careful = self.settings.widens(*rates)
            reason = f"the loss fell by {rates[1]:.4g} a second; {self._descent.delta} epochs before, by {rates[0]:.4g}"
        self.verdict = Verdict(careful=is_careful, reason=reason, rates=rates, running_loss=self._descent.loss)

    def steer(self, settings: Comparing, *, version: int = 0) -> None:
        """Replace the settings; a new momentum or delta starts again without an earlier rate."""
        self.settings = settings
        # Rates with another λ or δ cannot be compared with earlier ones.
        if (settings.momentum, settings.delta) != (self._descent.momentum, self._descent.delta):
            self._descent = Descent(settings.momentum, settings.delta)

    def notes(self) -> dict[str, float | None]:
        """Return the time of the Graph Extractor: ``extract_s`` in seconds, ``None`` if unknown."""
        return {"extract_s": self._extract_s if math.isfinite(self._extract_s) else None}

    def state(self) -> State:
        return State(self._descent.state())

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._descent = Descent.from_state(facts)
