"""Aggregations of a model and bytes of their rows before a run, and warnings of settings that save none of them."""

from __future__ import annotations

import torch

from gnnqlab.bits.row import EXACT
from gnnqlab.exchange.traffic_model import AggregationCall, PartitionSizes
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources.sizes import least_size
from gnnqlab.message.direction import of_direction
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.observe import Observer, Observers, OperationEnded
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.node_features import num_features

__all__ = ["record_aggregations", "row_bytes", "unused_settings"]

_NARROW = 16
"""Largest dimension of hidden rows for which the bytes of codes are compared with those of float32."""


class _Aggregations(Observer):
    """Observer that records the kind and sizes of every aggregation of a pass."""

    def __init__(self) -> None:
        self.found: list[AggregationCall] = []

    def on_operation_ended(self, event: OperationEnded) -> None:
        if event.operation in ("aggregate", "convolve", "attend"):
            x = event.inputs[0]
            heads = x.shape[1] if event.operation == "attend" else 0  # rows of attention are (N, heads, columns)
            sizes = {"columns": x.flatten(1).shape[1], "out": event.output.flatten(1).shape[1], "heads": heads}
            self.found.append(AggregationCall(kind=event.operation, **sizes, needs_gradient=x.requires_grad))


def record_aggregations(model: ModelSettings, *, features: int, classes: int, system: System) -> list[AggregationCall]:
    """Return the aggregations of one training pass, recorded on a graph of two nodes.

    Args:
        model: its settings.
        features: columns of the node features.
        classes: number of classes.
        system: decides if rows with dropout are aggregated before they are projected.

    Example:
        >>> from gnnqlab.systems import vanilla
        >>> found = record_aggregations(ModelSettings(layers=2, hidden=8), features=4, classes=3, system=vanilla())
        >>> [(each.kind, each.columns, each.out) for each in found]
        [('convolve', 4, 8), ('aggregate', 3, 3)]
    """
    # Kinds and columns of aggregations do not depend on the graph, so two nodes are enough.
    tiny_graph = Graph.from_edges([0, 1], [1, 0], num_nodes=2, features=torch.zeros(2, features), self_loops="add")
    graph, aggregations = LocalGraph(tiny_graph), _Aggregations()
    # A model reads these to decide on which side of an aggregation it projects.
    graph.exchange.uses_stale_rows, graph.exchange.aggregates_before_projection = (
        system.uses_stale_rows,
        system.aggregates_before_projection,
    )
    network = build_model(model, features, classes, seed=0)
    network(graph.open_pass(0, training=True, observers=Observers([aggregations])), graph.features)
    return aggregations.found


def row_bytes(system: System, direction: str, columns: int, bits: int) -> int:
    """Return the bytes of one encoded row with its quantization parameters."""
    codec = of_direction(system.codec, direction)
    return -(-columns * bits // 8) + int(codec.param_bytes(bits, columns))  # whole bytes per row, rounded up


def unused_settings(config: RunConfig) -> list[str]:
    """Return warnings of settings that save no bytes with the model and graph of a run; empty if its size is unknown.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> unused_settings(configure("sbm:100,3,6", hidden=256, input_features="cache"))
        []
        >>> unused_settings(configure("sbm:100,3,6", hidden=16, input_features="cache"))
        ["input_features 'cache' has no effect, because model gcn sends no rows of input features: it projects the 6...
    """
    size, system, model = least_size(config.graph), config.system, config.model
    is_cached, is_narrow = config.train.input_features == "cache", model.hidden <= _NARROW
    has_codes = any(min(of_direction(system.bits, way).choices) < EXACT for way in ("forward", "backward"))
    if size is None or config.workers == 1 or not (is_cached or (is_narrow and has_codes)):
        return []
    try:
        features = num_features(size.features, config.task.node_features, config.model.hidden)
        calls = record_aggregations(model, features=features, classes=size.classes or model.hidden, system=system)
        sizes = _more_bytes(config, calls) if is_narrow and has_codes else None
    except Exception:  # a user's model or part may need a real graph; the workers report a wrong one
        return []
    warnings = []
    if is_cached and all(call.needs_gradient for call in calls):
        warnings.append(
            f"input_features 'cache' has no effect, because model {model.name} sends no rows of input features: it "
            f"projects the {features} features before it aggregates, or has no aggregation; leave it out"
        )
    if sizes is not None:
        warnings.append(
            f"rows of {model.hidden} hidden columns are too narrow to quantize: with quantization parameters system "
            f"{system.name} sends more bytes than float32, got at least {sizes[0]} per halo node and epoch, and "
            f"{sizes[1]} in float32; choose more hidden columns, or system vanilla"
        )
    return warnings


def _more_bytes(config: RunConfig, calls: list[AggregationCall]) -> tuple[int, int] | None:
    """Return the least bytes per halo node of an epoch with codes, and those in float32, if the first are more."""
    system, one_row = config.system, PartitionSizes(num_nodes=config.workers, workers=config.workers, copies=1)
    coded = plain = 0
    for call in calls:
        for way, rows, columns in system.exchange.volumes(call, one_row):
            float_bytes, choices = 4 * columns, of_direction(system.bits, way).choices
            sizes = (float_bytes if bits == EXACT else row_bytes(system, way, columns, bits) for bits in choices)
            coded, plain = coded + rows * min(sizes), plain + rows * float_bytes
    return (coded, plain) if coded > plain else None
