"""Trace of a training's messages over a few epochs: sender, receiver, rows, and their ranges, norms and errors.

The workers are threads of this process. They send 8 bits, as a run does before its first assignment, so the ranges are
those that its assigner will get. Launched workers are not timed here.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gnnqlab.bits.assigner.groups import use_of_halo
from gnnqlab.bits.policy import Fixed
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.codec.row_errors import NOTED, row_errors
from gnnqlab.message.channels.channel import Channel
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import MessageEncoded, Observer, Observers
from gnnqlab.partition.cut import Cut
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.gradient_trace import LayerMeans, is_covered, traced_workers
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.simulation.weight_terms import weight_terms
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.terminal import show_elapsed
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.tune.timing import with_probed_parts
from gnnqlab.tune.traced import Reach, Theorem, Trace, TracedMessage

__all__ = ["trace"]

_LARGEST = 1 << 28
"""Limit of elements of the features for Theorem 3's factors, which are dense."""


@show_elapsed("tracing messages in this process")
def trace(
    graph: Graph,
    model: ModelSettings,
    system: System | None = None,
    *,
    workers: int,
    epochs: int = 24,
    settings: TrainSettings | None = None,
    theorem: bool = True,
    hosts: int = 1,
) -> Trace:
    """Train some epochs on workers in this process and record their messages.

    Args:
        graph: the whole graph.
        model: with dropout as in training.
        system: its partitioner, exchange and precision are used; METIS, halo rows and float32 by default.
        workers: number of partitions, at least 2.
        epochs: number of epochs to train, at least 2; ranges are recorded at 1, 2, 4, 8 and so on, and at the last one.
        settings: seed and learning rate.
        theorem: also record the inputs of Theorem 3, with one more pass without dropout; not for models that the
            theorem does not cover, and not for vertex-cuts.
        hosts: number of hosts with equally many workers, for the partitioner and the exchange.

    Raises:
        ValueError: if there is only one worker, or fewer than two epochs.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> seen = trace(load("sbm:60,3,6"), ModelSettings(layers=2, hidden=8), recipe, workers=2, epochs=5)
        >>> seen.epochs, seen.places
        ((1, 2, 4), [(0, 'backward'), (0, 'forward'), (1, 'backward'), (1, 'forward')])
    """
    if workers < 2:
        raise ValueError(f"workers must be at least 2 to exchange messages, got {workers}")
    if epochs < 2:
        raise ValueError(f"epochs must be at least 2, since the first assignment follows epoch 1, got {epochs}")
    settings, system = settings or TrainSettings(), (system or make_system("vanilla")).on_hosts(hosts)
    cut = cut_graph(graph, system.partition, workers)
    observers = [_RowErrors() for _ in range(workers)]  # one per thread, so that they need no lock
    of_worker = [Observers([observer], rank) for rank, observer in enumerate(observers)]
    threads = ThreadedWorkers(graph, cut, _eight_bits(system), model, settings, bits=Fixed(bits=8), observers=of_worker)
    # Ranges change less and less, so epochs at doubling distances show their drift.
    recorded_epochs = sorted({*(2**power for power in range(64) if 2**power < epochs), epochs - 1})
    losses, spreads, seconds = [], [], []
    weights = threads.trainers[0].parameters.values
    for epoch in range(epochs):
        weights = threads.trainers[0].parameters.values.clone()  # before the step: those of this epoch's messages
        losses.append(threads.step(epoch))
        seconds.append(threads.seconds)
        if epoch in recorded_epochs:
            spreads.append(_spreads(threads, observers))
    messages = _add_aggregate_first_columns(_messages(threads, spreads), threads, epochs)
    traced_theorem = None
    is_feasible = threads.shards[0].cuts == "nodes" and graph.num_nodes * graph.num_features <= _LARGEST
    if theorem and is_feasible and is_covered(threads.trainers[0].model):
        traced_theorem = _theorem(graph, cut, model, weights, settings, sorted({message.place for message in messages}))
    return Trace(
        epochs=tuple(recorded_epochs),
        messages=messages,
        shards=tuple(threads.shards),
        losses=tuple(losses),
        weights=weights,
        theorem=traced_theorem,
        phases=_phases(seconds),
        seed=settings.seed,
        attention_layers=frozenset(
            {each.layer for each in messages} - set(threads.trainers[0].graph.exchange.adjacencies)
        ),
    )


