"""What the group size does to bytes and to measured gradient variance, without a launched run (AdaQP Fig. 11a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.given import GraphLike

__all__ = ["group_size_table"]


def group_size_table(
    graph: GraphLike,
    *,
    sizes: Sequence[int] = (5, 20, 100),
    seeds: Sequence[int] = (0, 1, 2),
    lam: float = 0.5,
    repeats: int = 12,
    epochs: int = 12,
    **settings: Any,
) -> DataFrame:
    """Return a line for each group size and seed: ``group_size, seed, variance, bytes_sent``.

    A seed has its own weights, traced ranges and noise. The variance is measured over ``repeats`` passes at the last
    traced weights.

    Args:
        graph: a graph, or its name or path.
        sizes: rows that share a width.
        seeds: of weights and noise.
        lam: λ.
        repeats: passes with independent noise.
        epochs: to trace.
        **settings: as for `gnnqlab.tune.probe.probe`.
    """
    import pandas as pd

    from gnnqlab.graph.sources import load
    from gnnqlab.simulation.gradient_noise import gradient_noise
    from gnnqlab.tune.probe import probe

    whole = load(graph)
    rows = []
    for seed in seeds:
        seen = probe(graph, seed=seed, epochs=epochs, launched=False, theorem=False, **settings)
        for size in sizes:
            forecast = seen.forecast(lam=lam, group_size=size)
            noise = gradient_noise(
                whole,
                seen.installed(forecast),
                seen.config.model,
                workers=seen.config.workers,
                repeats=repeats,
                weights=seen.trace.weights,
                system=seen.config.placed,
                seed=seed,
            )
            rows.append((size, seed, noise.variance, forecast.bytes_sent))
    return pd.DataFrame(rows, columns=["group_size", "seed", "variance", "bytes_sent"])
