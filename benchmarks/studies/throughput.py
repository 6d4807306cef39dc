"""Throughput of all systems relative to Vanilla over slow links, for every model (SYLVIE section VI-B, Fig. 9).

Each contestant is compared with two limits of the same run: computation alone, and its own bytes at the rate of the
link. No schedule is faster than the larger of the two.

Published systems have two lines: as published and, with a ``+``, with every optimization of this library that leaves
their method unchanged (``systems/services.py``), which the systems of this library have too. An adaptive system, which
decides about bit-widths and staleness, trains until its decisions converge; its speed, bit-widths, staleness and score
are of that training.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.engine.link_run import ALONE, LinkMeasurement, measure_in_turn, measure_run, usual_graph
from benchmarks.engine.rows import require_among, row
from benchmarks.engine.trained import mean_of
from gnnqlab.study.result import MARGIN
from gnnqlab.systems.services import GRADIENTS, with_every_service

if TYPE_CHECKING:
    from gnnqlab.systems.system import System
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["CONTESTANTS", "MODELS", "throughput"]

SHARES = (0.89, 0.94)
"""Communication shares of Vanilla's epoch reported by SYLVIE (section I)."""
MODELS: Mapping[str, Mapping[str, Any]] = {
    "gcn": {"layers": 3, "hidden": 256},
    "graphsage": {"layers": 3, "hidden": 256},
    "gat": {"layers": 2, "hidden": 256, "heads": 1},
    "gcnii": {"layers": 8, "hidden": 256},
    "dagnn": {"layers": 8, "hidden": 256},
    "sgc": {"layers": 8, "hidden": 256},
    "jknet": {"layers": 8, "hidden": 128},
}
"""Shapes of SYLVIE Table VI on Reddit; GCN and GraphSAGE with 3 layers, as in AdaQP."""
NODES = {
    "gcn": 40_000,
    "graphsage": 40_000,
    "gat": 40_000,
    "gcnii": 20_000,
    "dagnn": 40_000,
    "sgc": 40_000,
    "jknet": 40_000,
}
"""Nodes of the default graph, fewer if Vanilla's epochs over a slow link would take half a minute. With fewer nodes the
gradient all-reduce has a larger share, because it does not depend on them."""
WIDE = ("gcn", "graphsage", "gcnii", "sgc")
"""Models whose messages have 256 columns, except in the last layer."""


@dataclass(frozen=True)
class _Contestant:
    """System with its settings and goals."""

    system: Callable[[], System]
    settings: Mapping[str, Any]
    of_bound: float | None = None
    """Goal: least share of its bound."""
    times: float | None = None
    """Goal: least speed-up over Vanilla at 94 % communication."""
    longer: int = 1
    """Factor for the number of epochs, if they are short: a median of few is sensitive to other load."""
    is_adaptive: bool = False
    """True if it is adaptive: epochs differ, because it decides about bit-widths and staleness during the training."""

    def epoch_settings(self, epochs: int) -> dict[str, Any]:
        """Return its number of epochs and period of evaluation, in a measurement of ``epochs``."""
        if self.is_adaptive:
            return {"epochs": max(epochs, SETTLED), "evaluate_every": EVERY}
        return {"epochs": epochs * self.longer, "evaluate_every": 0}


MEDIAN = "epoch, median"
SETTLED = 120
"""Epochs after which SYLVIE's bit-widths and staleness have converged; its first epochs are its fastest."""
UNLINKED = "vanilla, as many epochs"
"""Vanilla's training for the comparison of scores: without a link, which float32 scores do not depend on."""
EVERY = 10
"""Epochs between evaluations of adaptive systems."""


def _pipelined(bits: int) -> System:
    from gnnqlab.exchange.schedules.pipeline import Pipelined
    from gnnqlab.systems import fixed_bits

    system = fixed_bits(bits=bits, parameters="bfloat16")
    return replace(system, name=f"{bits}-bit-pipelined", schedule=Pipelined(dropped_by="owner"))


def _recipe(name: str, **settings: Any) -> Callable[[], System]:
    def make() -> System:
        from gnnqlab.systems import make_system

        return make_system(name, **settings)

    return make


def _recipe_with_services(name: str, **settings: Any) -> Callable[[], System]:
    return lambda: with_every_service(_recipe(name, **settings)())