def _eight_bits(system: System) -> System:
    """Return the system to trace: rows of 8 bits, with the synchronous schedule."""
    return with_probed_parts(make_system("fixed-bits", bits=8), system)


def _phases(seconds: list[list[dict[str, float]]]) -> dict[str, float]:
    """Return the least time of each phase over epochs, without the first, which includes set-up."""
    names = ("central", "marginal", "encode", "decode", "dense", "optimizer", "other")
    return {name: min(statistics.fmean(worker[name] for worker in epoch) for epoch in seconds[1:]) for name in names}


Key = tuple[int, str, int, int, int]
"""(layer, direction, round, sender, receiver)."""


class _RowErrors(Observer):
    """Observer that records errors at fewer bits, norms and ranges of the rows of a worker's latest messages."""

    def __init__(self) -> None:
        self.latest: dict[Key, Tensor] = {}

    def on_message_encoded(self, event: MessageEncoded) -> None:
        errors = torch.empty(len(event.values), NOTED, device=event.values.device)  # (n, D) -> (n, 5)
        row_errors(event.values, torch.arange(len(event.values), device=errors.device), errors)  # written to `errors`
        self.latest[event.layer, event.direction, event.round, event.rank, event.receiver] = errors


def _spreads(threads: ThreadedWorkers, observers: Sequence[_RowErrors]) -> dict[Key, Tensor]:
    spreads = {key: errors for observer in observers for key, errors in observer.latest.items()}
    for trainer, shard in zip(threads.trainers, threads.shards, strict=True):
        for channel in trainer.graph.exchange.channels:
            for route in channel.plan.send if channel.plan.exact else ():
                if route.num_rows:  # float32 rows: no rounding, so their statistics do not matter
                    spreads[(*channel.place, shard.rank, route.peer)] = torch.zeros(route.num_rows, NOTED)
    return spreads


def _messages(threads: ThreadedWorkers, spreads: list[dict[Key, Tensor]]) -> list[TracedMessage]:
    messages = []
    for key in sorted(spreads[0]):
        layer, direction, round_, sender, receiver = key
        channel = _channel(threads, key)
        *errors, norms, ranges = torch.stack([table[key] for table in spreads]).unbind(2)  # (T, n, 5) -> five of (T, n)
        messages.append(
            TracedMessage(
                layer=layer,
                direction=direction,
                sender=sender,
                receiver=receiver,
                columns=channel.columns,
                ids=channel.plan.to_peer(receiver).ids,
                use=_use(threads, key),
                released_use=_use(threads, key, as_released=True),
                ranges=ranges.contiguous(),
                norms=norms.contiguous(),
                min_max_errors=torch.stack(errors, dim=2),  # (T, n, 3)
                aggregate_first_columns=0,
                round=round_,
                to_all=channel.plan.to_all,
                exact=channel.plan.exact,
            )
        )
    return messages


def _add_aggregate_first_columns(
    messages: list[TracedMessage], threads: ThreadedWorkers, epoch: int
) -> tuple[TracedMessage, ...]:
    """Run a pass with row caches at the receivers and aggregation before projection, and record the columns."""
    for trainer in threads.trainers:
        assert trainer.exchange is not None
        trainer.exchange.uses_stale_rows = trainer.exchange.aggregates_before_projection = True
    threads.gradients(epoch)
    columns = {
        (channel.layer, channel.direction): channel.columns
        for trainer in threads.trainers
        if trainer.exchange is not None
        for channel in trainer.exchange.channels
    }
    return tuple(replace(each, aggregate_first_columns=columns[each.place]) for each in messages)


