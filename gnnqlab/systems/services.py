"""Common optimizations that any system can use; a fair comparison enables them for all systems or for none.

Overlap with central nodes, 16-bit quantization parameters, and weight gradients all-reduced in bfloat16 during the
backward pass are not contributions of BNS-GCN, PipeGCN or SYLVIE, nor of AdaQP's assignment. A system with them has an
advantage over one without that does not come from its own method.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gnnqlab.exchange.schedules.schedule import Overlapped, Synchronous
from gnnqlab.message.direction import by_direction, of_direction
from gnnqlab.systems.system import System

__all__ = ["GRADIENTS", "services_of", "with_every_service"]

GRADIENTS = "bfloat16"
"""Data type of all-reduced weight gradients with every service (``TrainSettings.gradients``)."""
_SHORT = "bfloat16"


def with_every_service(system: System) -> System:
    """Return a system with all common optimizations that do not change its method; its name gets a ``+``.

    A synchronous schedule becomes one that overlaps central nodes with communication, if the exchange has sums that
    need no received rows, and the two float32 quantization parameters of a row become bfloat16. Schedules with stale
    rows, samplers, caches and bits are unchanged.

    Example:
        >>> from gnnqlab.systems import bns_gcn, vanilla
        >>> with_every_service(vanilla()).schedule, with_every_service(bns_gcn(p=0.2)).name
        (Overlapped(), 'bns-gcn+')
    """
    # Only the default is replaced: a schedule that a method chooses is a part of the method.
    may_overlap = system.exchange.overlaps and system.schedule == Synchronous()
    schedule = Overlapped() if may_overlap else system.schedule
    codec = by_direction(system.codec, _shortened)
    return dataclasses.replace(system, name=f"{system.name}+", schedule=schedule, codec=codec)


def _shortened(codec: Any) -> Any:
    """Return the codec with bfloat16 quantization parameters if it has float32 ones."""
    # Codecs without parameters, or with other ones by their method, are unchanged.
    return dataclasses.replace(codec, parameters=_SHORT) if codec.parameters == "float32" else codec


def services_of(system: System, gradients: str) -> dict[str, str]:
    """Return the common optimizations of a training as table columns.

    Args:
        system: the trained system.
        gradients: ``TrainSettings.gradients`` of the training.

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
