"""Learning rate of every epoch: constant, cosine, in steps, on a plateau of the validation score, or a user's function.

A schedule is a factor of the initial rate ``lr``. All workers compute it from the epoch and from scores that are equal
on all of them, hence without communication.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gnnqlab.by_name import function_of

__all__ = ["SCHEDULES", "LearningRate", "schedule_function"]

SCHEDULES = ("constant", "cosine", "step", "plateau")


class LearningRate:
    """Learning rate of a training by epoch.

    With initial rate ``lr``, epoch ``t`` of ``T``, and warm-up over ``W`` epochs, the rate is ``lr min(1, (t + 1) / W)
    f(t)``, where ``f`` is

    * ``constant``: 1;
    * ``cosine``: ``(1 + cos(pi t / T)) / 2`` (Loshchilov & Hutter, 2017, without restarts);
    * ``step``: ``lr_factor ** (t // lr_period)``;
    * ``plateau``: ``lr_factor ** n`` after ``n`` times ``lr_period`` epochs without a better validation score;
    * ``module:function``: its result for ``(t, T)``.

    Args:
        lr: the initial rate.
        epochs: of the training, T.
        schedule: one of ``SCHEDULES``, or a user's function as ``module:function``.
        period, factor: ``lr_period`` and ``lr_factor``.
        warmup_epochs: W; 0 for none.

    Example:
        >>> rate = LearningRate(0.1, epochs=6, schedule="step", period=2, factor=0.5)
        >>> [round(rate.value(epoch), 4) for epoch in range(6)]
        [0.1, 0.1, 0.05, 0.05, 0.025, 0.025]
    """

    def __init__(
        self,
        lr: float,
        *,
        epochs: int,
        schedule: str = "constant",
        period: int = 50,
        factor: float = 0.5,
        warmup_epochs: int = 0,
    ) -> None:
        self._lr, self._epochs, self._schedule = lr, epochs, schedule
        self._period, self._decay, self._warmup_epochs = period, factor, warmup_epochs
        self._function = None if schedule in SCHEDULES else schedule_function(schedule)
        self._num_decays, self._decay_epoch = 0, 0

    @property
    def is_constant(self) -> bool:
        """True if all epochs have the initial rate."""
        return self._schedule == "constant" and self._warmup_epochs == 0

    def value(self, epoch: int) -> float:
        """Return the learning rate of an epoch.

        Raises:
            ValueError: if a user's function does not return a number of at least 0.
        """
        warm_up = min(1.0, (epoch + 1) / self._warmup_epochs) if self._warmup_epochs else 1.0
        return self._lr * warm_up * self._factor(epoch)

    def evaluated(self, epoch: int, waited_epochs: int) -> None:
        """Decrease the rate on a plateau.

        Args:
            epoch: with an evaluation.
            waited_epochs: epochs since the best validation score.
        """
        if self._schedule == "plateau":
            # Every decay begins a new period, since a smaller rate needs time to show an effect.
            if min(waited_epochs, epoch - self._decay_epoch) >= self._period:
                self._num_decays, self._decay_epoch = self._num_decays + 1, epoch

    def state(self) -> dict[str, int]:
        """Return the state for a checkpoint, as plain JSON."""
        return {"num_decays": self._num_decays, "decay_epoch": self._decay_epoch}

    def load(self, state: dict[str, int]) -> None:
        """Restore the state of a checkpoint."""
        self._num_decays, self._decay_epoch = state["num_decays"], state["decay_epoch"]

    def _factor(self, epoch: int) -> float:
        if self._function is not None:
            factor = self._function(epoch, self._epochs)
            if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < math.inf:
                raise ValueError(
                    f"a schedule of the learning rate must return a finite factor of at least 0, got {factor!r} of "
                    f"{self._schedule} in epoch {epoch}; the rate is the setting lr times this factor"
                )
            return float(factor)
        if self._schedule == "cosine":
            return (1.0 + math.cos(math.pi * epoch / self._epochs)) / 2.0
        if self._schedule == "step":
            return float(self._decay ** (epoch // self._period))
        return float(self._decay**self._num_decays)  # 1 without a plateau


def schedule_function(name: str) -> Callable[[int, int], float]:
    """Return the user's function of a schedule ``module:function``.

    Raises:
        ValueError: if there is no such function.
    """
    function: Callable[[int, int], float] = function_of("lr_schedule", name, SCHEDULES, "(epoch, epochs)")
    return function
