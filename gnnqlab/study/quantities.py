"""Quantities of a claim: one number from the results of a system and of its baseline with the same seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gnnqlab.study.result import MARGIN, RunResult

__all__ = ["QUANTITIES", "Quantity"]

Quantity = Callable[[RunResult, RunResult], float]
"""``(system, baseline) -> number``."""


def communication_share(result: RunResult) -> float:
    """Compute the share of communication in a median epoch, in per cent.

    Example:
        >>> communication_share(RunResult(score=0.9, communication_s=3.0, computation_s=1.0))
        75.0
    """
    return 100 * result.communication_s / (result.communication_s + result.computation_s)


def epochs_to_accuracy(system: RunResult, baseline: RunResult) -> float:
    """Compute the epochs to the baseline's best validation score less half a point, relative to the baseline's.

    Infinite if the system does not reach it.

    Example:
        >>> fast = RunResult(score=0.9, curve=((1, 1.0, 0.5), (2, 2.0, 0.9)))
        >>> slow = RunResult(score=0.9, curve=((1, 1.0, 0.5), (4, 2.0, 0.9)))
        >>> epochs_to_accuracy(slow, fast), epochs_to_accuracy(RunResult(score=0.1), fast)
        (2.0, inf)
    """
    target = baseline.best - MARGIN
    epochs = system.epochs_to(target)
    return epochs / baseline.epochs_to(target) if epochs == epochs else float("inf")  # NaN: not reached


def _saved(system_s: float, baseline_s: float) -> float:
    return 100 * (1 - system_s / baseline_s)  # % of the baseline's


QUANTITIES: Mapping[str, Quantity] = {
    "throughput": lambda system, baseline: baseline.settled_s() / system.settled_s(),
    "training": lambda system, baseline: baseline.train_s / system.train_s,
    "epoch saved": lambda system, baseline: _saved(system.settled_s(), baseline.settled_s()),
    "communication saved": lambda system, baseline: _saved(system.communication_s, baseline.communication_s),
    "communication share": lambda system, baseline: communication_share(system),
    "communication share, difference": lambda system, baseline: (
        communication_share(system) - communication_share(baseline)
    ),
    "assignment": lambda system, baseline: 100 * system.assign_s / system.train_s,
    "fewer bytes": lambda system, baseline: baseline.bytes_sent / system.bytes_sent,
    "score": lambda system, baseline: 100 * (system.score - baseline.score),
    "epochs to accuracy": epochs_to_accuracy,
}
"""Name -> quantity. Seconds are of settled epochs, the second half of a training; scores are in points."""