_PARTS: Mapping[str, str] = {
    "computation": "compute_s",
    "encode + decode": "quant_s",
    "waiting: messages, the sum of gradients, the other worker": "comm_s",
}
_SHORT = {"gradients": GRADIENTS}
_LONGER = 4
CONTESTANTS: Mapping[str, _Contestant] = {
    "vanilla": _Contestant(_recipe("vanilla"), {}),
    "8-bit": _Contestant(_recipe("fixed-bits", bits=8, parameters="bfloat16"), _SHORT),
    "2-bit": _Contestant(_recipe("fixed-bits", bits=2, parameters="bfloat16"), _SHORT),
    "1-bit": _Contestant(_recipe("fixed-bits", bits=1, parameters="bfloat16"), _SHORT),
    "1-bit-pipelined": _Contestant(lambda: _pipelined(1), _SHORT, 0.85, 12.0, _LONGER),
    "sylvie": _Contestant(_recipe("sylvie"), {}, is_adaptive=True),
    "sylvie+": _Contestant(_recipe_with_services("sylvie"), _SHORT, 0.85, is_adaptive=True),
    "sylvie-printed+": _Contestant(_recipe_with_services("sylvie", formula="printed"), _SHORT, 0.85, is_adaptive=True),
    "vanilla+": _Contestant(_recipe_with_services("vanilla"), _SHORT),
    "pipegcn": _Contestant(_recipe("pipegcn"), {}),
    "pipegcn+": _Contestant(_recipe_with_services("pipegcn"), _SHORT),
    "bns-gcn": _Contestant(_recipe("bns-gcn"), {}),
    "bns-gcn+": _Contestant(_recipe_with_services("bns-gcn"), _SHORT),
}
"""Recipes as published send their weight gradients in float32 at the end; the others send quantization parameters and
weight gradients in 16 bits, the latter during the backward pass, or these would exceed the bytes of 1-bit codes."""


def throughput(
    repeats: int = 2,
    *,
    comm_share: float | None = None,
    link: str | None = None,
    hosts: int = 2,
    workers: tuple[int, ...] = (2,),
    graph: str | None = None,
    models: Sequence[str] = tuple(MODELS),
    systems: Sequence[str] = tuple(CONTESTANTS),
    epochs: int = 12,
) -> list[dict[str, Any]]:
    """Measure every model and share.

    Args:
        repeats: interleaved runs of each system.
        comm_share: share of communication in Vanilla's epoch; 0.89 and 0.94 if there is no link either.
        link: alternatively, rate of each host's link.
        hosts: number of emulated hosts.
        workers: numbers of workers.
        graph: name or path; by default a planted partition with 0.42 remote neighbours per node and the ``NODES`` of
            the model.
        models: names of models.
        systems: some of ``CONTESTANTS``.
        epochs: epochs of each run; four times as many if they are short (computation alone, stale rows), and at least
            ``SETTLED`` for an adaptive system.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if a model or a system is unknown.
    """
    from gnnqlab.launch.calibrate import resolve_comm_share
    from gnnqlab.train.config.configure import configure

    require_among("models", models, MODELS)
    require_among("systems", systems, CONTESTANTS)
    names = ["vanilla", *(name for name in systems if name != "vanilla")]
    shares = [None] if link is not None else [comm_share] if comm_share is not None else list(SHARES)
    rows = []
    for model in models:
        source = usual_graph(NODES[model]) if graph is None else graph
        for number in workers:
            for share in shares:
                shared_settings: dict[str, Any] = dict(
                    model=model, workers=number, hosts=hosts, link=link, comm_share=share, **MODELS[model],
                )  # fmt: skip
                configs = [
                    configure(
                        source,
                        system=contestant.system(),
                        **contestant.epoch_settings(epochs),
                        **shared_settings,
                        **contestant.settings,
                    )
                    for contestant in (CONTESTANTS[name] for name in names)
                ]
                rows += _side_by_side(dict(zip(names, resolve_comm_share(configs), strict=True)), repeats)
    return rows


def _side_by_side(configs: Mapping[str, RunConfig], repeats: int) -> list[dict[str, Any]]:
    config = configs["vanilla"]
    longer_config = replace(config, train=replace(config.train, epochs=_LONGER * config.train.epochs))
    measurements = measure_in_turn({ALONE: longer_config, **configs}, repeats)
    adaptive_config = next((configs[name] for name in configs if CONTESTANTS[name].is_adaptive), None)
    if adaptive_config is not None:
        launch_settings = replace(config.launch, hosts=1, link=None, vanilla_share=None)
        measurements[UNLINKED] = [measure_run(replace(config, train=adaptive_config.train, launch=launch_settings))]
    case = f"{config.model.name}, {config.model.layers} x {config.model.hidden}, {measurements['vanilla'][0].label}"
    return table(case, measurements, wide=config.model.name in WIDE)


