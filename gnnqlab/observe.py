"""Events of a training, and observers that receive them.

A worker has one `Observers`, passed to all components that emit events. An event object is created only if an observer
listens to its kind; otherwise an event costs one comparison. Tensors of an event are those of the training: an observer
must clone a tensor to store it. Letters: n rows of a message, D columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from gnnqlab.by_name import load, name_of
from gnnqlab.errors import ObserverFailed

__all__ = [
    "NO_OBSERVERS", "Aggregated", "DecisionMade", "EpochEnded", "MessageDecoded", "MessageEncoded", "NeighboursSummed",
    "Observer", "Observers", "OperationEnded", "OperationStarted", "PhaseEnded", "TensorAllocated", "TensorSaved",
    "observer_name", "observers_named",
]  # fmt: skip

Event = TypeVar("Event")


@dataclass(frozen=True, slots=True, eq=False)
class MessageEncoded:
    """One message of a training pass, as encoded by its sender."""

    rank: int
    """Rank of the sender."""
    epoch: int
    layer: int
    direction: str
    """``forward`` (embeddings) or ``backward`` (their gradients)."""
    round: int
    """Communication round within this layer and direction, from 0."""
    receiver: int
    node_ids: Tensor
    """Global ids of the rows in the message, int64 ``(n,)``."""
    offered_ids: Tensor
    """Global ids of all candidate rows, int64 ``(m,)``: more than ``node_ids`` if a sampler or a cache skips some."""
    values: Tensor
    """Input of the codec, float32 ``(n, D)``: the rows, or their changes if a cache sends differences."""
    bit_widths: Tensor
    """Bits per element of each row, int64 ``(n,)``."""
    num_bytes: int
    """Bytes of payload and quantization parameters."""
    decode: Callable[[], Tensor]
    """Returns the values as the receiver decodes them, float32 ``(n, D)``."""

    @property
    def skipped_ids(self) -> Tensor:
        """Global ids of the rows that were not sent, int64 ``(m - n,)``."""
        return self.offered_ids[~torch.isin(self.offered_ids, self.node_ids)]  # (m,) -> (m - n,)


@dataclass(frozen=True, slots=True, eq=False)
class MessageDecoded:
    """One message of a training pass, as decoded by its receiver."""

    rank: int
    """Rank of the receiver."""
    epoch: int
    """Epoch of the pass that uses the message."""
    layer: int
    direction: str
    round: int
    sender: int
    node_ids: Tensor
    """Global ids of the rows in the message, int64 ``(n,)``."""
    staleness: int
    """Epochs between the sending and the using pass."""
    decode: Callable[[], Tensor]
    """Returns the values of the message, float32 ``(n, D)``."""


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """One aggregation of the forward pass."""

    rank: int
    epoch: int
    layer: int
    input: Tensor
    """Embeddings of owned nodes, float32 ``(N, D)``."""
    output: Tensor
    """Result, float32 ``(N, O)``."""


@dataclass(frozen=True, slots=True, eq=False)
class NeighboursSummed:
    """Weighted sums over neighbours inside one aggregation; not emitted for attention.

    With an observer of these, a convolution computes sum and products separately instead of fused. The tensors are part
    of the autograd graph: ``event.sums.register_hook(...)`` receives a gradient.
    """

    rank: int
    epoch: int
    layer: int
    alpha: str
    """Coefficients of the edges: ``symmetric``, ``mean`` or ``sum``."""
    input: Tensor
    """Embeddings of owned nodes, ``(N, D)``; boundary rows are sent to the workers that need them."""
    sums: Tensor
    """Weighted sums, ``(N, D)``."""


@dataclass(frozen=True, slots=True, eq=False)
class OperationStarted:
    """One operation of a model in a pass over the graph, before it runs."""

    rank: int
    epoch: int
    layer: int
    """Number of preceding aggregations in this pass."""
    operation: str
    """``linear``, ``affine``, ``aggregate``, ``convolve``, ``attend``, ``activate``, ``activate_both``, ``join``,
    ``dropout``, or ``prepare``: dropout of the rows of an aggregation, inside it."""
    inputs: tuple[Any, ...]
    """Tensors, sparse inputs and norms of the operation, in the order of its signature."""


@dataclass(frozen=True, slots=True, eq=False)
class OperationEnded:
    """End of an operation of a model, with its result."""

    rank: int
    epoch: int
    layer: int
    operation: str
    inputs: tuple[Any, ...]
    output: Any
    """Result rows; for ``activate_both`` a pair, for ``prepare`` the rows and the context of the aggregation."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorAllocated:
    """Allocation of memory for halo rows or their gradients, before it is written."""

    rank: int
    epoch: int
    purpose: str
    """Purpose as in ``run.memory``: ``halo``."""
    tensor: Tensor
    """The allocated tensor; store only a weak reference, to not extend its lifetime."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorSaved:
    """Tensor that the forward pass saves for the backward pass."""

    rank: int
    epoch: int
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """Interval of one phase of the epoch; phases do not overlap."""

    rank: int
    epoch: int
    phase: str
    started: float
    """Start in seconds on the worker's clock."""
    ended: float


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """Decision of a bit policy, a cache or a schedule after an epoch."""

    rank: int
    epoch: int
    component: str
    decision: Mapping[str, Any]
    """Entry of the decision in the run's files."""


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """End of an epoch, with its record."""

    rank: int
    epoch: int
    loss: float
    record: Mapping[str, Any]
    """Row of ``run.records``: scores, seconds of each phase, bytes."""


