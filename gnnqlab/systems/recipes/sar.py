"""SAR (Mostafa, MLSys 2022): sequential aggregation and rematerialization."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.exchange.schedules.sequential import Sequential
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["sar"]


@register_system
def sar(*, depth: int = 1) -> System:
    """SAR: float32 rows of one worker at a time, freed after use, while those of ``depth`` others are received.

    Attention fetches its rows again in the backward pass and saves no coefficients; sums need no rows in the backward
    pass.
    """
    return replace(vanilla(), name="sar", schedule=Sequential(depth=depth))
