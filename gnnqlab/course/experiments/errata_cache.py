"""What the slips of CDFGNN's cache and of its proof do, measured: some of ``MEASUREMENTS``."""

from __future__ import annotations

import torch

from gnnqlab.course.experiments.delta_drift import drift_of_deltas
from gnnqlab.course.experiments.errata_measured import Effect, measures
from gnnqlab.course.experiments.errata_sums import MEASUREMENTS
from gnnqlab.theory.cache import cache_bound

__all__ = ["MEASUREMENTS", "dropped_cross_term", "error_that_stays", "totals_for_differences", "undecoded_cache"]


def _linear(rows: torch.Tensor, bits: int) -> torch.Tensor:
    low = rows.amin()
    step = (rows.amax() - low) / 2**bits
    return torch.floor((rows - low) / step + 0.5).clamp(max=2**bits - 1) * step + low


@measures("CD-2")
def undecoded_cache() -> Effect:
    """Send 4-bit deltas of a drifting row, once with the sender keeping what receivers decode, once its own value."""
    figures = drift_of_deltas()
    return Effect(
        f"after 100 deltas of 4 bits replicas are {figures['own']:.1f} steps off if the sender keeps its own value, "
        f"{figures['decoded']:.2f} if it keeps the decoded one",
        figures,
    )


@measures("CD-4")
def totals_for_differences() -> Effect:
    """Send a total that moves by a twentieth an epoch in 4 bits: whole, as Algorithm 2 does, or as a difference."""
    figures = {}
    for name, differences in (("totals", False), ("differences", True)):
        generator = torch.Generator().manual_seed(0)
        total, held, squares = torch.randn(64, generator=generator), torch.zeros(64), 0.0
        for epoch in range(60):
            total = total + 0.05 * torch.randn(64, generator=generator)
            held = held + _linear(total - held, 4) if differences else _linear(total, 4)
            squares += float((held - total).square().mean()) if epoch >= 10 else 0.0
        figures[name] = (squares / 50) ** 0.5
    return Effect(
        f"a total that moves by 0.05 an epoch is {figures['totals']:.4f} off when it is quantized whole in 4 bits, "
        f"{figures['differences']:.4f} when its difference is",
        figures,
    )


def _descent(step: float, steps: int, error: float) -> tuple[float, list[float]]:
    """Walk down w²/2 with an error of the gradient that opposes it; return the mean of the squares, and the errors."""
    w, squares, errors = 1.0, 0.0, []
    for _ in range(steps):
        delta = -min(error, w)
        squares += w * w
        errors.append(delta * delta)
        w -= step * (w + delta)
    return squares / steps, errors


@measures("CD-5")
def dropped_cross_term() -> Effect:
    """Hold both readings of the bound against a descent whose error opposes the gradient; climb with W + η∇."""
    mean, errors = _descent(0.01, 10_000, 0.5)
    bounds = {
        reading: cache_bound(loss_gap=0.5, step=0.01, curvature=1.0, errors=errors, reading=reading).total
        for reading in ("kept", "printed")
    }
    climbed = 0.5 * (1.0 * 1.01**100) ** 2
    return Effect(
        f"on w²/2 with |Δ| = 0.5 the mean of ||∇L||² is {mean:.3f}; the bound as printed says {bounds['printed']:.3f}, "
        f"with the term {bounds['kept']:.3f}; and W + η∇ leads from a loss of 0.5 to {climbed:.2f} in 100 steps",
        {"mean": mean, "climbed": climbed, **bounds},
    )


@measures("CD-6")
def error_that_stays() -> Effect:
    """Let N grow with η = 1 / √N while the error stays: the mean of ||∇L||² goes to Δ², not to zero."""
    figures = {f"steps_{steps}": _descent(steps**-0.5, steps, 0.5)[0] for steps in (100, 10_000, 1_000_000)}
    first, second, third = figures.values()
    return Effect(
        f"with |Δ| = 0.5 and η = 1/√N the mean of ||∇L||² is {first:.3f}, {second:.3f} and {third:.3f} for N = 10², "
        "10⁴ and 10⁶: it goes to Δ² = 0.25",
        figures,
    )
