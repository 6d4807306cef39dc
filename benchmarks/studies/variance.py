"""Adaptive bit-widths compared with random ones at equal bytes: variance of the gradient.

Two workers on a METIS partition, the 3-layer GCN of 256 columns after some epochs with float32 messages. λ is the one
of least predicted variance whose assignment takes no more bytes than bit-widths drawn uniformly from 2, 4 and 8; the
traced ranges are those of the epoch before the measurement. A uniform 4 bits, of about the same bytes, is a second
rival.
"""

from __future__ import annotations

from typing import Any

from benchmarks.engine.graphs import find_graph
from benchmarks.engine.rows import row

__all__ = ["variance"]

GRAPHS = {"digits": (20, 32), "cora": (20, 32), "coauthor_physics": (6, 12)}
"""Graph -> epochs of training, number of passes."""
GROUP_SIZES = (100, 10)
GOAL = 2.0


def variance(repeats: int | None = None, graphs: tuple[str, ...] = tuple(GRAPHS)) -> list[dict[str, Any]]:
    """Measure gradient variance; graphs that are not embedded are found as in ``bench epoch``.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.
    """
    rows = []
    for name in graphs:
        path = name if name == "digits" else find_graph(name)
        if path is None:
            print(f"bench variance: {name}.npz is missing, so its rows are omitted", flush=True)
            continue
        epochs, passes = GRAPHS.get(name, (20, 32))
        rows += _rows(name, path, epochs, repeats or passes)
    return rows


def _rows(name: str, path: str, epochs: int, repeats: int) -> list[dict[str, Any]]:
    from gnnqlab.bits.assigner.assigned import Assigned
    from gnnqlab.bits.policy import BitPolicy, Fixed, UniformRandom
    from gnnqlab.course.experiments.time_and_variance import LAMS, least_variance
    from gnnqlab.graph.sources import load
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
    from gnnqlab.tune.offline_assigner import OfflineAssigner, Widths
    from gnnqlab.tune.trace import trace
    from gnnqlab.tune.wire import Wire

    graph, model = load(path), ModelSettings(dropout=0.0)
    weights = trained_weights(graph, model, epochs)
    assigner = OfflineAssigner(trace(graph, model, workers=2, epochs=epochs, theorem=False))
    index = len(assigner.trace.epochs) - 1
    cost = Wire(workers=2, theta_s_per_byte=1e-8).cost()  # 100 MB/s

    def total(widths: Widths) -> float:
        return float(sum(sizes.sum() for sizes in assigner.sent_bytes(widths).values()))

    def assign_widths(lam: float, size: int) -> Widths:
        return assigner.assign(Assigned(lam=lam, group_size=size), cost, index=index, transport="direct")

    def measure_variance(bits: BitPolicy) -> float:
        return gradient_noise(graph, bits, model, repeats=repeats, weights=weights).relative

    budget = total(assigner.choose(UniformRandom()))
    random_value, fixed_value = measure_variance(UniformRandom()), measure_variance(Fixed(bits=4))
    rows = []
    for size in GROUP_SIZES:
        lam, widths = least_variance(
            [(lam, assign_widths(lam, size)) for lam in LAMS],
            budget,
            bytes_sent=lambda choice: total(choice[1]),
            variance=lambda choice: sum(assigner.variance(choice[1], index).values()),
        )
        value = measure_variance(assigner.build_policy(widths))
        share = total(widths) / budget
        case = f"{name}, 2 workers, groups of {size}, λ = {lam:g}"
        metric, detail = "gradient variance / ||gradient||²", f", {share:.0%} of the bytes of random widths"
        random_rival = ("widths drawn from 2, 4, 8", random_value, random_value / value, GOAL)
        rows.append(row(case, metric, value, "1", *random_rival, detail=detail))
        four_bit_share = total(assigner.choose(Fixed(bits=4))) / budget
        rival = f"4 bits everywhere, {four_bit_share:.0%} of the bytes"
        rows.append(row(case, metric, value, "1", rival, fixed_value, fixed_value / value, detail=detail))
    return rows
