"""Error of codecs on rows of a real training: squared error of one message, and bias.

Letters: n rows of a message, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from gnnqlab.bits.policy import Fixed
from gnnqlab.graph.graph import Graph
from gnnqlab.message.codecs.codec import Codec, Float32, Noise
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import MessageEncoded, Observer, Observers
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings

__all__ = ["CodecError", "RowsKey", "codec_error", "observed_workers", "trained_rows"]


class RowsKey(NamedTuple):
    """Key of rows that are sent in one direction at one layer."""

    direction: str
    layer: int


@dataclass(frozen=True)
class CodecError:
    """Error of a codec on some rows, relative to their squared norms."""

    squared: float
    """Mean squared error of one message."""
    bias: float
    """Norm of the mean error over that of the rows, ``(squared - variance)^(1/2)``; 0 if it is below the noise."""


class _Messages(Observer):
    """Observer that stores ids and rows of each message that one worker sends."""

    def __init__(self) -> None:
        self.of: dict[RowsKey, list[tuple[Tensor, Tensor]]] = {}

    def on_message_encoded(self, event: MessageEncoded) -> None:
        self.of.setdefault(RowsKey(event.direction, event.layer), []).append((event.node_ids, event.values))


def observed_workers(
    kind: type[Observer], graph: Graph, model: ModelSettings, *, workers: int, system: System | None, seed: int
) -> tuple[ThreadedWorkers, list[Observer]]:
    """Create workers that send float32 messages without dropout, with one observer each; return both."""
    recipe = system or make_system("vanilla")
    observers = [kind() for _ in range(workers)]
    threads = ThreadedWorkers(
        graph,
        cut_graph(graph, recipe.partition, workers),
        replace(recipe, codec=Float32()),
        replace(model, dropout=0.0, input_dropout=0.0),
        TrainSettings(seed=seed),
        bits=Fixed(),
        as_launched=True,
        observers=[Observers([observer], rank) for rank, observer in enumerate(observers)],
    )
    return threads, observers


def trained_rows(
    graph: Graph,
    model: ModelSettings,
    weights: Tensor,
    *,
    workers: int = 2,
    most: int = 400,
    system: System | None = None,
    seed: int = 0,
) -> dict[RowsKey, Tensor]:
    """Sample the rows that workers would send in the next epoch as float32, by direction and layer.

    Args:
        weights: flat weights of the model as trained so far.
        most: limit of sampled rows per direction and layer; rows of zeros, which every codec keeps exact, are left out.
        system: its partitioner is used; METIS by default.
        seed: of the draw.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.simulation.gradient_noise import trained_weights
        >>> from gnnqlab.partition import Random
        >>> shape, graph = ModelSettings(layers=2, hidden=8), load("sbm:60,3,6")
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> found = trained_rows(graph, shape, trained_weights(graph, shape, 2), system=recipe)
        >>> [(direction, layer) for direction, layer in found]
        [('backward', 0), ('backward', 1), ('forward', 0), ('forward', 1)]
    """
    threads, observers = observed_workers(_Messages, graph, model, workers=workers, system=system, seed=seed)
    threads.set_weights(weights)
    threads.gradients(0)  # one pass: every message of both directions is encoded once
    sent_messages: dict[RowsKey, list[tuple[Tensor, Tensor]]] = {}
    for observer in observers:
        assert isinstance(observer, _Messages)
        for place, messages in observer.of.items():
            sent_messages.setdefault(place, []).extend(messages)
    generator, rows_by_place = torch.Generator().manual_seed(seed), {}
    for place, messages in sorted(sent_messages.items()):
        ids, rows = (torch.cat(parts) for parts in zip(*messages, strict=True))  # (K,), (K, D)
        # Sort by id, then by value (two workers may send gradients of one node): independent of the order of threads.
        by_value = rows[:, 0].argsort()
        rows = rows[by_value[ids[by_value].argsort(stable=True)]]
        rows = rows[rows.abs().amax(1) > 0]  # zeros have no error in any codec
        # A random sample without replacement, (min(K, most), D).
        rows_by_place[place] = rows[torch.randperm(rows.shape[0], generator=generator)[:most]]
    return rows_by_place


def codec_error(codec: Codec, rows: Tensor, bits: int, *, draws: int = 16) -> CodecError:
    """Encode and decode rows repeatedly with independent noise, and compare decoded with original rows.

    Args:
        rows: float32 ``(n, D)``.
        bits: bit-width of every row.
        draws: number of messages, at least 2; a bias below about ``(squared / (n draws))^(1/2)`` is not visible.

    Example:
        >>> from gnnqlab.message import Rotated, Stochastic
        >>> rows = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))
        >>> found = codec_error(Rotated(), rows, 1)
        >>> 0.5 < found.squared < 0.6, codec_error(Stochastic(), rows, 1).squared > 2
        (True, True)
    """
    if draws < 2:
        raise ValueError(f"draws must be at least 2 to separate bias from noise, got {draws}")
    layout, places = codec.layout(bits, *rows.shape), torch.arange(rows.shape[0])
    # One buffer of bytes and one of rows (n, D), reused by all draws.
    segment, decoded_rows = torch.empty(layout.num_bytes, dtype=torch.uint8), torch.empty_like(rows)
    mean_error, squared_error = torch.zeros_like(rows, dtype=torch.float64), 0.0
    for epoch in range(draws):
        noise = Noise(0, epoch, 0)  # independent noise for each epoch
        codec.encode(rows, places, places, layout, segment, noise)
        codec.decode(segment, layout, decoded_rows, places, accumulate=False, ids=places, noise=noise)
        error = decoded_rows.double() - rows  # (n, D)
        mean_error += error / draws
        squared_error += float(error.square().sum()) / draws
    total = float(rows.double().square().sum())
    # E|mean error|^2 = bias^2 + variance / draws, and squared_error = bias^2 + variance.
    bias_square = (float(mean_error.square().sum()) - squared_error / draws) * draws / (draws - 1)
    return CodecError(squared_error / total, (max(0.0, bias_square) / total) ** 0.5)
