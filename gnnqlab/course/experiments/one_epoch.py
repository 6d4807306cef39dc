"""One training epoch of a small graph in this process: all activities, all rows sent, losses and gradients."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gnnqlab.exchange.timeline import Span
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import MessageEncoded, Observer, Observers, PhaseEnded
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import Trainer

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts
    from gnnqlab.systems.system import System

__all__ = ["OneEpoch", "SentRows", "train_one_epoch"]


@dataclass(frozen=True)
class SentRows:
    """The rows of one message."""

    place: ExchangeKey
    sender: int
    receiver: int
    nodes: tuple[int, ...]
    """Global node ids."""
    bits: tuple[int, ...]
    """Bit-width of each row."""
    offered: int
    """Number of rows before a cache skips some."""
    columns: int
    num_bytes: int
    """Payload and quantization parameters."""

    @classmethod
    def from_message(cls, message: MessageEncoded) -> SentRows:
        """Return the rows of an observed message."""
        return cls(
            place=ExchangeKey(message.layer, message.direction, message.round),
            sender=message.rank,
            receiver=message.receiver,
            nodes=tuple(message.node_ids.tolist()),
            bits=tuple(message.bit_widths.tolist()),
            offered=len(message.offered_ids),
            columns=message.values.shape[1],  # values: rows before encoding, (n, D)
            num_bytes=message.num_bytes,
        )


@dataclass(frozen=True)
class OneEpoch:
    """Record of one epoch on all workers."""

    epoch: int
    spans: tuple[tuple[Span, ...], ...]
    """Activities of each worker by start time, without transfers."""
    gradients_ready_s: tuple[float, ...]
    """Time at which each worker's weight gradients were ready for the all-reduce, seconds of the same clock."""
    messages: tuple[SentRows, ...]
    losses: tuple[float, ...]
    """Contribution of each worker; their sum is the loss."""
    gradients: tuple[float, ...]
    """Euclidean norm of each worker's gradient."""
    gradient: float
    """Norm of the sum of the gradients."""
    update_norm: float
    """Norm of the weight update."""
    num_parameters: int
    next_loss: float
    """Loss with the new weights, in the next epoch."""

    @property
    def loss(self) -> float:
        return sum(self.losses)


class _MessageObserver(Observer):
    """Observer of the messages that one worker sends in training passes, and of the time of its gradients."""

    def __init__(self) -> None:
        self.by_epoch: dict[int, list[SentRows]] = {}
        self.gradients_ready_s: dict[int, float] = {}
        """Epoch -> seconds of ``time.perf_counter``."""

    def on_phase_ended(self, event: PhaseEnded) -> None:
        if event.phase == "reduce":  # the last one of an epoch counts
            self.gradients_ready_s[event.epoch] = time.perf_counter()

    def on_message_encoded(self, event: MessageEncoded) -> None:
        self.by_epoch.setdefault(event.epoch, []).append(SentRows.from_message(event))


def train_one_epoch(
    parts: Parts,
    system: System,
    *,
    model: str = "gcn",
    hidden: int = 8,
    layers: int = 2,
    epochs: int = 5,
    seed: int = 0,
) -> OneEpoch:
    """Train workers as threads of this process for some epochs, and record the next one.

    Exchanges, codecs, caches and schedules are those of launched runs; transfer times are not.

    Args:
        parts: edge-cut of a small graph.
        system: the system to train with.
        model, hidden, layers: settings of the model, without dropout.
        epochs: epochs trained before the recorded one.
        seed: seed of weights and noise.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> from gnnqlab.systems import vanilla
        >>> found = train_one_epoch(partition(course.ten_nodes(), course.Halves(), workers=2), vanilla(), epochs=1)
        >>> len(found.messages), found.messages[0].nodes, found.messages[0].num_bytes  # 2 layers, directions, workers
        (8, (3, 4), 64)
    """
    observers = [_MessageObserver() for _ in range(parts.cut.workers)]  # one observer per worker, without locks
    shape = ModelSettings(name=model, hidden=hidden, layers=layers, dropout=0.0)
    workers = ThreadedWorkers(
        parts.graph,
        parts.cut,
        system,
        shape,
        TrainSettings(seed=seed),
        as_launched=True,
        observers=[Observers([observer], rank) for rank, observer in enumerate(observers)],
    )
    # The epochs before are complete training steps, with all-reduce and optimizer.
    for epoch in range(epochs):
        workers.step(epoch)
    values_before = workers.trainers[0].parameters.values.clone()  # a copy, because the step changes it in place
    passes = workers.run(lambda trainer: _timed_pass(trainer, epochs))
    # The all-reduce of launched workers: (workers, parameters) -> (parameters,), the same on every worker.
    gradients = torch.stack([trainer.parameters.gradients for trainer in workers.trainers])
    for trainer in workers.trainers:
        trainer.parameters.gradients.copy_(gradients.sum(0))  # every worker applies the same sum
        trainer.optimizer.step(epochs)
    values = workers.trainers[0].parameters.values
    values_after = workers.trainers[0].parameters.values.clone()
    next_loss = workers.gradients(epochs + 1)[0]  # a further pass, only for its loss
    return OneEpoch(
        epoch=epochs,
        spans=tuple(spans for _, spans in passes),
        gradients_ready_s=tuple(observer.gradients_ready_s[epochs] for observer in observers),
        messages=tuple(itertools.chain.from_iterable(observer.by_epoch.get(epochs, ()) for observer in observers)),
        losses=tuple(loss for loss, _ in passes),
        gradients=tuple(float(gradient.norm()) for gradient in gradients),
        gradient=float(gradients.sum(0).norm()),
        update_norm=float((values_after - values_before).norm()),
        num_parameters=values.numel(),
        next_loss=next_loss,
    )


def _timed_pass(trainer: Trainer, epoch: int) -> tuple[float, tuple[Span, ...]]:
    """Run one training pass in this thread; return its loss and the spans of its timeline."""
    exchange: Any = trainer.exchange
    exchange.timeline.begin()
    loss = trainer.gradients(epoch)  # forward and backward, without the update
    return loss, tuple(sorted(exchange.timeline.take(), key=lambda span: span.start))
