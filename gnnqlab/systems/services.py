"""Services that any system can have without another idea: what a fair table gives to all of them, or to none.

A message hidden behind central nodes, 16-bit parameters beside quantized rows, and weight gradients summed in bfloat16
under the backward pass are no part of what BNS-GCN, PipeGCN or SYLVIE claim, nor of what AdaQP's assignment does. A
system that has them beside one that lacks them wins by them too.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gnnqlab.exchange.schedules.schedule import Overlapped, Synchronous
from gnnqlab.message.direction import by_direction, of_direction
from gnnqlab.systems.system import System

__all__ = ["GRADIENTS", "services_of", "with_every_service"]

GRADIENTS = "bfloat16"
"""Type in which a training with every service sums its weight gradients (``TrainSettings.gradients``)."""
_SHORT = "bfloat16"


def with_every_service(system: System) -> System:
    """Return a system with every service that leaves its idea alone; its name gets a ``+``.

    A schedule that communicates and then computes becomes one that computes central nodes meanwhile, and the two
    float32 parameters of a quantized row become bfloat16. Schedules with old rows, samplers, caches and bits stay.

    Example:
        >>> from gnnqlab.systems import bns_gcn, vanilla
        >>> with_every_service(vanilla()).schedule, with_every_service(bns_gcn(p=0.2)).name
        (Overlapped(), 'bns-gcn+')
    """
    schedule = Overlapped() if system.schedule == Synchronous() else system.schedule
    codec = by_direction(system.codec, _shortened)
    return dataclasses.replace(system, name=f"{system.name}+", schedule=schedule, codec=codec)


def _shortened(codec: Any) -> Any:
    """The codec with bfloat16 parameters, if it has float32 ones."""
    return dataclasses.replace(codec, parameters=_SHORT) if codec.parameters == "float32" else codec


def services_of(system: System, gradients: str) -> dict[str, str]:
    """Return which services a training has, as the columns of a table.

    Args:
        system: as trained.
        gradients: of its ``TrainSettings``.

    Example:
        >>> from gnnqlab.systems import fixed_bits
        >>> services_of(fixed_bits(bits=2), "float32")
        {'schedule': 'Synchronous', 'parameters': 'float32', 'weight gradients': 'float32'}
    """
    codecs = [of_direction(system.codec, direction) for direction in ("forward", "backward")]
    parameters = {codec.parameters for codec in codecs}
    return {
        "schedule": type(system.schedule).__name__,
        "parameters": " and ".join(sorted(parameters)),
        "weight gradients": gradients,
    }
