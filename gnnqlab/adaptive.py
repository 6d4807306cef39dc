"""What changes between two epochs while a training goes on: one protocol for all that adapts.

A part whose settings alone do not say what happens in every epoch (AdaQP's assigner, SYLVIE's base width and its
pipeline, the ε of a cache) adapts. What is built of it for one worker then has a method

    adaptives(training: Training) -> Sequence[Adaptive]

and the trainer, the loop, checkpoints and records go through what they are given and know no single one. In an epoch t

1. ``says`` and ``news`` are asked before the backward pass: numbers to be summed over workers, or of which the largest
   counts, travel with the weight gradients;
2. ``follow`` is called after the step if anybody had news, then ``after_epoch``, on all workers alike;
3. ``observe`` is told which messages came, ``entries`` and ``tables`` are written down, and where a checkpoint is due
   ``state`` is taken.

A part of one's own needs nothing else: it is found by its method, wherever it is defined.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor

from gnnqlab.axis_part import Running, complete
from gnnqlab.worker_context import WorkerContext

__all__ = ["ASSIGNMENTS", "DECISIONS", "Adaptive", "Entry", "Follower", "Sharing", "State", "Training", "adaptives_of"]

ASSIGNMENTS = "assignments.jsonl"
"""Of a run: one line an assignment of widths (``run.assignments``, ``run.links``)."""
DECISIONS = "decisions.jsonl"
"""Of a run: one line a decision (``run.decisions``): ``epoch``, the first in which it holds, ``what`` and ``why``."""

Entry = tuple[str, dict[str, Any]]
"""(``ASSIGNMENTS`` or ``DECISIONS``, a line of it as plain JSON)."""
Sharing = Literal["sum", "max"]


@dataclass(frozen=True, eq=False)
class State:
    """What of an adaptive has to survive it."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Plain JSON; rank 0's is kept."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """The same on every worker; rank 0's are kept."""
    own: dict[str, Tensor] | None = None
    """Tensors of which every worker has others, under names that no other worker uses: those of all are kept.
    ``None``, on every worker, if there are none."""


