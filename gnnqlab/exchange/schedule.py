"""The axis ``schedule``: in which order the five verbs of an exchange run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Overlapped", "Schedule", "Step", "Synchronous"]


class Step(Protocol):
    """One layer's aggregation in one direction, as five verbs; an exchange says what each does."""

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


class Schedule(Protocol):
    """Runs the verbs of a step."""

    def run(self, step: Step) -> None:
        """Run every verb of ``step`` once."""


@dataclass(frozen=True)
class Synchronous:
    """Communicate, then compute: the schedule of Vanilla."""

    def run(self, step: Step) -> None:
        step.prepare()
        step.post()
        step.wait()
        step.independent()
        step.dependent()


@dataclass(frozen=True)
class Overlapped:
    """Compute what needs no other worker while rows are under way (AdaQP section 3.2, Fig. 7).

    Forward, central rows are multiplied while boundary rows travel; backward, the gradients of halo rows are
    computed first and travel while the gradients of owned rows are computed.
    """

    def run(self, step: Step) -> None:
        step.prepare()
        step.post()
        step.independent()
        step.wait()
        step.dependent()
