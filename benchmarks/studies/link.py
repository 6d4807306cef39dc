"""Comparison of systems over a link between emulated hosts (AdaQP Table 4): throughput and its bounds.

All train the same 3-layer model of 256 columns on the same partition over the same link, in interleaved runs. Vanilla
without any message measures computation alone, the bound for every method that reduces communication.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.engine.link_run import ALONE, LinkMeasurement, measure_in_turn, usual_graph
from benchmarks.engine.rows import paired_difference, row
from benchmarks.engine.trained import scores_of, study_rows

if TYPE_CHECKING:
    from gnnqlab.study import RunResult
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["over_link"]

MODELS = ("gcn", "graphsage")
CONTESTANTS: Mapping[str, Mapping[str, Any]] = {
    "vanilla": {},
    "vanilla+": {"system": "adaqp-p", "gradients": "bfloat16"},
    "pipegcn": {"system": "pipegcn"},
    "fixed-bits": {"system": "fixed-bits", "bits": 2},
    "adaqp-p": {"system": "adaqp-p"},
    "adaqp-q": {"system": "adaqp-q"},
    "adaqp": {"system": "adaqp"},
    "adaqp in bfloat16": {"system": "adaqp", "parameters": "bfloat16", "gradients": "bfloat16"},
}
"""Name -> settings of a system. Those in bfloat16 also send quantization parameters and weight gradients in 16 bits,
the latter layer by layer during the backward pass; ``vanilla+`` is Vanilla with these services and overlap."""
EPOCH, CODEC = "epoch, median", "encode + decode, share of the epoch"
WIRE, WIRE_ITSELF = "wire time over bytes by rate", "of it from a sender's post, its receiver there"
WITH_GOALS = ("adaqp", "adaqp in bfloat16")
SPEED_GOALS = {1: 3.3, 2: 3.0}
"""Goal: workers per host -> throughput relative to Vanilla at 75 % communication."""


def over_link(
    repeats: int = 1,
    *,
    link: str | None = None,
    comm_share: float | None = None,
    hosts: int = 2,
    workers: tuple[int, ...] = (2, 4),
    graph: str | None = None,
    models: Sequence[str] = MODELS,
    contestants: Sequence[str] = tuple(CONTESTANTS),
    epochs: int = 120,
    seeds: int = 0,
    first_seed: int = 0,
) -> list[dict[str, Any]]:
    """Measure every model with every number of workers.

    Args:
        repeats: interleaved runs of each system.
        link: rate of each host's link.
        comm_share: alternatively, share of communication in Vanilla's epoch; 0.75 if neither is set.
        hosts: number of emulated hosts.
        workers: numbers of workers.
        graph: name or path; by default the graph of :func:`benchmarks.engine.link_run.usual_graph`.
        models: names of models.
        contestants: some of ``CONTESTANTS``, ``vanilla`` first.
        epochs: epochs of each run; AdaQP assigns bit-widths every 50.
        seeds: seeds of trainings of 60 epochs with Vanilla and AdaQP whose accuracies are compared; without a link,
            because results do not depend on it.
        first_seed: first of these consecutive seeds.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.
    """
    from gnnqlab.launch.calibrate import resolve_comm_share
    from gnnqlab.train.config.configure import configure

    if link is None and comm_share is None:
        comm_share = 0.75
    source = usual_graph() if graph is None else graph
    rows = []
    for model in models:
        for number in workers:
            shared_settings: dict[str, Any] = {
                "model": model,
                "workers": number,
                "epochs": epochs,
                "evaluate_every": 0,
                "hosts": hosts,
            }
            configs = [
                configure(source, link=link, comm_share=comm_share, **shared_settings, **CONTESTANTS[name])
                for name in contestants
            ]
            rows += _side_by_side(dict(zip(contestants, resolve_comm_share(configs), strict=True)), repeats)
        if seeds:
            rows += _accuracies(source, model, workers[0], seeds, first_seed)
    return rows


def _side_by_side(contestants: Mapping[str, RunConfig], repeats: int) -> list[dict[str, Any]]:
    measurements = measure_in_turn({ALONE: contestants["vanilla"], **contestants}, repeats)
    config = contestants["vanilla"]
    assert config.launch.hosts is not None
    case = f"{config.model.name}, {config.workers} workers, {measurements['vanilla'][0].label}"
    return _Table(case, config.workers // config.launch.hosts, measurements).rows()


@dataclass(frozen=True)
class _Table:
    """Rows of one model and number of workers: medians over repeats."""

    case: str
    a_host: int
    """Workers per host."""
    found: Mapping[str, Sequence[LinkMeasurement]]

    def rows(self) -> list[dict[str, Any]]:
        epoch_s, alone_s = self._median("vanilla", "epoch_s"), self._median(ALONE, "compute_s")
        share = self._median("vanilla", "comm_s") / epoch_s
        rows = [
            self._row("communication share of Vanilla", share, "", "", None, None),
            self._row(EPOCH, epoch_s, "s", ALONE, alone_s, alone_s / epoch_s, contestant="vanilla"),
            self._limited("vanilla", WIRE, self._median("vanilla", "wire"), 1.1, has_goal=True),
        ]
        for name in self.found:
            if name not in ("vanilla", ALONE):
                rows += self._compared_with_vanilla(name)
        return rows

    def _compared_with_vanilla(self, name: str) -> list[dict[str, Any]]:
        has_goal = name in WITH_GOALS  # the others are ablations of it
        epoch_s, alone_s = self._median(name, "epoch_s"), self._median(ALONE, "compute_s")
        assign_s = self._median(name, "assign_s")
        speed, alone_goal = (SPEED_GOALS.get(self.a_host), 0.8) if has_goal else (None, None)
        rows = [
            *self._whole(name),
            self._faster(name, EPOCH, "epoch_s", "s", speed),
            self._row(EPOCH, epoch_s, "s", ALONE, alone_s, alone_s / epoch_s, alone_goal, contestant=name),
            self._faster(name, "exposed communication", "comm_s", "s", 1 / 0.15 if has_goal else None),
            self._faster(name, "bytes an epoch", "bytes_sent", "B", None),
            self._limited(name, CODEC, self._median(name, "quant_s") / epoch_s, 0.05, has_goal=has_goal),
            self._limited(name, WIRE, self._median(name, "wire"), 1.1, has_goal=has_goal),
            self._limited(name, WIRE_ITSELF, self._median(name, "wire_itself"), 1.1, has_goal=False),
        ]
        if assign_s:
            rows.append(
                self._limited(name, "assignment, share of wall-clock", assign_s / epoch_s, 0.005, has_goal=has_goal)
            )
        return rows

    def _whole(self, name: str) -> list[dict[str, Any]]:
        """Return rows of the whole training, with first epoch and assignments, and of the assignments' CPU time."""
        trainings = [run.training for run in self.found[name] if run.training is not None]
        rivals = [run.training for run in self.found["vanilla"] if run.training is not None]
        if not trainings or not rivals:
            return []
        total_s, rival_s = (statistics.median(training.train_s for training in each) for each in (trainings, rivals))
        rows = [self._row("whole training", total_s, "s", "vanilla", rival_s, rival_s / total_s, contestant=name)]
        if assign_s := statistics.median(training.assign_cpu_s for training in trainings):
            metric = "assignments in the background, processor time"
            rows.append(
                self._row(metric, assign_s, "s", "whole training", total_s, assign_s / total_s, contestant=name)
            )
        return rows

    def _median(self, name: str, value: str) -> float:
        return statistics.median(getattr(run, value) for run in self.found[name])

    def _row(self, metric: str, value: float, unit: str, *rival: Any, contestant: str = "") -> dict[str, Any]:
        return row(self.case, metric, value, unit, *rival, contestant=contestant)

    def _faster(self, name: str, metric: str, value: str, unit: str, goal: float | None) -> dict[str, Any]:
        """Return a row compared with Vanilla's; the goal is a value ``goal`` times less."""
        figure, rival_figure = self._median(name, value), self._median("vanilla", value)
        return self._row(
            metric, figure, unit, "vanilla", rival_figure, rival_figure / max(figure, 1e-9), goal, contestant=name
        )

    def _limited(self, name: str, metric: str, value: float, limit: float, *, has_goal: bool) -> dict[str, Any]:
        """Return a row compared with the largest value allowed."""
        goal = 1.0 if has_goal else None
        return self._row(metric, value, "", "at most", limit, limit / max(value, 1e-9), goal, contestant=name)


def _accuracies(source: Any, model: str, workers: int, seeds: int, first_seed: int) -> list[dict[str, Any]]:
    """Return the row of AdaQP's scores compared with Vanilla's, without a link: results do not depend on it."""
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as folder:
        return study_rows(
            _score_row,
            ("vanilla", "adaqp"),
            case="{model}, {workers} workers, {seeds}, {epochs} epochs",
            graphs=[source],
            models=[model],
            workers=workers,
            seeds=seeds,
            first_seed=first_seed,
            folder=folder,
            epochs=60,
        )


def _score_row(case: str, trainings: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    scores, rival_scores = scores_of(trainings["adaqp"]), scores_of(trainings["vanilla"])
    difference, rival_value = paired_difference(scores, rival_scores), 100 * statistics.fmean(rival_scores)
    rival = ("vanilla, per cent", rival_value, 0.3 / max(abs(difference.points), 1e-9), 1.0)
    detail = f" (95 % interval ± {difference.half:.2f})"
    metric = "test score, points above vanilla"
    return [row(case, metric, difference.points, "points", *rival, contestant="adaqp", detail=detail)]
