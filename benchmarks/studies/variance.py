"""Adaptive bit-widths compared with random ones at equal bytes: variance of the gradient.

Two workers on a METIS partition, the 3-layer GCN of 256 columns after some epochs with float32 messages. λ is the one
of least predicted variance whose assignment takes no more bytes than bit-widths drawn uniformly from 2, 4 and 8; the
traced ranges are those of the epoch before the measurement. A uniform 4 bits, of about the same bytes, is a second
rival. All is measured with several seeds of weights and noise: a ratio is the mean over them, and the last rows have
the range over all graphs and seeds.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

from benchmarks.engine.graphs import find_graph
from benchmarks.engine.rows import half_interval, row, seed_count_text

__all__ = ["variance"]

GRAPHS = {"digits": (20, 32), "cora": (20, 32), "coauthor_physics": (6, 12)}
"""Graph -> epochs of training, number of passes."""
GROUP_SIZES = (100, 10)
GOAL = 2.0
SEEDS = 5
METRIC = "gradient variance / ||gradient||²"
CHANCE, FOUR_BITS = "widths drawn from 2, 4, 8", "4 bits everywhere"


def variance(
    repeats: int | None = None, graphs: tuple[str, ...] = tuple(GRAPHS), seeds: int = SEEDS, first_seed: int = 0
) -> list[dict[str, Any]]:
    """Measure gradient variance; graphs that are not embedded are found as in ``bench epoch``.

    Args:
        repeats: passes of each variance; by default by graph.
        graphs: names.
        seeds: number of consecutive seeds of weights and noise, from ``first_seed``.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; also ``half_interval``, half the 95 % interval of the ratio, and
        ``lowest`` and ``highest`` ratio.

    Raises:
        ValueError: if there is no seed.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    rows: list[dict[str, Any]] = []
    ratios: dict[tuple[int, str], list[float]] = {}  # group size, rival -> ratios of all graphs and seeds
    for name in graphs:
        path = name if name == "digits" else find_graph(name)
        if path is None:
            print(f"bench variance: {name}.npz is missing, so its rows are omitted", flush=True)
            continue
        epochs, passes = GRAPHS.get(name, (20, 32))
        found: dict[tuple[int, str], list[_Measured]] = {}
        for seed in range(first_seed, first_seed + seeds):
            for key, measured in _measure(path, epochs, repeats or passes, seed).items():
                found.setdefault(key, []).append(measured)
        for (size, rival), several in found.items():
            case = f"{name}, 2 workers, groups of {size}, {seed_count_text(seeds, first_seed)}"
            rows.append(_row(case, several, rival))
            ratios.setdefault((size, rival), []).extend(each.ratio for each in several)
    for (size, rival), values in ratios.items():
        case, least = f"all graphs, groups of {size}, {seed_count_text(seeds, first_seed)}", min(values)
        detail = f", {least:.3g} to {max(values):.3g} times over graphs and seeds"
        goal = GOAL if rival == CHANCE else None
        rows.append(
            row(case, METRIC, None, "1", rival, None, least, goal, detail=detail, lowest=least, highest=max(values))
        )
    return rows


@dataclass(frozen=True)
class _Measured:
    """Variances of one seed, relative to the squared gradient, at a share of the bytes of random widths."""

    value: float
    rival_value: float
    share: float

    @property
    def ratio(self) -> float:
        return self.rival_value / self.value


def _row(case: str, several: list[_Measured], rival: str) -> dict[str, Any]:
    ratios = [each.ratio for each in several]
    value, rival_value = (
        statistics.fmean(getattr(each, name) for each in several) for name in ("value", "rival_value")
    )
    share = statistics.fmean(each.share for each in several)
    half = half_interval(ratios)
    detail = f", {share:.0%} of the bytes of random widths, {min(ratios):.3g} to {max(ratios):.3g} times over seeds"
    return row(
        case, METRIC, value, "1", rival, rival_value, statistics.fmean(ratios), GOAL if rival == CHANCE else None,
        detail=detail, half_interval=None if math.isinf(half) else half, lowest=min(ratios), highest=max(ratios),
    )  # fmt: skip


def _measure(path: str, epochs: int, repeats: int, seed: int) -> dict[tuple[int, str], _Measured]:
    """Measure one graph with one seed; return the result by group size and rival."""
    from gnnqlab.bits.assigner.assigned import Assigned
    from gnnqlab.bits.policy import BitPolicy, Fixed, UniformRandom
    from gnnqlab.course.experiments.time_and_variance import LAMS, least_variance
    from gnnqlab.graph.sources import load
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
    from gnnqlab.train.config.run_config import TrainSettings
    from gnnqlab.tune.offline_assigner import OfflineAssigner, Widths
    from gnnqlab.tune.trace import trace
    from gnnqlab.tune.wire import Wire

    graph, model = load(path), ModelSettings(dropout=0.0)
    weights = trained_weights(graph, model, epochs, seed=seed)
    settings = TrainSettings(seed=seed)
    assigner = OfflineAssigner(trace(graph, model, workers=2, epochs=epochs, settings=settings, theorem=False))
    index = len(assigner.trace.epochs) - 1
    cost = Wire(workers=2, theta_s_per_byte=1e-8).cost()  # 100 MB/s

    def total(widths: Widths) -> float:
        return float(sum(sizes.sum() for sizes in assigner.sent_bytes(widths).values()))

    def assign_widths(lam: float, size: int) -> Widths:
        return assigner.assign(Assigned(lam=lam, group_size=size), cost, index=index, transport="direct")

    def measure_variance(bits: BitPolicy) -> float:
        return gradient_noise(graph, bits, model, repeats=repeats, weights=weights, seed=seed).relative

    budget = total(assigner.choose(UniformRandom()))
    random_value, fixed_value = measure_variance(UniformRandom()), measure_variance(Fixed(bits=4))
    found = {}
    for size in GROUP_SIZES:
        _, widths = least_variance(
            [(lam, assign_widths(lam, size)) for lam in LAMS],
            budget,
            bytes_sent=lambda choice: total(choice[1]),
            variance=lambda choice: sum(assigner.variance(choice[1], index).values()),
        )
        value = measure_variance(assigner.build_policy(widths))
        share = total(widths) / budget
        found[size, CHANCE] = _Measured(value, random_value, share)
        found[size, FOUR_BITS] = _Measured(value, fixed_value, share)
    return found
