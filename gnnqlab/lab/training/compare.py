"""Runs side by side: one table and the figures that explain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gnnqlab.lab.figures.bundle import FigureData, name_links, table_html
from gnnqlab.lab.figures.frames import (
    by_epoch,
    by_tier,
    device_pairs,
    human_bytes,
    most_bytes,
    phase_seconds,
    volume_per_epoch,
)
from gnnqlab.lab.training import plots
from gnnqlab.lab.training.cache_view import draw_cache
from gnnqlab.lab.training.comparison_table import check_target, comparison_frame, equally_often, said, usual_target
from gnnqlab.lab.training.entropy_view import draw_entropy
from gnnqlab.lab.training.snapshot import RunLike, Snapshot, labels, take
from gnnqlab.lab.training.sweep import OUTCOMES, Sweep, settings_of
from gnnqlab.lab.training.sweep_views import draw_mattered, draw_parallel
from gnnqlab.train.loop.scores import ALSO, score_in, score_label

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side; the first one is what the others are measured against.

    At the end of a notebook cell it shows its table. The figures come as ``FigureData``: ``.figure`` is Plotly's,
    ``.frame`` the numbers in it.
    """

    runs: tuple[Snapshot, ...]
    target: float
    """Validation score whose time is taken; NaN if nothing was validated."""

    def to_frame(self) -> DataFrame:
        """One row a run: accuracy, total time, time to accuracy, seconds and bytes of epochs (``comparison_frame``)."""
        return comparison_frame(self.runs, target=None if math.isnan(self.target) else self.target)

    @property
    def records(self) -> dict[str, DataFrame]:
        """The records of each run by its label."""
        return {label: run.records for label, run in zip(labels(self.runs), self.runs)}

    def convergence(
        self,
        value: Literal["loss", "train_score", "val_score", "test_score"] = "val_score",
        *,
        against: Literal["epoch", "time"] = "epoch",
        dark: bool = False,
    ) -> FigureData:
        """Loss or score by epoch or by seconds of training."""
        import pandas as pd

        score = score_label(self.runs[0].summary)
        last = {label: by_epoch(records).dropna(subset=[value]).tail(1) for label, records in self.records.items()}
        frame = pd.concat(last.values(), keys=last.keys(), names=["system"]).droplevel(1)
        figure = plots.convergence(self.records, value=value, against=against, score=score, dark=dark)
        return FigureData(self._linked(figure), frame[["epoch", "train_s", value]])

    def breakdown(self, *, per_worker: bool = False) -> FigureData:
        """Where the time of an epoch goes, in seconds."""
        import pandas as pd

        frame = pd.concat({label: phase_seconds(one).iloc[0] for label, one in self.records.items()}, axis=1).T
        frame.index.name = "system"
        return FigureData(self._linked(plots.breakdown(self.records, per_worker=per_worker)), frame.fillna(0.0))

    def volume(self) -> FigureData:
        """Bytes sent in an epoch by all workers, payload and parameters."""
        import pandas as pd

        frame = pd.DataFrame({label: volume_per_epoch(records) for label, records in self.records.items()}).T
        frame.index.name = "system"
        return FigureData(self._linked(plots.volume(self.records)), frame)

    def traffic(self, number: int = 0) -> FigureData:
        """Bytes from worker to worker in one of the runs, the first if not said otherwise; all have one scale."""
        run, pairs = (
            self.runs[number],
            [device_pairs(one.traffic, workers=one.summary.get("workers")) for one in self.runs],
        )
        figure = plots.traffic_map(
            run.traffic,
            label=labels(self.runs)[number],
            workers=run.summary.get("workers"),
            largest=most_bytes(pairs),
        )
        return FigureData(self._linked(figure), pairs[number])

    def tiers(self) -> FigureData:
        """Bytes and seconds of an epoch within hosts and between them."""
        import pandas as pd

        traffic = dict(zip(labels(self.runs), (run.traffic for run in self.runs)))
        frame = pd.concat({label: by_tier(one) for label, one in traffic.items()}, names=["system"])
        return FigureData(self._linked(plots.tiers(traffic)), frame)

    def cache(self, number: int = 0) -> FigureData:
        """Rows that the cache of one of the runs sent, ε, and the score beside them (CDFGNN Fig. 7).

        Raises:
            ValueError: if that run has no cache.
        """
        bundle = draw_cache(self.runs[number], label=labels(self.runs)[number])
        return FigureData(self._linked(bundle.figure), bundle.frame)

    def entropy(self, number: int = 0) -> FigureData:
        """Bits sent for an element in one of the runs, beside the entropy of its codes, by direction and layer.

        Raises:
            ValueError: if that run counted no codes; launch it with ``entropy_every``.
        """
        bundle = draw_entropy(self.runs[number], label=labels(self.runs)[number])
        return FigureData(self._linked(bundle.figure), bundle.frame)

    def sweep(self) -> Sweep:
        """The runs by the settings in which they differ, and what each came to.

        Raises:
            ValueError: if there is one run, or they differ in their seed at most.
        """
        outcomes = [
            {name: run.summary.get(name) for name in OUTCOMES} | {"score": score_in(run.summary)} for run in self.runs
        ]
        return Sweep([settings_of(run.config) for run in self.runs], outcomes, labels(self.runs))

    def parallel(self) -> FigureData:
        """A line a run through settings that differ, total time, bytes and score (``sweep_views.py``)."""
        return draw_parallel(self.sweep())

    def mattered(self) -> FigureData:
        """How much of score, total time and bytes each setting explains (``sweep_views.py``).

        Raises:
            ValueError: if there are fewer than four runs, or every setting is another in each.
        """
        return draw_mattered(self.sweep())

    def report(self, path: str | Path) -> Path:
        """Write the comparison as one HTML page that works without a network; returns its path."""
        from gnnqlab.lab.training.report import write_report

        return write_report(self.runs, path, target=None if math.isnan(self.target) else self.target)

    def _linked(self, figure: Figure) -> Figure:
        return name_links(figure, (run.summary.get("link") for run in self.runs))

    def _short(self) -> DataFrame:
        """The columns a person looks at first, in units a person reads."""
        full = self.to_frame()
        score = score_label(self.runs[0].summary)
        short = full[["workers", "epochs"]].copy()
        short[f"test {score}"] = [f"{100 * value:.2f} %" for value in full[score]]
        for label in (name for name in ALSO.values() if name in full):
            short[f"test {label}"] = [f"{100 * value:.2f} %" for value in full[label]]
        short["total"] = [_beside(*pair) for pair in zip(full["train_s"], full["faster"])]
        if not math.isnan(self.target):
            reached = zip(full["to_target_s"], full["faster_to_target"])
            short[f"to {100 * self.target:.1f} %"] = [_beside(*pair) for pair in reached]
        short["median epoch"] = [f"{1000 * seconds:.3g} ms" for seconds in full["epoch_s"]]
        short["sent per epoch"] = [human_bytes(count) for count in full["bytes_per_epoch"]]
        short["of it parameters"] = [human_bytes(count) for count in full["bytes_params"].astype(float)]
        short["less sent"] = [f"{ratio:.1f} ×" if ratio > 0 else "" for ratio in full["fewer_bytes"]]  # alone: nothing
        return short

    def __repr__(self) -> str:
        return "\n".join(filter(None, [str(self._short().to_string()), said(self.runs)]))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        words = f"Times ×: as fast as {labels(self.runs)[0]}; seconds of training, evaluation apart"
        caption = ". ".join(filter(None, [words, said(self.runs)]))
        table = table_html(self._short(), caption=caption)
        for unit in ("s,", "×<", "ms<", "B<", "kB<", "MB<", "GB<"):  # no line ends before a unit
            table = table.replace(f" {unit}", f"&nbsp;{unit}")
        return {"text/plain": repr(self), "text/html": table}


