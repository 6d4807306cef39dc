"""Systems side by side over a link between emulated hosts: throughput, and what bounds it.

All train the same 3-layer model of width 256 on the same partition over the same link, run after run in turn. Beside
them runs Vanilla with every message left out: what computation alone takes, and so the most that any way of sending
less can reach.

The usual graph is a planted partition of 40 000 nodes, 2 000 000 edges and 256 features, of which METIS makes shares
with 0.42 (two workers) and 0.71 (four) remote neighbours a node; AdaQP Table 1 has 0.42 and 0.63 for Reddit.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.bench.registry import row

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.message.transport import Transfer
    from gnnqlab.train.config import RunConfig
    from gnnqlab.train.heartbeat import Heartbeat

__all__ = ["fit_alone", "over_link", "usual_graph", "wire_share"]

MODELS = ("gcn", "graphsage")
CONTESTANTS: Mapping[str, Mapping[str, Any]] = {
    "vanilla": {},
    "fixed-bits": {"system": "fixed-bits", "bits": 2},
    "adaqp-p": {"system": "adaqp-p"},
    "adaqp-q": {"system": "adaqp-q"},
    "adaqp": {"system": "adaqp"},
    "adaqp in bfloat16": {"system": "adaqp", "parameters": "bfloat16", "gradients": "bfloat16"},
}
"""Systems with their settings. The last one sends everything else in 16 bits too: parameters of rows, and gradients of
weights, layer by layer under the backward pass."""
WITH_GOALS = ("adaqp", "adaqp in bfloat16")
ALONE = "computation alone"
SPEED_GOALS = {1: 3.3, 2: 3.0}
"""Throughput over Vanilla at 75 % communication, by workers on a host."""
_COMPUTES = ["central_s", "marginal_s", "dense_s", "optimizer_s", "other_s"]


def over_link(
    repeats: int = 3,
    *,
    link: str | None = None,
    comm_share: float | None = None,
    hosts: int = 2,
    workers: tuple[int, ...] = (2, 4),
    graph: str | None = None,
    models: Sequence[str] = MODELS,
    contestants: Sequence[str] = tuple(CONTESTANTS),
    epochs: int = 15,
    seeds: int = 0,
) -> list[dict[str, Any]]:
    """Measure every model with every number of workers.

    Args:
        repeats: runs of each system, in turn.
        link: rate of each host's link.
        comm_share: instead of it, the share of its epoch that Vanilla communicates; 0.75 if neither is given.
        hosts: emulated hosts.
        workers: numbers of workers.
        graph: name or path; the usual graph if there is none.
        models: names of models.
        contestants: which of ``CONTESTANTS``, ``vanilla`` first.
        epochs: epochs of each run.
        seeds: trainings of 60 epochs with Vanilla and AdaQP whose accuracies are compared; without a link, because
            results do not depend on it.

    Returns:
        Rows as :func:`gnnqlab.bench.registry.measure` describes them.
    """
    from gnnqlab.launch.calibrate import settle
    from gnnqlab.train.configure import configure

    if link is None and comm_share is None:
        comm_share = 0.75
    source = usual_graph() if graph is None else graph
    rows = []
    for model in models:
        for number in workers:
            shared: dict[str, Any] = {
                "model": model,
                "workers": number,
                "epochs": epochs,
                "evaluate_every": 0,
                "hosts": hosts,
            }
            configs = [
                configure(source, link=link, comm_share=comm_share, **shared, **CONTESTANTS[name])
                for name in contestants
            ]
            rows += _side_by_side(dict(zip(contestants, settle(configs), strict=True)), repeats)
        if seeds:
            rows += _accuracies(source, model, workers[0], seeds)
    return rows


def usual_graph() -> Graph:
    """Return the graph that the figures are measured on."""
    from gnnqlab.graph.generate import sbm

    return sbm(40_000, 16, 50, features=256, homophily=0.98, stray=0.0, signal=0.3, name="sbm with 0.42 remote")


@dataclass(frozen=True)
class _Measured:
    """One run: medians over its settled epochs, in seconds."""

    epoch_s: float
    comm_s: float
    quant_s: float
    compute_s: float
    assign_s: float
    bytes_sent: float
    wire: float
    label: str
    score: float


def _side_by_side(contestants: Mapping[str, RunConfig], repeats: int) -> list[dict[str, Any]]:
    found: dict[str, list[_Measured]] = {}
    for number in range(repeats):
        for name in (ALONE, *contestants):
            config = contestants["vanilla"] if name == ALONE else contestants[name]
            latest = _run(config, alone=name == ALONE)
            found.setdefault(name, []).append(latest)
            what = f"{config.model.name}, {config.workers} workers, repeat {number}: {name}"
            print(f"{what} {latest.epoch_s:.3f} s an epoch", file=sys.stderr, flush=True)
    config = contestants["vanilla"]
    assert config.launch.hosts is not None
    case = f"{config.model.name}, {config.workers} workers, {found['vanilla'][0].label}"
    return _Table(case, config.workers // config.launch.hosts, found).rows()


@dataclass(frozen=True)
class _Table:
    """The rows of one model and number of workers: medians over repeats."""

    case: str
    a_host: int
    """Workers on a host."""
    found: Mapping[str, Sequence[_Measured]]

    def rows(self) -> list[dict[str, Any]]:
        epoch_s, alone_s = self._median("vanilla", "epoch_s"), self._median(ALONE, "compute_s")
        share = self._median("vanilla", "comm_s") / epoch_s
        rows = [
            self._row("communication share of Vanilla", share, "", "", None, None),
            self._row("vanilla: epoch", epoch_s, "s", ALONE, alone_s, alone_s / epoch_s),
            self._limited("vanilla: wire time over bytes by rate", self._median("vanilla", "wire"), 1.1, main=True),
        ]
        for name in self.found:
            if name not in ("vanilla", ALONE):
                rows += self._beside_vanilla(name)
        return rows

    def _beside_vanilla(self, name: str) -> list[dict[str, Any]]:
        main = name in WITH_GOALS  # the others are its parts
        epoch_s, alone_s = self._median(name, "epoch_s"), self._median(ALONE, "compute_s")
        assign_s = self._median(name, "assign_s")
        rows = [
            self._faster(f"{name}: epoch", name, "epoch_s", "s", SPEED_GOALS.get(self.a_host) if main else None),
            self._row(f"{name}: epoch", epoch_s, "s", ALONE, alone_s, alone_s / epoch_s, 0.8 if main else None),
            self._faster(f"{name}: exposed communication", name, "comm_s", "s", 1 / 0.15 if main else None),
            self._faster(f"{name}: bytes an epoch", name, "bytes_sent", "B", None),
            self._limited(
                f"{name}: encode + decode, share of the epoch", self._median(name, "quant_s") / epoch_s, 0.05, main=main
            ),
            self._limited(f"{name}: wire time over bytes by rate", self._median(name, "wire"), 1.1, main=main),
        ]
        if assign_s:
            rows.append(self._limited(f"{name}: assignment, share of wall-clock", assign_s / epoch_s, 0.005, main=main))
        return rows

    def _median(self, name: str, value: str) -> float:
        return statistics.median(getattr(one, value) for one in self.found[name])

    def _row(
        self, figure: str, value: float, unit: str, rival: str, other: float | None, ratio: float | None,
        goal: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        return row(self.case, figure, value, unit, rival, other, ratio, goal)

    def _faster(self, figure: str, name: str, value: str, unit: str, goal: float | None) -> dict[str, Any]:
        """A row beside Vanilla's; ``goal`` times less is asked for."""
        ours, other = self._median(name, value), self._median("vanilla", value)
        return self._row(figure, ours, unit, "vanilla", other, other / max(ours, 1e-9), goal)

    def _limited(self, figure: str, value: float, most: float, *, main: bool) -> dict[str, Any]:
        """A row beside the most that it should be."""
        return self._row(figure, value, "", "at most", most, most / max(value, 1e-9), 1.0 if main else None)


