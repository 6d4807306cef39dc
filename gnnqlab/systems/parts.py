"""Registry of the parts of each axis by name, and their conversion to and from JSON.

To add a part, write its class in the axis's package and add one line here. A part outside this package needs no line:
JSON holds it as ``module:Class``, which is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from gnnqlab.axis_part import AxisPart, complete, missing
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.exact_at import DIRECTIONS, ExactAt
from gnnqlab.bits.growing import Growing
from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.bits.policy import Bits, Fixed, UniformRandom
from gnnqlab.by_name import did_you_mean, load, name_of
from gnnqlab.compute import BFloat16Rows, Compute, ExactActivations, Float32Products, Int8Products
from gnnqlab.exchange.broadcast.exchange import Broadcast
from gnnqlab.exchange.columns.exchange import Columns
from gnnqlab.exchange.halo.exchange import Halo
from gnnqlab.exchange.protocol import ExchangePart
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped, Schedule, Synchronous
from gnnqlab.exchange.schedules.sequential import Sequential
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.former_names import with_former_names, with_present_names
from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
from gnnqlab.message.caches.cache import Cache, NoCache, Unchanged
from gnnqlab.message.caches.difference import Difference
from gnnqlab.message.caches.feedback import Feedback
from gnnqlab.message.caches.stale_blocks import StaleBlocks
from gnnqlab.message.codecs.bfloat16 import BFloat16
from gnnqlab.message.codecs.codec import Codec, Float32, Stochastic
from gnnqlab.message.codecs.fp8 import FP8, MXFP8
from gnnqlab.message.codecs.least_variance import LeastVariance
from gnnqlab.message.codecs.linear import Linear
from gnnqlab.message.codecs.low_rank import LowRank
from gnnqlab.message.codecs.rotated import Rotated
from gnnqlab.message.codecs.spikes import Spikes
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.message.samplers import AllRows, BoundarySampling, Sampler
from gnnqlab.partition.column_shard import WholeGraph
from gnnqlab.partition.contiguous import Contiguous
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.dne import DNE
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.edge_cut import METIS, Random
from gnnqlab.partition.hep import HEP
from gnnqlab.partition.mt_kahypar import MtKaHyPar
from gnnqlab.partition.random_clusters import RandomClusters
from gnnqlab.partition.streamed import HDRF, RandomEdges
from gnnqlab.settings import settings_in

__all__ = [
    "PARTS",
    "check_part",
    "former_part",
    "part_from_json",
    "part_to_json",
    "partitioner_named",
    "without_former_defaults",
    "wrap_part",
    "wraps",
]

PARTS: dict[str, dict[str, Any]] = {
    "partition": {
        "metis": METIS,
        "mt-kahypar": MtKaHyPar,
        "random": Random,
        "random-clusters": RandomClusters,
        "ebv": EBV,
        "hep": HEP,
        "dne": DNE,
        "hdrf": HDRF,
        "random-edges": RandomEdges,
        "contiguous": Contiguous,
        "whole-graph": WholeGraph,
    },
    "exchange": {"halo": Halo, "replicas": Replicas, "broadcast": Broadcast, "columns": Columns},
    "sampler": {"all": AllRows, "boundary-sampling": BoundarySampling},
    "cache": {
        "none": NoCache,
        "unchanged": Unchanged,
        "adaptive": AdaptiveCache,
        "stale-blocks": StaleBlocks,
        "difference": Difference,
        "feedback": Feedback,
    },
    "codec": {
        "float32": Float32,
        "bfloat16": BFloat16,
        "stochastic": Stochastic,
        "linear": Linear,
        "rotated": Rotated,
        "least-variance": LeastVariance,
        "low-rank": LowRank,
        "spikes": Spikes,
        "fp8": FP8,
        "mxfp8": MXFP8,
    },
    "bits": {
        "fixed": Fixed,
        "uniform-random": UniformRandom,
        "growing": Growing,
        "exact-at": ExactAt,
        "assigned": Assigned,
        "orchestrated": Orchestrated,
    },
    "schedule": {
        "synchronous": Synchronous,
        "overlapped": Overlapped,
        "pipelined": Pipelined,
        "adaptive-pipeline": AdaptivePipeline,
        "sequential": Sequential,
    },
    "compute": {
        "float32": Float32Products,
        "bfloat16": BFloat16Rows,
        "int8": Int8Products,
        "exact": ExactActivations,
    },
}
"""Axis -> name -> class."""

BASES: dict[str, type[AxisPart]] = {
    "partition": Partitioner,
    "exchange": ExchangePart,
    "sampler": Sampler,
    "cache": Cache,
    "codec": Codec,
    "bits": Bits,
    "schedule": Schedule,
    "compute": Compute,
}
"""Axis -> base class with the members that other axes read, and the abstract ones that a part must define."""
BY_DIRECTION = ("codec", "bits")
"""Axes that accept one part for the forward and another for the backward direction."""


def check_part(axis: str, part: Any) -> None:
    """Check that an object is a part of an axis; add missing defaults to a part without the axis's base class.

    Raises:
        ValueError: if it is not a dataclass instance, or lacks required members.
    """
    if isinstance(part, ByDirection) and axis in BY_DIRECTION:  # other axes refuse a pair below
        check_part(axis, part.forward)
        check_part(axis, part.backward)
        return
    base = BASES[axis]
    missing_members = missing(part, base)
    # `is_dataclass` is also true for a class, which a caller passes by mistake: Fixed for Fixed().
    if missing_members or isinstance(part, type) or not dataclasses.is_dataclass(part):
        choices = ", ".join(f"{kind.__name__}()" for kind in PARTS[axis].values())
        raise ValueError(
            f"{axis} must be a part of that axis, a dataclass instance with {base.needed()}, got {part!r}"
            f"{_missing_text(part, missing_members)}; choose {choices} or write one"
        )
    complete(part, base)


def _missing_text(part: Any, members: Iterable[str]) -> str:
    """Describe the members that a dataclass instance lacks, for an error message."""
    # For any other object the list of all members would not help.
    has_text = members and dataclasses.is_dataclass(part) and not isinstance(part, type)
    return f" without {' and '.join(members)}" if has_text else ""


_PAIR = "by-direction"


def part_to_json(axis: str, part: Any) -> dict[str, Any]:
    """Convert a part to ``{"name": ..., its settings}``; a part wrapped inside is converted likewise.

    Raises:
        ValueError: if the part is not a dataclass instance, or workers cannot import its class.
    """
    # A pair is a nested object, one entry per direction.
    if isinstance(part, ByDirection):
        pair = {direction: part_to_json(axis, getattr(part, direction)) for direction in ("forward", "backward")}
        return {"name": _PAIR, **pair}
    if not dataclasses.is_dataclass(part):
        raise ValueError(f"a part of the axis {axis!r} must be a dataclass instance, got {part!r}")
    names = {cls: name for name, cls in PARTS[axis].items()}  # the exact class: a subclass gets its module name
    kind = type(part)
    if kind in names:
        name = names[kind]
    else:
        name = name_of(kind)
    settings = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    inner_parts = {
        key: part_to_json(axis, setting) for key, setting in settings.items() if dataclasses.is_dataclass(setting)
    }
    return {"name": name, **settings, **inner_parts}


def part_from_json(axis: str, value: dict[str, Any]) -> Any:
    """Build a part from the result of :func:`part_to_json`.

    Raises:
        ValueError: if the name or a setting is unknown; the message lists the known ones.
    """
    settings = dict(value)  # a copy, because `pop` must not change the caller's value
    name = settings.pop("name")
    if name == _PAIR and axis in BY_DIRECTION:
        return ByDirection(**{direction: part_from_json(axis, part) for direction, part in settings.items()})
    if ":" in name:  # a part outside this package
        kind = load(name)
    elif name in PARTS[axis]:
        kind = PARTS[axis][name]
    else:
        known_parts = f"{sorted(PARTS[axis])} or module:Class"
        raise ValueError(f"{axis} must be one of {known_parts}, got {name!r}{did_you_mean(name, PARTS[axis])}")
    settings = {**_former_defaults(axis, kind), **with_present_names(settings, settings_in(kind), warn=False)}
    # Checked here, because the TypeError of a constructor would not list the known settings.
    known_names = {field.name for field in dataclasses.fields(kind)}
    if not set(settings) <= known_names:
        raise ValueError(
            f"{axis} {name!r} has the settings {sorted(known_names)}, got {sorted(set(settings) - known_names)}"
        )
    # JSON has no tuples, and a frozen part compares and hashes by its tuples.
    lists = {key: tuple(setting) for key, setting in settings.items() if isinstance(setting, list)}
    # Parts inside a part, such as the policy that `exact-at` wraps.
    inner_parts = {
        key: part_from_json(axis, part) for key, part in settings.items() if isinstance(part, dict) and "name" in part
    }
    return kind(**{**settings, **lists, **inner_parts})


def _former_defaults(axis: str, kind: type) -> Mapping[str, Any]:
    return kind.former_defaults if issubclass(kind, BASES[axis]) else {}


def without_former_defaults(axis: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a part without the settings that have the value of versions before them.

    Example:
        >>> from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
        >>> cache = part_to_json("cache", AdaptiveCache(totals="moved"))
        >>> "totals" in cache, "totals" in without_former_defaults("cache", cache)
        (True, False)
    """
    kind = PARTS[axis].get(value["name"])  # None: a pair by direction, or a part of the user's own
    added = {} if kind is None else _former_defaults(axis, kind)
    return {name: setting for name, setting in value.items() if (name, setting) not in added.items()}


