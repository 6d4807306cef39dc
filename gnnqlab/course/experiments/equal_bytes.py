"""Adaptive widths and widths without a plan at the same bytes: the variance that each brings into the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.tune.forecast import Forecast
    from gnnqlab.tune.probe import Probe

__all__ = ["LAMS", "at_equal_bytes", "least_variance", "variance_at_equal_bytes"]

LAMS = tuple(float(lam) for lam in np.linspace(0, 1, 41))
"""The λ that are tried."""
Setting = TypeVar("Setting")


def least_variance(
    tried: Iterable[Setting],
    limit: float,
    *,
    bytes_sent: Callable[[Setting], float],
    variance: Callable[[Setting], float],
) -> Setting:
    """Return the setting of least predicted variance among those that send no more than ``limit`` bytes an epoch.

    Raises:
        ValueError: if all send more.

    Example:
        >>> least_variance([(8, 9.0), (4, 2.0), (2, 1.0)], 5, bytes_sent=lambda s: s[0], variance=lambda s: s[1])
        (2, 1.0)
    """
    fitting = [each for each in tried if bytes_sent(each) <= limit]
    if not fitting:
        raise ValueError(f"no λ keeps to {limit:g} bytes; allow more (λ = 0 spares time, not bytes)")
    return min(fitting, key=variance)


def at_equal_bytes(
    probe: Probe, *, most_bytes: int | None = None, group_size: int = 10, widths: tuple[int, ...] = (2, 4, 8)
) -> Forecast:
    """Return the assigned setting of least variance that takes no more bytes than widths drawn at random.

    Args:
        probe: of a graph, a model and a link.
        most_bytes: another limit, in an epoch.
        group_size: rows that share a width.
        widths: to choose from.

    Raises:
        ValueError: if even λ = 0 takes more.
    """
    limit = probe.forecast(system="random-bits", among=widths).bytes_sent if most_bytes is None else most_bytes
    front = probe.front(LAMS, group_size=group_size, widths=widths)
    return least_variance(
        front, limit, bytes_sent=lambda each: each.bytes_sent, variance=lambda each: each.total_variance
    )


def variance_at_equal_bytes(
    graph: Graph,
    probe: Probe,
    *,
    most_bytes: int | None = None,
    group_size: int = 10,
    repeats: int = 16,
    widths: tuple[int, ...] = (2, 4, 8),
) -> DataFrame:
    """Measure gradient variance of assigned widths, of random ones and of 4 bits everywhere, about the same bytes each.

    Args:
        graph: the graph that was probed.
        probe: its probe; variance is measured at the weights of its last traced epoch.
        most_bytes: that the assigned widths may take in an epoch; as many as random ones if not given.
        group_size: rows that share a width.
        repeats: passes with independent noise.
        widths: that are assigned or drawn.

    Returns:
        By setting: ``kB`` an epoch, predicted ``V``, measured ``variance`` with the standard error ``±``, and
        ``times``, that variance over the assigned one's.
    """
    import pandas as pd

    from gnnqlab.bits.policy import BitPolicy, Fixed, UniformRandom
    from gnnqlab.simulation.gradient_noise import gradient_noise

    ours = at_equal_bytes(probe, most_bytes=most_bytes, group_size=group_size, widths=widths)
    chance = probe.forecast(system="random-bits", among=widths)
    four = probe.forecast(system="fixed-bits", bits=4)
    settings: list[tuple[str, Forecast, BitPolicy]] = [
        (f"assigned, λ = {ours.lam:.3g}", ours, probe.installed(ours)),
        ("drawn at random", chance, UniformRandom(among=widths)),
        ("4 bits everywhere", four, Fixed(bits=4)),
    ]
    rows = []
    for name, forecast, bits in settings:
        noise = gradient_noise(
            graph,
            bits,
            probe.config.model,
            workers=probe.config.workers,
            repeats=repeats,
            weights=probe.trace.weights,
            system=probe.config.placed,
            seed=probe.config.train.seed,
        )
        rows.append((name, forecast.bytes_sent / 1e3, forecast.total_variance, noise.variance, noise.standard_error))
    table = pd.DataFrame(rows, columns=["setting", "kB", "V", "variance", "±"]).set_index("setting")
    table["times"] = table["variance"] / table["variance"].iloc[0]
    return table