class Adaptive:
    """Something that adapts, on one worker; whoever adapts inherits and says what it needs of this.

    All workers have the same adaptives in the same order, and what they share must bring them to the same decisions:
    sender and receiver of a message never ask each other.
    """

    name: str = ""
    """Tells it from the others of a training; its state in a checkpoint goes by it."""
    decides: ClassVar[bool] = True
    """Whether it does something after an epoch. What it takes is the phase ``assign`` of the epoch's clock."""
    wants_accuracy: ClassVar[bool] = False
    """Whether it is told how much of this worker's training rows each training pass got right."""
    by_seconds: ClassVar[bool] = False
    """True if it decides by measured seconds, so that no simulation repeats its decisions."""
    wants: Mapping[str, Sharing] = MappingProxyType({})
    """What it wants to know of all workers: name -> ``sum``, or ``max``."""

    def counted(self, right: float, rows: float) -> None:
        """Take the parts of this worker's training score, if ``wants_accuracy``; sums over workers give the score.

        Args:
            right: training rows that the pass got right; of a multi-label graph twice the true positives.
            rows: all training rows; twice the true positives plus both kinds of wrong labels.
        """

    def says(self, epoch_s: float | None) -> Mapping[str, float | None]:
        """Return this worker's values of what it wants shared, in every epoch; they travel in float32.

        Args:
            epoch_s: seconds that this worker took for the epoch before; ``None`` if that one was not like the others.

        Returns:
            A number for every name in ``wants``; of a ``max`` also ``None``: this worker does not know.
        """
        return {}

    def news(self) -> bool:
        """Return whether this worker has something that all must be told before the next epoch; asked once an epoch."""
        return False

    def follow(self, epoch: int) -> None:
        """Share the news after an epoch in which anybody had some; all workers are here together."""

    def after_epoch(self, epoch: int, loss: float, shared: Mapping[str, float | None]) -> None:
        """Decide about the next epoch.

        Args:
            epoch: the one that has ended.
            loss: its loss, summed over all workers.
            shared: sums and maxima of ``wants``, bit for bit the same on every worker; a maximum is ``None`` if any
                worker did not know.
        """

    def observe(self, arrivals: Sequence[Any]) -> None:
        """Take what an epoch's messages took: one ``message.incoming.Arrival`` for each that came."""

    def entries(self) -> Sequence[Entry]:
        """Return what was decided since the last call, and why; rank 0's is written down."""
        return ()

    def tables(self) -> Mapping[str, Mapping[str, Tensor]]:
        """Return this worker's tables that have changed since the last call: ``NAME`` goes to ``NAME-rankR.npz``."""
        return {}

    def notes(self) -> Mapping[str, Any]:
        """Return what the facts of a run shall say, as plain JSON, once it is set up."""
        return {}

    def state(self) -> State:
        """Return what it goes on from after a checkpoint; all workers are here together."""
        return State()

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Go on from what :meth:`state` returned; ``tensors`` holds the own ones of all workers too."""

    def steer(self, settings: Any, *, version: int) -> None:
        """Put other settings of its part in force, on all workers between the same two epochs.

        A part names those of its settings that can change while it trains in ``steerable``.
        """

    def close(self) -> None:
        """Return when nothing of it is under way any more."""


class _Steerable(Protocol):
    def steer(self, settings: Any, *, version: int) -> None: ...


class Follower(Adaptive):
    """Decides nothing: puts settings in force that somebody else has changed.

    Args:
        name: of the axis.
        followed: what has the settings.
    """

    decides = False

    def __init__(self, name: str, followed: _Steerable) -> None:
        self.name, self.followed = name, followed

    def steer(self, settings: Any, *, version: int) -> None:
        self.followed.steer(settings, version=version)


def _whole(part: Any, direction: str) -> Any:
    return part


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """What a training has to offer to what adapts with it, on one worker.

    Fields that hold things of rooms above are typed loosely, so that parts of every room can be told of them.
    """

    worker: WorkerContext
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Axis -> what runs of its part here, in the order of the axes; some may be pairs, see :meth:`part`."""
    of_direction: Callable[[Any, str], Any] = _whole
    """Takes a pair apart."""
    shard: Any = None
    """This worker's share of the graph."""
    distributed: bool = False
    """Whether there are others, in a process group."""
    transport: str = "direct"
    """Name of the transport of training's messages."""
    time_links: Callable[[int], dict[int, list[tuple[int, float]]]] = lambda largest: {}
    """Times messages of up to so many bytes between all workers, together: sender -> ``(bytes, seconds)`` as this
    worker saw them."""
    phases: Callable[[str], AbstractContextManager[object]] = nullcontext
    """The epoch's clock, to be told when this worker waits for others."""
    adaptives: dict[str, Adaptive] = field(default_factory=dict)
    """By name: those of the axes before, for whoever decides by what another has found out."""

    def part(self, axis: str, direction: str | None = None) -> Any:
        """Return what runs of a part, for instance ``part("exchange").channels``, which hold the traces.

        Args:
            axis: the part's.
            direction: the one that is meant where each has its own; by default that of the seat.
        """
        return self.of_direction(self.parts[axis], direction or self.worker.direction or "forward")


def adaptives_of(training: Training) -> dict[str, list[Adaptive]]:
    """Return what adapts, axis by axis, asked of everything that runs.

    Raises:
        ValueError: if two go by one name.
    """
    found: dict[str, list[Adaptive]] = {}
    for axis in training.parts:
        found[axis] = []
        for built, offered in _halves(training, axis):
            complete(built, Running)
            for adaptive in built.adaptives(offered):
                if not adaptive.name or adaptive.name in training.adaptives:
                    raise ValueError(
                        f"what adapts needs a name of its own, got {adaptive.name!r} on the axis {axis!r} beside "
                        f"{sorted(training.adaptives)}"
                    )
                training.adaptives[adaptive.name] = adaptive
                found[axis].append(adaptive)
    return found


def _halves(training: Training, axis: str) -> list[tuple[Any, Training]]:
    """Return what runs of an axis, and what it is offered: of one direction, where each has its own."""
    forward, backward = (training.part(axis, direction) for direction in ("forward", "backward"))
    if forward is backward:
        return [(forward, training)]
    seats = [dataclasses.replace(training.worker, direction=direction) for direction in ("forward", "backward")]
    return [(built, dataclasses.replace(training, worker=worker)) for built, worker in zip((forward, backward), seats)]
