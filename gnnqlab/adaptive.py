"""Callbacks: components that act between epochs of a training, with one base class, :class:`Adaptive`.

A part has callbacks if its settings alone do not determine every epoch (AdaQP's assigner, SYLVIE's base bit-width and
pipeline, the ε of a cache). The component built from it for one worker then has a method

    adaptives(training: Training) -> Sequence[Adaptive]

and the trainer, the loop, checkpoints and records iterate over all callbacks without special cases. In an epoch t

1. ``values_to_reduce`` and ``has_update`` are called before the backward pass: scalars to be summed or maximised over
   workers are all-reduced together with the weight gradients;
2. ``share_updates`` is called after the step if any worker has an update, then ``after_epoch``, on all workers;
3. ``observe`` receives the messages of the epoch, ``entries`` and ``tables`` are written to files, and ``state`` is
   saved if a checkpoint is due.

A user-defined part needs no registration: its method ``adaptives`` is enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor

from gnnqlab.axis_part import RenamedMembers, Running, complete
from gnnqlab.worker_context import WorkerContext

__all__ = ["ASSIGNMENTS", "DECISIONS", "Adaptive", "Entry", "Follower", "Sharing", "State", "Training", "adaptives_of"]

ASSIGNMENTS = "assignments.jsonl"
"""File of a run with one line per assignment of bit-widths (``run.assignments``, ``run.links``)."""
DECISIONS = "decisions.jsonl"
"""File of a run with one line per decision (``run.decisions``): ``epoch`` (first of its effect), ``what``, ``why``."""

Entry = tuple[str, dict[str, Any]]
"""File (``ASSIGNMENTS`` or ``DECISIONS``), and one of its lines as plain JSON."""
Sharing = Literal["sum", "max"]


@dataclass(frozen=True, eq=False)
class State:
    """State of a callback in a checkpoint."""

    facts: dict[str, Any] = field(default_factory=dict)
    """Plain JSON; that of rank 0 is saved."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """Tensors identical on all workers; those of rank 0 are saved."""
    own: dict[str, Tensor] | None = None
    """Tensors that differ between workers, under unique names: those of all workers are saved.
    ``None``, on every worker, if there are none."""


class Adaptive(RenamedMembers):
    """Base class of callbacks on one worker; a subclass overrides the methods that it needs.

    All workers have the same callbacks in the same order, and the shared values must lead to the same decisions:
    sender and receiver of a message do not negotiate its format.
    """

    renamed: ClassVar[dict[str, str]] = {
        "wants": "reductions", "counted": "receive_score_counts", "says": "values_to_reduce", "news": "has_update",
        "follow": "share_updates",
    }  # fmt: skip
    name: str = ""
    """Unique name of the callback within a training, also for its state in a checkpoint."""
    decides: ClassVar[bool] = True
    """True if it acts after an epoch; its time is the phase ``assign`` of the epoch's timer."""
    wants_accuracy: ClassVar[bool] = False
    """True to receive the counts of this worker's training score in every training pass."""
    by_seconds: ClassVar[bool] = False
    """True if it decides by measured seconds, so that a simulation cannot repeat its decisions."""
    needs_processes: ClassVar[bool] = False
    """True if it communicates between processes, which the threads of a simulation are not."""
    sent_bytes: int | None = None
    """Bytes that this worker has added to collectives so far, recorded as ``bytes_bases``; ``None``: not counted."""
    reductions: Mapping[str, Sharing] = MappingProxyType({})  # read-only, because all subclasses share it
    """Requested reductions over all workers: name -> ``sum`` or ``max``."""

    def receive_score_counts(self, right: float, rows: float) -> None:
        """Receive numerator and denominator of this worker's training score, if ``wants_accuracy``.

        Args:
            right: correctly classified training nodes; for a multi-label graph twice the true positives.
            rows: all training nodes; twice the true positives plus false positives and false negatives.
        """

    def values_to_reduce(self, epoch_s: float | None) -> Mapping[str, float | None]:
        """Return this worker's values for the requested reductions, in every epoch; they are sent in float32.

        Args:
            epoch_s: seconds of this worker's previous epoch; ``None`` if it is not comparable with others.

        Returns:
            A number for every name in ``reductions``; for a ``max`` also ``None``, if the value is unknown.
        """
        return {}

    def has_update(self) -> bool:
        """Return True if this worker has an update for all workers before the next epoch; called once per epoch."""
        return False

    def share_updates(self, epoch: int) -> None:
        """Share updates after an epoch in which any worker has one; called on all workers, so it may communicate."""

    def after_epoch(self, epoch: int, loss: float, shared: Mapping[str, float | None]) -> None:
        """Decide about the next epoch.

        Args:
            epoch: the epoch that has ended.
            loss: its loss, summed over all workers.
            shared: sums and maxima of ``reductions``, identical to the bit on all workers; a maximum is ``None`` if the
                value of any worker is unknown.
        """

    def observe(self, arrivals: Sequence[Any]) -> None:
        """Receive the records of an epoch's messages: one ``message.incoming.Arrival`` per received message."""

    def entries(self) -> Sequence[Entry]:
        """Return the decisions since the last call, with their reasons; those of rank 0 are written to files."""
        return ()

    def tables(self) -> Mapping[str, Mapping[str, Tensor]]:
        """Return this worker's tables that changed since the last call; ``NAME`` is written to ``NAME-rankR.npz``."""
        return {}

    def notes(self) -> Mapping[str, Any]:
        """Return entries of the run's facts as plain JSON, after set-up."""
        return {}

    def state(self) -> State:
        """Return the state for a checkpoint; called on all workers, so it may communicate."""
        return State()

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that :meth:`state` returned; ``tensors`` includes those in ``own`` of all workers."""

    def steer(self, settings: Any, *, version: int) -> None:
        """Apply changed settings of its part, on all workers between the same two epochs.

        A part lists the settings that can change during training in ``steerable``.
        """

    def close(self) -> None:
        """Wait until no task of this callback is pending."""


class _Steerable(Protocol):
    def steer(self, settings: Any, *, version: int) -> None: ...


class Follower(Adaptive):
    """Callback that makes no decisions, but passes changed settings to a component.

    Args:
        name: of the axis.
        followed: the component with the settings.
    """

    decides = False

    def __init__(self, name: str, followed: _Steerable) -> None:
        self.name, self.followed = name, followed

    def steer(self, settings: Any, *, version: int) -> None:
        self.followed.steer(settings, version=version)


def _same_component(part: Any, direction: str) -> Any:
    return part


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """Components of a training that callbacks on one worker can use.

    Fields with objects of higher layers have loose types, so that parts of every layer can use this class.
    """

    worker: WorkerContext
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Axis -> component built from its part, in the order of the axes; some may be pairs, see :meth:`part`."""
    of_direction: Callable[[Any, str], Any] = _same_component
    """Selects one direction of a pair."""
    shard: Any = None
    """Share of this worker in the graph."""
    distributed: bool = False
    """True if there are other workers, in a process group."""
    transport: str = "direct"
    """Name of the transport of training messages."""
    time_links: Callable[[int], dict[int, list[tuple[int, float]]]] = lambda largest: {}  # one worker: no links
    """Function that times messages of up to ``largest`` bytes between all workers, called on all of them together:
    sender -> ``(bytes, seconds)`` as measured by this worker."""
    phases: Callable[[str], AbstractContextManager[object]] = nullcontext
    """Timer of the epoch, for phases in which a callback waits for other workers."""
    adaptives: dict[str, Adaptive] = field(default_factory=dict)
    """Callbacks of preceding axes by name, for callbacks that use their results."""

    def part(self, axis: str, direction: str | None = None) -> Any:
        """Return the component of an axis, for instance ``part("exchange").channels``, which hold the traces.

        Args:
            axis: name of the axis.
            direction: ``forward`` or ``backward``, if each has its own component; by default that of the worker
                context, else ``forward``.
        """
        return self.of_direction(self.parts[axis], direction or self.worker.direction or "forward")


