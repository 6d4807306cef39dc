"""Bytes of one epoch by formula: rows of the exchange times bytes of a row, summed over all aggregations of a model.

    halo        forward  Ω rows of D             backward  Ω rows of D, none of raw features
    replicas    forward  2 M rows of D           backward  2 M rows of D, none of raw features
    broadcast   forward  (P - 1) n rows of D     backward  (P - 1) n rows of O

Ω halo rows, M mirrors; with replication c a broadcast moves ``(P / c - 1) n + 2 (c - 1) n`` rows. A row of D columns in
b bits takes ``ceil(D b / 8)`` bytes and the codec's quantization parameters. Caches and samplers enter with their
expected share of rows. The formula needs no trace and no training, only the cut, for any number of workers.

Differs from :meth:`gnnqlab.tune.probe.Probe.forecast`, which computes the layout of every message and supports policies
with a bit-width per row; both are exact where the formula applies.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.message.direction import of_direction
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.system import System
from gnnqlab.train.aggregation_calls import record_aggregations, row_bytes
from gnnqlab.tune.volume import cached_share, shared_bytes

__all__ = ["epoch_bytes"]


def epoch_bytes(
    system: System,
    model: ModelSettings,
    sizes: PartitionSizes,
    *,
    features: int,
    classes: int,
    epoch: int | None = None,
) -> float:
    """Return the bytes of payload, quantization parameters and bases by all workers in one epoch.

    Headers and weight gradients are not counted. Bases count for one exchange key per kind of message, so they are
    exact for edge-cuts and broadcasts.

    Args:
        system: one bit-width for all rows of a direction.
        model: its settings.
        sizes: of the cut, ``PartitionSizes.from_shards(shards)``.
        features, classes: of the graph.
        epoch: for a cache or bases that depend on the epoch; by default a typical one.

    Raises:
        ValueError: if bit-widths differ between rows, or a part has no formula.

    Example:
        >>> from gnnqlab.systems import cagnet
        >>> shape, sizes = ModelSettings(layers=2, hidden=8), PartitionSizes(num_nodes=10, workers=3)
        >>> epoch_bytes(cagnet(), shape, sizes, features=4, classes=3)  # 2 * 10 * 4 * (4 + 8 + 3 + 3)
        1440.0
    """
    if sizes.workers == 1:
        return 0.0
    widths = {way: _width(system, way) for way in ("forward", "backward")}
    total, keys = 0.0, list[tuple[str, int]]()
    for aggregation in record_aggregations(model, features=features, classes=classes, system=system):
        for way, rows, columns in system.exchange.volumes(aggregation, sizes):
            share = cached_share(system.cache, way, epoch) * _sampled_share(system)
            total += share * rows * row_bytes(system, way, columns, widths[way])
            keys.append((way, columns))
    return total + shared_bytes(system, keys, sizes.workers, epoch)


def _width(system: System, direction: str) -> int:
    choices: Sequence[int] = of_direction(system.bits, direction).choices
    if len(choices) != 1:
        kind = type(of_direction(system.bits, direction)).__name__
        raise ValueError(
            f"bits must be one bit-width for a formula, got {kind} with {list(choices)}; use "
            "gq.probe(...).forecast(...)"
        )
    return choices[0]


def _sampled_share(system: System) -> float:
    return 1.0 if system.sampler.p >= 1.0 else float(system.sampler.p)
