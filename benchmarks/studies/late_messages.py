"""Errors of stateful codecs over the epochs of a training: delta encoding, error feedback.

Letters: T epochs, n rows of a message kind, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnnqlab.bits.policy import Fixed
from gnnqlab.graph.graph import Graph
from gnnqlab.message.caches.row_cache_state import at_work
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import MessageEncoded, Observer
from gnnqlab.partition.plan import Plan, Route
from gnnqlab.simulation.codec_error import RowsKey, observed_workers
from gnnqlab.simulation.threaded_workers import LoopbackTransport, Mailbox
from gnnqlab.systems.system import System

__all__ = ["LateError", "late_error", "late_rows"]


@dataclass(frozen=True)
class LateError:
    """Errors of the messages of consecutive epochs, relative to squared norms."""

    squared: float
    """Mean squared error of one message, over the second half of the epochs."""
    of_mean: float
    """Squared error of the mean of all messages, over the squared norm of the mean rows."""


class _MessageObserver(Observer):
    """Observer of a fixed sample of rows of each message that one worker sends."""

    def __init__(self) -> None:
        self.of: dict[tuple[RowsKey, int], list[Tensor]] = {}
        self.most, self.since = 0, 0

    def on_message_encoded(self, event: MessageEncoded) -> None:
        if event.epoch >= self.since:
            # The seed is fixed, so that the same rows are taken in every epoch.
            sample = torch.randperm(len(event.values), generator=torch.Generator().manual_seed(0))[: self.most]
            key = RowsKey(event.direction, event.layer), int(event.node_ids.min())
            self.of.setdefault(key, []).append(event.values[sample])


def late_rows(
    graph: Graph,
    model: ModelSettings,
    epochs: int,
    *,
    last: int = 10,
    most: int = 400,
    system: System | None = None,
    seed: int = 0,
) -> dict[RowsKey, Tensor]:
    """Return rows that two workers send in the last epochs of a training with float32 messages.

    Args:
        epochs: epochs of the whole training.
        last: number T of last epochs from which rows are taken.
        most: approximate number of rows of each kind, the same in all epochs.
        system: system whose partitioner is used; METIS by default.

    Returns:
        Direction and layer -> float32 ``(T, n, D)``.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import make_system
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> found = late_rows(load("sbm:60,3,6"), ModelSettings(layers=2, hidden=8), 4, last=2, most=10, system=recipe)
        >>> [tuple(rows.shape) for place, rows in found.items() if place.layer == 1]
        [(2, 10, 3), (2, 10, 3)]
    """
    if not 2 <= last <= epochs:
        raise ValueError(f"last must lie between 2 and the {epochs} epochs of the training, got {last}")
    threads, observers = observed_workers(_MessageObserver, graph, model, workers=2, system=system, seed=seed)
    sampled_rows: dict[tuple[RowsKey, int], list[Tensor]] = {}
    for observer in observers:
        assert isinstance(observer, _MessageObserver)
        observer.most, observer.since = max(1, most // 2), epochs - last
    for epoch in range(epochs):
        threads.step(epoch)
    for observer in observers:
        assert isinstance(observer, _MessageObserver)
        sampled_rows |= observer.of
    messages: dict[RowsKey, list[Tensor]] = {}
    for (place, _), rows in sorted(sampled_rows.items(), key=lambda item: item[0]):
        messages.setdefault(place, []).append(torch.stack(rows))  # T x (n, D) -> (T, n, D)
    return {place: torch.cat(rows, dim=1) for place, rows in messages.items()}


def late_error(cache: Any, codec: Codec, rows: Tensor, bits: int) -> LateError:
    """Send the rows of consecutive epochs over a channel with a cache and a codec, and return the errors.

    Args:
        cache: part of the axis ``cache``, for instance ``Difference()``, ``Feedback()`` or ``NoCache()``.
        codec: part of the axis ``codec``.
        rows: float32 ``(T, n, D)``.
        bits: bit-width of every row.

    Example:
        >>> from gnnqlab.message import Difference, NoCache, Stochastic
        >>> rows = torch.randn(20, 16, generator=torch.Generator().manual_seed(0)).expand(8, 20, 16)
        >>> whole, differences = (late_error(cache, Stochastic(), rows, 4) for cache in (NoCache(), Difference()))
        >>> whole.squared > 1000 * differences.squared
        True
    """
    epochs, count, columns = rows.shape
    places, mail = torch.arange(count), Mailbox(2)
    ends = []
    for rank in range(2):
        route = Route(peer=1 - rank, rows=places, ids=places, first=0 if rank else None)
        send_routes, receive_routes = ((), (route,)) if rank else ((route,), ())
        plan = Plan(rank=rank, workers=2, send=send_routes, receive=receive_routes, accumulate=False)
        wires = ChannelFactory(
            transport=LoopbackTransport(mail, rank), codec=codec, bits=Fixed(bits=bits), cache=at_work(cache)
        )
        ends.append(wires.channel(ExchangeKey(0, "forward"), plan))
    noise, energy, total = 0.0, 0.0, torch.zeros(count, columns, dtype=torch.float64)
    for epoch, sent_rows in enumerate(rows):
        # Both ends post before the receiver decodes; worker 0 only sends, worker 1 only receives.
        transfers = [end.post(sent_rows.contiguous(), torch.zeros(count, columns), epoch=epoch) for end in ends]
        error = transfers[1].decode().double() - sent_rows
        total += error
        if 2 * epoch >= epochs:
            noise, energy = noise + float(error.square().sum()), energy + float(sent_rows.double().square().sum())
    norm = float(rows.double().sum(0).square().sum())
    return LateError(noise / energy if energy else 0.0, float(total.square().sum()) / norm if norm else 0.0)