def _use(threads: ThreadedWorkers, key: Key, *, as_released: bool = False) -> Tensor:
    """Return c_k of a message's rows; 1 for sums and for attention, which has no fixed α, as in training."""
    layer, direction, _, sender, receiver = key
    # The halo is that of the receiver of embeddings, which is the sender of gradients.
    holder, owner = (receiver, sender) if direction == "forward" else (sender, receiver)
    shard, exchange = threads.shards[holder], threads.trainers[holder].exchange
    assert exchange is not None
    if shard.cuts != "nodes" or layer not in exchange.adjacencies:
        return torch.ones(_channel(threads, key).plan.to_peer(receiver).num_rows, dtype=torch.float64)
    use = use_of_halo(shard, _alpha(threads, holder, layer), direction, as_released=as_released)  # (H,)
    return use[shard.plan("forward").from_peer(owner).rows]  # (H,) -> (n,), the rows of one owner


def _channel(threads: ThreadedWorkers, key: Key) -> Channel:
    exchange = threads.trainers[key[3]].exchange
    assert exchange is not None
    return next(channel for channel in exchange.channels if channel.place == key[:3])


def _alpha(threads: ThreadedWorkers, rank: int, layer: int) -> Tensor:
    exchange = threads.trainers[rank].exchange
    assert exchange is not None
    weights = exchange.adjacencies[layer].weights
    assert weights is not None
    return weights


def _theorem(
    graph: Graph,
    cut: Cut,
    model: ModelSettings,
    weights: Tensor,
    settings: TrainSettings,
    places: list[tuple[int, str]],
) -> Theorem:
    # Theorem 3 is about rounding alone, so its factors come from a pass without dropout and with exact rows.
    undropped_model = replace(model, dropout=0.0, input_dropout=0.0)
    exact_workers, traces = traced_workers(graph, cut, make_system("vanilla"), undropped_model, settings)
    exact_workers.set_weights(weights)
    _, gradient = exact_workers.gradients(0)
    means = [LayerMeans(layer) for layer in sorted(traces[0].layers)]
    for mean in means:
        mean.add(traces, Fixed())
    terms = weight_terms(exact_workers.trainers[0].model, means, LocalGraph(graph).adjacency)
    reach = {place: _reach(exact_workers, *place) for place in places}
    # Only the weights that the theorem covers, so that bounds and gradient are comparable.
    squared_gradient = float(gradient[torch.cat([term.span for term in terms])].double().square().sum())
    return Theorem(terms, reach, squared_gradient)


def _reach(threads: ThreadedWorkers, layer: int, direction: str) -> Reach:
    """Return the nodes that each row of a layer and direction enters, with rows in the order of `Trace.messages_at`."""
    parts, start = [], 0
    workers = len(threads.shards)
    for sender in range(workers):
        for receiver in range(workers):
            holder, owner = (receiver, sender) if direction == "forward" else (sender, receiver)
            shard = threads.shards[holder]
            if sender == receiver or not (route := shard.plan("forward").from_peer(owner)).num_rows:
                continue
            rows = route.num_rows
            if direction == "backward":
                # Backward: the owner adds each row to the gradient of one node, with coefficient 1.
                row = torch.arange(rows)
                parts.append((row + start, route.ids, torch.ones(rows, dtype=torch.float64)))
            else:
                assert route.first is not None
                # Halo rows of one owner are contiguous, so a column minus the first is the row of the message.
                column = shard.indices.long() - shard.num_owned - route.first
                edge_index = ((column >= 0) & (column < rows)).nonzero().flatten()  # edges from this owner's halo rows
                # CSR to edge list: the local node at which each edge ends.
                destination = torch.repeat_interleave(torch.arange(shard.num_owned), shard.indptr.diff())[edge_index]
                alpha = _alpha(threads, holder, layer)[edge_index].double()
                parts.append((column[edge_index] + start, shard.owned[destination], alpha**2))
            start += rows  # rows of all messages are numbered consecutively
    empty_part = (torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0).double())
    return Reach(*(torch.cat(list(column)) for column in zip(*(parts or [empty_part]), strict=True)))