def _beside(seconds: float, times: float) -> str:
    """Seconds, and how many times as fast as the first run that is."""
    if math.isnan(seconds):
        return "not reached"
    return f"{seconds:.3g} s" + ("" if math.isnan(times) else f", {times:.2f} ×")


def compare(runs: Sequence[RunLike], *, target: float | None = None) -> Comparison:
    """Put runs side by side, as they stand now; the first is the reference.

    Where they were evaluated unequally often, scores are of the epochs in which all were (``looks.py``), and the
    comparison says so.

    Args:
        runs: handles or snapshots.
        target: validation score in [0, 1] whose time is taken; by default half a point below Vanilla's best, or the
            first run's where there is no Vanilla.

    Raises:
        TypeError: if they are paths.
        ValueError: if there is no run, or the target is no score.
    """
    if hasattr(runs, "records"):
        raise ValueError("runs must be a list of runs, got one run; pass compare([run, other]), or compare([run])")
    if isinstance(runs, str | Path) or any(isinstance(run, str | Path) for run in runs):
        raise TypeError(f"runs must be a list of runs, got {runs!r}; open a folder by gnnqlab.Run(path)")
    if not runs:
        raise ValueError("a comparison needs at least one run, got none; pass compare([run, other])")
    if target is not None:
        check_target(target)
    snapshots = equally_often([take(run) for run in runs])
    return Comparison(snapshots, usual_target(snapshots) if target is None else target)
