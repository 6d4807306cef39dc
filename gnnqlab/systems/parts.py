"""The parts each axis offers, by name, and how a part turns into JSON and back.

To add a part: write its class in the axis's room and add one line here. A part of your own needs no line: it
is written to JSON as ``module:Class`` and found again by import.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from gnnqlab.bits.assigned import Assigned
from gnnqlab.bits.growing import Growing
from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.bits.policy import Fixed, UniformRandom
from gnnqlab.exchange.halo import Halo
from gnnqlab.exchange.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedule import Overlapped, Synchronous
from gnnqlab.message.codec import Float32, Stochastic
from gnnqlab.message.sampler import AllRows, BoundarySampling
from gnnqlab.partition.edge_cut import METIS, Random
from gnnqlab.systems.defaults import Float32Products, NoCache

__all__ = ["PARTS", "part_from_json", "part_to_json"]

PARTS: dict[str, dict[str, type]] = {
    "partition": {"metis": METIS, "random": Random},
    "exchange": {"halo": Halo},
    "sampler": {"all": AllRows, "boundary-sampling": BoundarySampling},
    "cache": {"none": NoCache},
    "codec": {"float32": Float32, "stochastic": Stochastic},
    "bits": {
        "fixed": Fixed,
        "uniform-random": UniformRandom,
        "growing": Growing,
        "assigned": Assigned,
        "orchestrated": Orchestrated,
    },
    "schedule": {
        "synchronous": Synchronous,
        "overlapped": Overlapped,
        "pipelined": Pipelined,
        "adaptive-pipeline": AdaptivePipeline,
    },
    "compute": {"float32": Float32Products},
}
"""Axis -> name -> class."""


def part_to_json(axis: str, part: Any) -> dict[str, Any]:
    """Return a part as ``{"name": ..., its settings}``.

    Raises:
        ValueError: if the part is no dataclass, or was defined where workers cannot import it.
    """
    if not dataclasses.is_dataclass(part):
        raise ValueError(f"a part of the axis {axis!r} must be a dataclass instance, got {part!r}")
    names = {cls: name for name, cls in PARTS[axis].items()}
    kind = type(part)
    if kind in names:
        name = names[kind]
    elif kind.__module__ == "__main__":
        raise ValueError(
            f"{kind.__name__} is defined in a notebook cell or script, where workers cannot import it; move it to a "
            "module (a .py file beside the notebook) and import it from there"
        )
    else:
        name = f"{kind.__module__}:{kind.__qualname__}"
    settings = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return {"name": name, **settings}


def part_from_json(axis: str, value: dict[str, Any]) -> Any:
    """Return the part that :func:`part_to_json` wrote.

    Raises:
        ValueError: if the name or a setting is unknown; the message lists the known ones.
    """
    settings = dict(value)
    name = settings.pop("name")
    if ":" in name:
        module, _, attribute = name.partition(":")
        kind = getattr(importlib.import_module(module), attribute)
    elif name in PARTS[axis]:
        kind = PARTS[axis][name]
    else:
        raise ValueError(f"{axis} must be one of {sorted(PARTS[axis])} or module:Class, got {name!r}")
    known = {field.name for field in dataclasses.fields(kind)}
    if not set(settings) <= known:
        raise ValueError(f"{axis} {name!r} has the settings {sorted(known)}, got {sorted(set(settings) - known)}")
    lists = {key: tuple(setting) for key, setting in settings.items() if isinstance(setting, list)}
    return kind(**{**settings, **lists})