def _run(config: RunConfig, *, alone: bool = False) -> _Measured:
    """Train once; the end of the block waits until the machine is quiet again."""
    from gnnqlab.launch.local import launch

    if alone:
        launched = replace(config.launch, hosts=1, link=None, vanilla_share=None)
        config = replace(config, launch=launched, train=replace(config.train, headers="off"))
    before = os.environ.get("GNNQLAB_FIT")
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        if alone:
            os.environ["GNNQLAB_FIT"] = "gnnqlab.bench.link:fit_alone"
        try:
            run = launch(config, root=root)
        finally:
            if alone:
                os.environ.pop("GNNQLAB_FIT")
                if before is not None:
                    os.environ["GNNQLAB_FIT"] = before
        with run:
            return _measured(run.wait(), config)


def _measured(run: Any, config: RunConfig) -> _Measured:
    summary, records = run.summary, run.records
    settled = records[records["epoch"] > 0]
    compute_s = settled.assign(all=settled[_COMPUTES].sum(axis=1)).groupby("epoch")["all"].max().median()
    period = getattr(config.system.bits, "period", None)
    assign_s = 0.0
    if period is not None:
        # What one period's assignment takes, shared out over its epochs, as the slowest worker sees it.
        assign_s = float(records.groupby("rank")["assign_s"].sum().max()) / max(period, config.train.epochs)
    return _Measured(
        epoch_s=summary["epoch_s"],
        comm_s=summary["comm_s"],
        quant_s=summary["quant_s"],
        compute_s=float(compute_s),
        assign_s=assign_s,
        bytes_sent=summary["bytes_sent"],
        wire=wire_share(run.traffic, summary.get("link_bytes_per_s"), config.workers, summary["hosts"]),
        label=summary["link"],
        score=summary.get("test_accuracy") or summary.get("test_f1_micro") or 0.0,
    )