def table(case: str, found: Mapping[str, Sequence[LinkMeasurement]], *, wide: bool) -> list[dict[str, Any]]:
    """Return the rows of one model over one link: medians over repeats.

    An epoch is the median; for an adaptive system it is the mean, compared with the mean of the bounds, because its
    epochs and their bounds differ.

    Args:
        case: first column.
        found: name -> runs, with ``vanilla`` and ``ALONE``, and ``UNLINKED`` if a system is adaptive.
        wide: True if messages have 256 columns.
    """

    def median(name: str, value: str) -> float:
        return statistics.median(getattr(run, value) for run in found[name])

    vanilla_s, alone_s = median("vanilla", "epoch_s"), median(ALONE, "compute_s")
    vanilla_share = median("vanilla", "comm_s") / vanilla_s
    rows = [
        row(case, "communication share of Vanilla", vanilla_share, "", "", None, None),
        row(case, MEDIAN, vanilla_s, "s", ALONE, alone_s, alone_s / vanilla_s, contestant="vanilla"),
    ]
    for name in found:
        if name in ("vanilla", ALONE, UNLINKED):
            continue
        contestant = CONTESTANTS[name]
        epoch, epoch_s, limit, limit_s = _epoch_and_bound(name, found[name], alone_s)
        times = contestant.times if vanilla_share > 0.93 else None
        near_goal = 1 / 1.2 if contestant.times is not None else None
        sent_bytes, vanilla_bytes = median(name, "bytes_sent"), median("vanilla", "bytes_sent")
        volume = 25.0 if name == "1-bit" and wide else None
        comparisons: list[tuple[str, float, str, str, float, float, float | None]] = [
            (epoch, epoch_s, "s", "vanilla", vanilla_s, vanilla_s / epoch_s, times),
            (epoch, epoch_s, "s", f"bound: {limit}", limit_s, limit_s / epoch_s, contestant.of_bound),
            (epoch, epoch_s, "s", ALONE, alone_s, alone_s / epoch_s, near_goal),
            ("bytes an epoch", sent_bytes, "B", "vanilla", vanilla_bytes, vanilla_bytes / max(sent_bytes, 1), volume),
        ]
        rows += [row(case, *each, contestant=name) for each in comparisons]
        if contestant.is_adaptive and UNLINKED in found:
            rows += _of_the_same_training(case, name, found)
        if contestant.of_bound is not None and not contestant.is_adaptive:
            for part_name, part in _PARTS.items():
                part_s, rival = median(name, part), f"{name}: {epoch}"
                rows.append(
                    row(case, f"of it {part_name}", part_s, "s", rival, epoch_s, part_s / epoch_s, contestant=name)
                )
        coordination = [run.coordination for run in found[name] if run.coordination is not None]
        if coordination:
            share, metric = statistics.median(coordination), "coordination + extraction, share of wall-clock"
            limit_columns = ("at most", 0.01, 0.01 / max(share, 1e-9), 1.0)
            rows.append(row(case, metric, share, "", *limit_columns, contestant=name))
    return rows


def _of_the_same_training(
    case: str, name: str, measurements: Mapping[str, Sequence[LinkMeasurement]]
) -> list[dict[str, Any]]:
    """Return the results of an adaptive system in the trainings whose epochs were timed, with late epochs separately.

    Vanilla's time to an accuracy is the number of epochs that it needs, from a run without a link, times the mean time
    of its epochs over the link.
    """
    trainings = [run.training for run in measurements[name] if run.training is not None]
    unlinked_training = measurements[UNLINKED][0].training
    assert unlinked_training is not None
    vanilla_s = statistics.fmean(seconds for run in measurements["vanilla"] for seconds in run.epochs_s)
    settled_s = statistics.median(training.settled_s() for training in trainings)
    late_metric = f"epoch, mean of the last {trainings[0].epochs // 2} of {trainings[0].epochs}"
    score, bits, stale_share = (mean_of(trainings, each) for each in ("score", "bits", "stale"))
    rows: list[tuple[Any, ...]] = [
        (late_metric, settled_s, "s", "vanilla", vanilla_s, vanilla_s / settled_s),
        ("mean width of what travels", bits, "bits", "", None, None),
        ("epochs on rows of the epoch before", 100 * stale_share, "%", "", None, None),
        ("test score", 100 * score, "%", UNLINKED, 100 * unlinked_training.score, score / unlinked_training.score),
    ]
    target = unlinked_training.best - MARGIN
    arrival_s = [seconds for training in trainings if not math.isnan(seconds := training.seconds_to(target))]
    vanilla_target_s = vanilla_s * unlinked_training.epochs_to(target)
    metric, detail = f"to {100 * target:.1f} % on validation", f", {len(arrival_s)} of {len(trainings)} trainings"
    target_s = statistics.median(arrival_s) if arrival_s else math.nan
    rival = ("vanilla, its epochs by its mean epoch", vanilla_target_s, vanilla_target_s / target_s)
    accuracy_row = row(case, metric, target_s, "s", *rival, contestant=name, detail=detail)
    return [*(row(case, *each, contestant=name) for each in rows), accuracy_row]


def _epoch_and_bound(name: str, runs: Sequence[LinkMeasurement], alone_s: float) -> tuple[str, float, str, float]:
    """Return the name of a system's epoch in the table, its seconds, the name of its bound, and the bound's seconds."""
    if CONTESTANTS[name].is_adaptive:
        epoch_s = statistics.median(statistics.fmean(run.epochs_s) for run in runs)
        limit_s = statistics.median(statistics.fmean(max(alone_s, each) for each in run.links_s) for run in runs)
        return "epoch, mean", epoch_s, "the larger of computation and bytes, epoch by epoch", limit_s
    epoch_s = statistics.median(run.epoch_s for run in runs)
    link_s = statistics.median(run.link_s for run in runs)
    limit, limit_s = ("its bytes by the rate", link_s) if link_s > alone_s else (ALONE, alone_s)
    return MEDIAN, epoch_s, limit, limit_s