def adaptives_of(training: Training) -> dict[str, list[Adaptive]]:
    """Collect the callbacks of every axis.

    Raises:
        ValueError: if two have the same name.
    """
    callbacks: dict[str, list[Adaptive]] = {}
    for axis in training.parts:  # in the order of the axes, identical on all workers
        callbacks[axis] = []
        for component, component_training in _halves(training, axis):
            complete(component, Running)  # a user's component may lack the base class
            for adaptive in component.adaptives(component_training):
                if not adaptive.name or adaptive.name in training.adaptives:
                    raise ValueError(
                        f"callbacks must have unique names, got {adaptive.name!r} on the axis {axis!r} after "
                        f"{sorted(training.adaptives)}"
                    )
                training.adaptives[adaptive.name] = adaptive  # at once, for the callbacks of later axes
                callbacks[axis].append(adaptive)
    return callbacks


def _halves(training: Training, axis: str) -> list[tuple[Any, Training]]:
    """Return the components of an axis, one or one per direction, each with the training for its callbacks."""
    forward, backward = (training.part(axis, direction) for direction in ("forward", "backward"))
    if forward is backward:  # one component for both directions has its callbacks once
        return [(forward, training)]
    contexts = [dataclasses.replace(training.worker, direction=direction) for direction in ("forward", "backward")]
    return [(part, dataclasses.replace(training, worker=worker)) for part, worker in zip((forward, backward), contexts)]