def wire_share(traffic: pd.DataFrame, bytes_per_s: float | None, workers: int, hosts: int) -> float:
    """Time that messages between hosts took, over their bytes by the rate of the link.

    A message is timed from its receiver's post. Where the sender posts later than the receiver that is too long, and
    too short for the message the other way by as much; the mean of all messages has no such error.

    Args:
        traffic: as ``run.traffic``; the first epoch is left out.
        bytes_per_s: rate of each host's link; without one the answer is NaN.
        workers: P.
        hosts: hosts; consecutive ranks share one.
    """
    if bytes_per_s is None:
        return float("nan")
    frame = traffic[traffic["epoch"] > traffic["epoch"].min()]
    frame = frame.assign(
        source=frame["sender"] * hosts // workers,
        target=frame["receiver"] * hosts // workers,
        size=frame["payload_bytes"] + frame["param_bytes"],
    )
    frame = frame[frame["source"] != frame["target"]]
    exchange = ["epoch", "layer", "direction"]
    took = frame.groupby([*exchange, "receiver"])["seconds"].max().groupby(exchange).mean()
    sent = frame.groupby([*exchange, "source"])["size"].sum().groupby(exchange).mean()
    return float(took.sum() / (sent.sum() / bytes_per_s))


def _accuracies(source: Any, model: str, workers: int, seeds: int) -> list[dict[str, Any]]:
    from gnnqlab.train.configure import configure

    scores: dict[str, list[float]] = {"vanilla": [], "adaqp": []}
    for seed in range(seeds):
        for name, got in scores.items():
            got.append(_run(configure(source, system=name, model=model, workers=workers, seed=seed)).score)
    differences = [100 * (ours - other) for ours, other in zip(scores["adaqp"], scores["vanilla"], strict=True)]
    mean, half = statistics.fmean(differences), _half_interval(differences)
    return [
        row(
            f"{model}, {workers} workers, {seeds} seed(s), 60 epochs",
            f"adaqp: test score, points above vanilla (95 % interval ± {half:.2f})",
            mean,
            "points",
            "vanilla, per cent",
            100 * statistics.fmean(scores["vanilla"]),
            0.3 / max(abs(mean), 1e-9),
            1.0,
        )
    ]


def _half_interval(values: Sequence[float]) -> float:
    """Half the 95 % confidence interval of a mean, Student's t; infinite for one value."""
    if len(values) < 2:
        return float("inf")
    from scipy import stats

    return float(stats.t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5


# -- computation alone, in the workers ------------------------------------------------------------------------------


def fit_alone(config: RunConfig, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Train with every message of a training pass left out; what comes out is of no use but for its time."""
    from gnnqlab.message import transport
    from gnnqlab.train.loop import fit

    transport.TRANSPORTS[config.train.transport] = Silent
    fit(config, folder, rank, workers, heartbeat)


class Silent:
    """Moves nothing."""

    def __init__(self, rank: int, workers: int) -> None:
        pass

    def post(self, send: Mapping[int, Tensor], receive: Mapping[int, Tensor], headers: Any = None) -> Transfer:
        from gnnqlab.message.transport import Transfer

        class Nothing(Transfer):
            def _finish(self) -> None:
                self.seconds = dict.fromkeys(receive, 0.0)

        for buffer in receive.values():
            buffer.zero_()
        return Nothing()
