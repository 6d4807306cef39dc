"""One training epoch of a small graph, in this process: every part of it, every row that travelled, and its sums."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.exchange.timeline import Span
from gnnqlab.measure.in_process import OrExact, ThreadedWorkers
from gnnqlab.message.codec import Noise
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.message.place import Place
from gnnqlab.message.wire import Layout
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.trainer import Trainer

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts
    from gnnqlab.systems.system import System

__all__ = ["OneEpoch", "SentRows", "train_one_epoch"]


@dataclass(frozen=True)
class SentRows:
    """The rows of one message."""

    place: Place
    sender: int
    receiver: int
    nodes: tuple[int, ...]
    """Global ids."""
    bits: tuple[int, ...]
    """Of each row."""
    offered: int
    """Rows that there were to send; more than travelled under a cache."""
    columns: int
    num_bytes: int
    """Payload and parameters."""


@dataclass(frozen=True)
class OneEpoch:
    """What one epoch did on every worker."""

    epoch: int
    spans: tuple[tuple[Span, ...], ...]
    """Of each worker, in the order in which they began, without transfers."""
    reduced: tuple[float, ...]
    """When each worker's weight gradients were ready to be summed, seconds of the same clock."""
    sent: tuple[SentRows, ...]
    losses: tuple[float, ...]
    """Each worker's share; they add up to the loss."""
    gradients: tuple[float, ...]
    """Euclidean length of each worker's gradient."""
    gradient: float
    """Length of their sum."""
    moved: float
    """Length of the step that all weights took."""
    num_parameters: int
    next_loss: float
    """Loss with the new weights, in the epoch after."""

    @property
    def loss(self) -> float:
        return sum(self.losses)


@dataclass(frozen=True)
class _Noted(OrExact):
    """A codec that notes which rows it encodes, when and in which thread."""

    notes: list[tuple[int, float, tuple[int, ...], Layout]] = field(default_factory=list)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        self.notes.append((threading.get_ident(), time.perf_counter(), tuple(ids.tolist()), layout))
        return super().encode(x, rows, ids, layout, segment, noise)


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
    """Train workers as threads of this process, and look into the last of some epochs.

    The exchanges, codecs, caches and schedules are those of launched runs; the time that bytes are under way is not.

    Args:
        parts: a small graph, cut by its nodes.
        system: what they train with.
        model, hidden, layers: of the model, without dropout.
        epochs: trained before the one that is looked into.
        seed: of weights and noise.

    Example:
        >>> from gnnqlab.lab import course
        >>> from gnnqlab.partition.parts import partition
        >>> from gnnqlab.systems import vanilla
        >>> found = train_one_epoch(partition(course.ten_nodes(), course.Halves(), workers=2), vanilla(), epochs=1)
        >>> len(found.sent), found.sent[0].nodes, found.sent[0].num_bytes  # two layers, there and back, two workers
        (8, (3, 4), 64)
    """
    notes: list[tuple[int, float, tuple[int, ...], Layout]] = []
    both: Any = ByDirection(*(_Noted(of_direction(system.codec, each), notes) for each in ("forward", "backward")))
    noted = replace(system, codec=both)
    shape = ModelSettings(name=model, hidden=hidden, layers=layers, dropout=0.0)
    workers = ThreadedWorkers(parts.graph, parts.cut, noted, shape, TrainSettings(seed=seed), as_launched=True)
    for epoch in range(epochs):
        workers.step(epoch)
    notes.clear()
    before = workers.trainers[0].parameters.values.clone()
    looks = workers.run(lambda trainer: _look(trainer, epochs))
    gradients = torch.stack([trainer.parameters.gradients for trainer in workers.trainers])
    for trainer in workers.trainers:
        trainer.parameters.gradients.copy_(gradients.sum(0))
        trainer.optimizer.step()
    values = workers.trainers[0].parameters.values
    after = workers.trainers[0].parameters.values.clone()
    seen = tuple(notes)
    next_loss = workers.gradients(epochs + 1)[0]
    rank_of = {look.thread: rank for rank, look in enumerate(looks)}
    sent = [
        one
        for rank, look in enumerate(looks)
        for one in _sent(workers.trainers[rank], look, [note[1:] for note in seen if rank_of[note[0]] == rank])
    ]
    return OneEpoch(
        epoch=epochs,
        spans=tuple(look.spans for look in looks),
        reduced=tuple(look.reduced for look in looks),
        sent=tuple(sent),
        losses=tuple(look.loss for look in looks),
        gradients=tuple(float(each.norm()) for each in gradients),
        gradient=float(gradients.sum(0).norm()),
        moved=float((after - before).norm()),
        num_parameters=values.numel(),
        next_loss=next_loss,
    )


@dataclass(frozen=True)
class _Look:
    loss: float
    spans: tuple[Span, ...]
    reduced: float
    thread: int


def _look(trainer: Trainer, epoch: int) -> _Look:
    """Run one training pass in this thread and note its parts."""
    exchange: Any = trainer.exchange
    ready: list[float] = []
    release = exchange.release

    def note() -> None:
        ready.append(time.perf_counter())
        release()

    exchange.release = note
    exchange.timeline.begin()
    try:
        loss = trainer.gradients(epoch)
    finally:
        exchange.release = release
    spans = sorted(exchange.timeline.take(), key=lambda span: span.start)
    return _Look(loss, tuple(spans), ready[0], threading.get_ident())


def _sent(trainer: Trainer, look: _Look, notes: Sequence[tuple[float, tuple[int, ...], Layout]]) -> Iterator[SentRows]:
    """Yield what a worker sent; each place encodes for its peers in the order of the plan, those without rows apart."""
    exchange: Any = trainer.exchange
    for channel in exchange.channels:
        spans = [s for s in look.spans if s.what == "encode" and Place(s.layer, s.direction, s.round) == channel.place]
        here = [note for note in notes if any(span.start <= note[0] <= span.end for span in spans)]
        routes = [route for route in channel.plan.send if len(here) == len(channel.plan.send) or route.num_rows]
        for (_, nodes, layout), route in zip(here, routes, strict=False):
            if route.num_rows:
                yield SentRows(
                    channel.place, channel.plan.rank, route.peer, nodes, _bits(layout), route.num_rows,
                    layout.columns, layout.num_bytes,
                )  # fmt: skip


def _bits(layout: Layout) -> tuple[int, ...]:
    """Return the width of every row, in the order of the wire, as the ids are."""
    return tuple(layout.bits.tolist()) if isinstance(layout.bits, Tensor) else (layout.bits,) * layout.num_rows