def former_part(axis: str, value: dict[str, Any]) -> dict[str, Any]:
    """Convert the JSON of a part to that of versions before its settings had their present names."""
    parts = {key: former_part(axis, each) for key, each in value.items() if isinstance(each, dict) and "name" in each}
    kind = PARTS[axis].get(value["name"])  # None: a pair by direction, or a part of the user's own
    return with_former_names({**value, **parts}, [] if kind is None else settings_in(kind))


def partitioner_named(name: str, seed: int) -> Any:
    """Build a partitioner by name, with the run's seed if it has one.

    Raises:
        ValueError: if the name is unknown; the message lists the known ones.
    """
    partitioners = PARTS["partition"]
    if name not in partitioners:
        raise ValueError(
            f"partition must be one of {sorted(partitioners)}, got {name!r}{did_you_mean(name, partitioners)}"
        )
    # deterministic ones have none
    has_seed = any(field.name == "seed" for field in dataclasses.fields(partitioners[name]))
    return partitioners[name](**({"seed": seed} if has_seed else {}))


def wraps(part: Any) -> bool:
    """Return True for a part that wraps the system's own part of its axis; a pair replaces it as a whole."""
    return not isinstance(part, ByDirection) and part.wraps


def wrap_part(part: Any, present: Any) -> Any:
    """Return the part of an axis after its replacement: the new part, wrapped around the present one if it wraps.

    Args:
        part: a part, such as :class:`gnnqlab.bits.exact_at.ExactAt`, or a pair of parts.
        present: the part, or pair, to replace or to wrap.
    """
    if not wraps(part):
        return part
    # Each policy of a pair is wrapped with the points of its own direction.
    if isinstance(present, ByDirection):
        return ByDirection(*(part.wrap(of_direction(present, direction), direction) for direction in DIRECTIONS))
    return part.wrap(present)
