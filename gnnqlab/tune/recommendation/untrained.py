"""Probe without a training: messages from the cut alone, seconds by constants of processors.

Every row has the same range, so a bit policy weighs rows by their number and the link only. Seconds are those of one
thread of a server processor of 2020 or later: they rank systems, a probe predicts better.
"""

from __future__ import annotations

import math

import torch

from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import build_model
from gnnqlab.partition.parts import cut_graph
from gnnqlab.partition.shard import Shard
from gnnqlab.systems.registry import make_system
from gnnqlab.terminal import show_elapsed
from gnnqlab.train.aggregation_calls import record_aggregations
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.estimate import estimate_timing
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.traced import Trace, TracedMessage

__all__ = ["estimate_probe"]

_ROWS = 4096
"""Rows of the largest halo that are laid out; of more rows, each stands for several."""
_EDGE_S = 4e-10
"""Seconds of one column of one edge in a sum over neighbours."""
_FLOP_S = 3e-11
"""Seconds of a multiplication and addition of a dense product, divided by two."""
_CODE_S = 1e-9
"""Seconds to encode, or to decode, one element."""
_ROW_S = 2e-9
"""Seconds of the loss, activations and norms for each element of an embedding."""
_WEIGHT_S = 4e-9
"""Seconds of the optimizer for each weight."""


@show_elapsed("partitioning the graph and counting its messages")
def estimate_probe(graph: Graph, config: RunConfig) -> Probe:
    """Return a probe from the cut of a graph.

    Args:
        graph: the whole graph.
        config: Vanilla with an edge-cut, the model, workers and link.

    Raises:
        ValueError: if the partitioner makes no edge-cut.
    """
    system = config.system_on_hosts
    if system.exchange.takes_cuts_of != "nodes":
        raise ValueError(
            f"an estimate needs an edge-cut, got partition {type(system.partition).__name__}; choose METIS() or a probe"
        )
    cut = cut_graph(graph, system.partition, config.workers, quick=True)
    shards = list(cut.build_shards(graph))
    sizes = {"features": graph.num_features, "classes": graph.num_classes}
    calls = record_aggregations(config.model, system=system, **sizes)
    # PipeGCN aggregates before it projects, so its rows may have other columns.
    late_calls = record_aggregations(config.model, system=make_system("pipegcn"), **sizes)
    messages: list[TracedMessage] = []
    columns_by_way: dict[str, int] = {"forward": 0, "backward": 0}
    most_rows = max(shard.num_halo for shard in shards)
    row_weight = max(1.0, most_rows / _ROWS)
    for layer, (call, late_call) in enumerate(zip(calls, late_calls, strict=True)):
        for direction in ("forward", "backward") if call.needs_gradient else ("forward",):
            messages += _messages(shards, layer, direction, (call.columns, late_call.columns), row_weight)
            columns_by_way[direction] += call.columns
    weights = _num_weights(config, graph)
    coded = row_weight * sum(each.num_rows * each.columns for each in messages)
    columns = sum(call.columns for call in calls)
    edges = sum(shard.num_edges for shard in shards)
    independent = {way: sum(shard.independent_edges(way) for shard in shards) for way in columns_by_way}
    seconds = {
        "central": _EDGE_S * sum(columns_by_way[way] * independent[way] for way in columns_by_way),
        "marginal": _EDGE_S * sum(columns_by_way[way] * (edges - independent[way]) for way in columns_by_way),
        "encode": _CODE_S * coded,
        "decode": _CODE_S * coded,
        "dense": _FLOP_S * 6 * graph.num_nodes * weights,  # two operations forward, four backward
        "other": _ROW_S * graph.num_nodes * columns,
    }
    phases = {name: amount / config.workers for name, amount in seconds.items()}  # means over workers
    own_trace = Trace(
        epochs=(1,),
        messages=tuple(sorted(messages, key=lambda each: (each.place, each.sender, each.receiver))),
        shards=tuple(shards),
        losses=(),
        weights=torch.zeros(weights),
        theorem=None,
        phases={**phases, "optimizer": _WEIGHT_S * weights},
        seed=config.train.seed,
        row_weight=row_weight,
        attention_layers=frozenset(layer for layer, call in enumerate(calls) if call.kind == "attend"),
    )
    timing = estimate_timing(config, own_trace)
    return Probe(config=config, trace=own_trace, timing=timing, wire=timing.wire)


def _messages(
    shards: list[Shard], layer: int, direction: str, columns_of: tuple[int, int], row_weight: float
) -> list[TracedMessage]:
    """Return the messages of one layer and direction, with rows of equal ranges.

    Args:
        shards: of all workers.
        layer, direction: of the messages.
        columns_of: columns if projected first, and if aggregated first.
        row_weight: number of rows that each one stands for.
    """
    columns, aggregate_first_columns = columns_of
    messages = []
    for shard in shards:
        for route in shard.plan(direction).send:
            rows = math.ceil(route.num_rows / row_weight)
            if not rows:
                continue
            ones = torch.ones(1, rows)  # (T, n) with one epoch
            # Root of the squared error of D uniform values with range 1 in b bits: sqrt(D / 6) / (2^b - 1).
            errors = [math.sqrt(columns / 6) / (2**bits - 1) for bits in (1, 2, 4)]
            messages.append(
                TracedMessage(
                    layer=layer,
                    direction=direction,
                    sender=shard.rank,
                    receiver=route.peer,
                    columns=columns,
                    ids=route.ids[:rows],
                    use=torch.ones(rows, dtype=torch.float64),
                    released_use=torch.ones(rows, dtype=torch.float64),
                    ranges=ones,
                    norms=math.sqrt(columns / 3) * ones,
                    min_max_errors=torch.tensor(errors).expand(1, rows, 3),
                    aggregate_first_columns=aggregate_first_columns,
                )
            )
    return messages


def _num_weights(config: RunConfig, graph: Graph) -> int:
    network = build_model(config.model, graph.num_features, graph.num_classes, seed=0)
    return sum(weight.numel() for weight in network.parameters())
