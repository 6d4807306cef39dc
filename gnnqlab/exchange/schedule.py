"""The axis ``schedule``: in which order the verbs of an exchange run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from torch import Tensor

__all__ = ["Came", "Overlapped", "Place", "Runner", "Schedule", "Step", "Synchronous"]

Place = tuple[int, str]
"""(layer, direction)."""


class Came(Protocol):
    """Rows on their way from other workers."""

    @property
    def sampled_in(self) -> int | None:
        """Epoch whose sample of rows this is; ``None``: all rows."""

    def arrive(self) -> None:
        """Return when every byte has come."""

    def finish(self) -> Tensor:
        """Return the rows once all have come."""


class Step(Protocol):
    """One layer's aggregation in one direction, as five verbs; an exchange says what each does.

    A schedule that uses rows of an earlier epoch calls ``take`` in place of ``wait``.
    """

    @property
    def came(self) -> Came:
        """What is on its way for this step; there once it has posted."""

    def prepare(self) -> None:
        """Compute what has to travel."""

    def post(self) -> None:
        """Encode it and start moving it."""

    def independent(self) -> None:
        """Compute what needs nothing from other workers."""

    def wait(self) -> None:
        """Take what came."""

    def dependent(self) -> None:
        """Compute what needed it."""

    def take(self, came: Came, rows: Tensor | None = None) -> None:
        """Use what came for the step of an earlier epoch, or ``rows`` that were made of it."""


class Runner(Protocol):
    """Runs the steps of one worker's training."""

    def run(self, step: Step, place: Place) -> None:
        """Run the verbs of ``step``."""

    def release(self) -> Sequence[tuple[Step, Place]]:
        """Return steps whose posts were held back until the weight gradients are summed."""

    def drain(self) -> None:
        """Return when nothing is under way any more."""


class Schedule(Protocol):
    """Recipe part of the axis."""

    lag: ClassVar[int]
    """Epochs between the post of a row and its use, at most."""

    def runner(self) -> Runner:
        """Return what runs this schedule on one worker."""


class _Stateless:
    lag: ClassVar[int] = 0

    def runner(self) -> Self:
        return self

    def release(self) -> Sequence[tuple[Step, Place]]:
        return ()

    def drain(self) -> None:
        pass


@dataclass(frozen=True)
class Synchronous(_Stateless):
    """Communicate, then compute: the schedule of Vanilla."""

    def run(self, step: Step, place: Place | None = None) -> None:
        step.prepare()
        step.post()
        step.wait()
        step.independent()
        step.dependent()


@dataclass(frozen=True)
class Overlapped(_Stateless):
    """Compute what needs no other worker while rows are under way (AdaQP section 3.2, Fig. 7).

    Forward, central rows are multiplied while boundary rows travel; backward, the gradients of halo rows are
    computed first and travel while the gradients of owned rows are computed.
    """

    def run(self, step: Step, place: Place | None = None) -> None:
        step.prepare()
        step.post()
        step.independent()
        step.wait()
        step.dependent()