class Observer:
    """Base class of observers, which receive the events of one worker; every method does nothing by default.

    A subclass overrides the methods of events that it needs, and `table` for a result to save. An observer runs on the
    worker's thread and must not communicate with other workers. `launch` and `simulate` take observers.

    Example:
        >>> class Bytes(Observer):
        ...     def __init__(self):
        ...         self.rows = []
        ...     def on_message_encoded(self, message):
        ...         self.rows.append({"layer": message.layer, "bytes": message.num_bytes})
        ...     def table(self):
        ...         return self.rows
    """

    def on_message_encoded(self, event: MessageEncoded) -> None:
        """Receive a message that this worker sends."""

    def on_message_decoded(self, event: MessageDecoded) -> None:
        """Receive a message that this worker has received and uses now."""

    def on_aggregated(self, event: Aggregated) -> None:
        """Receive an aggregation of the forward pass."""

    def on_neighbours_summed(self, event: NeighboursSummed) -> None:
        """Receive the sums over neighbours of an aggregation."""

    def on_operation_started(self, event: OperationStarted) -> None:
        """Receive an operation of the model, before it runs."""

    def on_operation_ended(self, event: OperationEnded) -> None:
        """Receive an operation of the model and its result."""

    def on_tensor_allocated(self, event: TensorAllocated) -> None:
        """Receive an allocation for halo rows or their gradients."""

    def on_tensor_saved(self, event: TensorSaved) -> None:
        """Receive a tensor that is saved for the backward pass."""

    def on_phase_ended(self, event: PhaseEnded) -> None:
        """Receive an interval of a phase."""

    def on_decision_made(self, event: DecisionMade) -> None:
        """Receive a decision."""

    def on_epoch_ended(self, event: EpochEnded) -> None:
        """Receive the end of an epoch."""

    def table(self) -> Iterable[Mapping[str, Any]]:
        """Return rows to save with the run: column -> a number, a text or a boolean."""
        return ()


class Observers:
    """Observers of one worker, grouped by the events that they listen to.

    Emitting code creates an event only for listeners: ``if observers.message_encoded: observers.emit(...)``.

    Args:
        observers: of this worker.
        rank: this worker.
    """

    def __init__(self, observers: Iterable[Observer] = (), rank: int = 0) -> None:
        self.rank = rank
        self.epoch = 0
        """Present epoch, set by the trainer."""
        self._sort(tuple(observers))

    @contextmanager
    def joined_by(self, observer: Observer) -> Iterator[None]:
        """Add one observer for the duration of the block."""
        previous_observers = self.all  # blocks may be nested
        self._sort((*previous_observers, observer))
        try:
            yield
        finally:
            self._sort(previous_observers)

    def _sort(self, observers: tuple[Observer, ...]) -> None:
        # One tuple per kind of event, made once: an event without listeners costs one test.
        self.all = observers
        self.message_encoded = self._listeners("on_message_encoded")
        self.message_decoded = self._listeners("on_message_decoded")
        self.aggregated = self._listeners("on_aggregated")
        self.neighbours_summed = self._listeners("on_neighbours_summed")
        self.operation_started = self._listeners("on_operation_started")
        self.operation_ended = self._listeners("on_operation_ended")
        self.tensor_allocated = self._listeners("on_tensor_allocated")
        self.tensor_saved = self._listeners("on_tensor_saved")
        self.phase_ended = self._listeners("on_phase_ended")
        self.decision_made = self._listeners("on_decision_made")
        self.epoch_ended = self._listeners("on_epoch_ended")

    def _listeners(self, method: str) -> tuple[Callable[[Any], None], ...]:
        """Return the methods of this name that observers override."""
        default = getattr(Observer, method)
        # Compared on the class: a bound method is a new object at each access.
        return tuple(getattr(each, method) for each in self.all if getattr(type(each), method) is not default)

    def emit(self, listeners: tuple[Callable[[Event], None], ...], event: Event) -> None:
        """Call each listener with the event.

        Raises:
            ObserverFailed: if a listener raises; it names the observer's method.
        """
        for listen in listeners:
            try:
                listen(event)
            except Exception as error:
                raise ObserverFailed(listen.__qualname__, error) from error  # Class.method


NO_OBSERVERS = Observers()
"""Observers of a worker without any."""


def observers_named(names: Iterable[str]) -> list[Observer]:
    """Return an observer for each ``module:Class``, created without arguments.

    Raises:
        ValueError: if a name is not that of a subclass of `Observer`.
    """
    observers = []
    for name in names:
        try:
            kind = load(name)
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"an observer must be named by module and class, as in 'my_module:RowErrors', got {name!r}: {error}"
            ) from error
        if not (isinstance(kind, type) and issubclass(kind, Observer)):
            raise ValueError(f"an observer must be a subclass of gnnqlab.Observer, got {name!r}: {kind!r}")
        observers.append(kind())
    return observers


def observer_name(observer: str | type[Observer]) -> str:
    """Return the name ``module:Class`` of an observer, for import by the workers.

    Raises:
        ValueError: if other processes cannot import it.
    """
    if isinstance(observer, str):
        observers_named([observer])  # checks that workers can import it, before they start
        return observer
    return name_of(observer)
