"""PipeGCN (Wan et al., ICLR 2022): the exchange of one epoch overlaps the computation of the next."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.exchange.schedules.pipeline import Pipelined
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["pipegcn"]


@register_system
def pipegcn(*, feature_smoothing: float = 0.0, gradient_smoothing: float = 0.0, dropped_by: str = "receiver") -> System:
    """PipeGCN: float32 halo rows and gradients that are one epoch stale; PipeGCN-F, -G or -GF with smoothing.

    The published scripts use no smoothing; the code's default γ is 0.95. Its receivers apply dropout to halo rows, so
    rows are sent before projection; with ``dropped_by="owner"`` rows with fewer columns after projection are sent
    projected.
    """
    schedule = Pipelined(
        feature_smoothing=feature_smoothing, gradient_smoothing=gradient_smoothing, dropped_by=dropped_by
    )
    return replace(vanilla(), name="pipegcn", schedule=schedule)
