"""Comparison of runs: one table and the figures that explain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gnnqlab.former_names import FormerMember
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
from gnnqlab.lab.training.comparison_table import (
    check_target,
    comparison_frame,
    evaluation_note,
    match_evaluations,
    usual_target,
)
from gnnqlab.lab.training.entropy_view import draw_entropy
from gnnqlab.lab.training.snapshot import RunLike, Snapshot, labels, take
from gnnqlab.lab.training.sweep import OUTCOMES, Sweep, settings_of
from gnnqlab.lab.training.sweep_views import draw_importance, draw_parallel
from gnnqlab.train.loop.scores import FURTHER_SCORES, get_test_score, score_label

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Comparison of runs; the first one is the baseline.

    At the end of a notebook cell it shows its table. Figures are returned as ``FigureData``: ``.figure`` is Plotly's,
    ``.frame`` has its numbers.
    """

    runs: tuple[Snapshot, ...]
    target: float
    """Validation score of the time to accuracy; NaN if no run was validated."""

    def to_frame(self) -> DataFrame:
        """Return one row per run: accuracy, total time, time to accuracy, epoch time, bytes (``comparison_frame``)."""
        return comparison_frame(self.runs, target=None if math.isnan(self.target) else self.target)

    @property
    def records(self) -> dict[str, DataFrame]:
        """Records of each run by its label."""
        return {label: run.records for label, run in zip(labels(self.runs), self.runs)}

    def convergence(
        self,
        value: Literal["loss", "train_score", "val_score", "test_score"] = "val_score",
        *,
        against: Literal["epoch", "time"] = "epoch",
        dark: bool = False,
    ) -> FigureData:
        """Draw loss or score by epoch or by seconds of training."""
        import pandas as pd

        score = score_label(self.runs[0].summary)
        # The last epoch with a value, one row per run.
        last_rows = {label: by_epoch(records).dropna(subset=[value]).tail(1) for label, records in self.records.items()}
        frame = pd.concat(last_rows.values(), keys=last_rows.keys(), names=["system"]).droplevel(1)
        figure = plots.convergence(self.records, value=value, against=against, score=score, dark=dark)
        return FigureData(self._linked(figure), frame[["epoch", "train_s", value]])

    def breakdown(self, *, per_worker: bool = False) -> FigureData:
        """Draw the mean time per epoch by phase, with a table in seconds."""
        import pandas as pd

        frame = pd.concat({label: phase_seconds(records).iloc[0] for label, records in self.records.items()}, axis=1).T
        frame.index.name = "system"
        return FigureData(self._linked(plots.breakdown(self.records, per_worker=per_worker)), frame.fillna(0.0))

    def volume(self) -> FigureData:
        """Draw the bytes that all workers send per epoch, payload and parameters."""
        import pandas as pd

        frame = pd.DataFrame({label: volume_per_epoch(records) for label, records in self.records.items()}).T
        frame.index.name = "system"
        return FigureData(self._linked(plots.volume(self.records)), frame)

    def traffic(self, number: int = 0) -> FigureData:
        """Draw the bytes between each pair of workers in one of the runs, by default the first; all have one scale."""
        run, pairs = (
            self.runs[number],
            [device_pairs(snapshot.traffic, workers=snapshot.summary.get("workers")) for snapshot in self.runs],
        )
        figure = plots.traffic_map(
            run.traffic,
            label=labels(self.runs)[number],
            workers=run.summary.get("workers"),
            largest=most_bytes(pairs),
        )
        return FigureData(self._linked(figure), pairs[number])

    def tiers(self) -> FigureData:
        """Draw bytes and seconds per epoch within hosts and between them."""
        import pandas as pd

        traffic = dict(zip(labels(self.runs), (run.traffic for run in self.runs)))
        frame = pd.concat({label: by_tier(messages) for label, messages in traffic.items()}, names=["system"])
        return FigureData(self._linked(plots.tiers(traffic)), frame)

    def cache(self, number: int = 0) -> FigureData:
        """Draw the share of rows that the cache of one of the runs sent, ε, and the score (CDFGNN Fig. 7).

        Raises:
            ValueError: if that run has no cache.
        """
        bundle = draw_cache(self.runs[number], label=labels(self.runs)[number])
        return FigureData(self._linked(bundle.figure), bundle.frame)

    def entropy(self, number: int = 0) -> FigureData:
        """Draw bits per element in one of the runs and the entropy of its codes, by direction and layer.

        Raises:
            ValueError: if that run counted no codes; launch it with ``entropy_every``.
        """
        bundle = draw_entropy(self.runs[number], label=labels(self.runs)[number])
        return FigureData(self._linked(bundle.figure), bundle.frame)

    def sweep(self) -> Sweep:
        """Return the settings in which the runs differ, and the outcomes of each.

        Raises:
            ValueError: if there is one run, or they differ in their seed at most.
        """
        outcomes = [
            {name: run.summary.get(name) for name in OUTCOMES} | {"score": get_test_score(run.summary)}
            for run in self.runs
        ]
        return Sweep([settings_of(run.config) for run in self.runs], outcomes, labels(self.runs))

    def parallel(self) -> FigureData:
        """Draw one line per run through settings that differ, total time, bytes and score (``sweep_views.py``)."""
        return draw_parallel(self.sweep())

    def importance(self) -> FigureData:
        """Draw the variance of score, total time and bytes that each setting explains (``sweep_views.py``).

        Raises:
            ValueError: if there are fewer than four runs, or no two runs share a value of a setting.
        """
        return draw_importance(self.sweep())

    mattered = FormerMember("importance")

    def report(self, path: str | Path) -> Path:
        """Write the comparison as one HTML page that works without a network; return its path."""
        from gnnqlab.lab.training.report import write_report

        return write_report(self.runs, path, target=None if math.isnan(self.target) else self.target)

    def _linked(self, figure: Figure) -> Figure:
        return name_links(figure, (run.summary.get("link") for run in self.runs))

    def _short(self) -> DataFrame:
        """Return the most important columns in readable units."""
        frame = self.to_frame()
        score = score_label(self.runs[0].summary)
        table = frame[["workers", "epochs"]].copy()
        table[f"test {score}"] = [f"{100 * value:.2f} %" for value in frame[score]]
        for label in (name for name in FURTHER_SCORES.values() if name in frame):
            table[f"test {label}"] = [f"{100 * value:.2f} %" for value in frame[label]]
        table["total"] = [_with_speedup(*pair) for pair in zip(frame["train_s"], frame["faster"])]
        if not math.isnan(self.target):
            times = zip(frame["to_target_s"], frame["faster_to_target"])  # NaN for a run that did not reach the target
            table[f"to {100 * self.target:.1f} %"] = [_with_speedup(*pair) for pair in times]
        table["median epoch"] = [f"{1000 * seconds:.3g} ms" for seconds in frame["epoch_s"]]
        table["sent per epoch"] = [human_bytes(count) for count in frame["bytes_per_epoch"]]
        table["of which scales, zero-points"] = [human_bytes(count) for count in frame["bytes_params"].astype(float)]
        table["less sent"] = [
            f"{ratio:.1f} ×" if ratio > 0 else "" for ratio in frame["fewer_bytes"]
        ]  # NaN if all sent nothing
        return table

    def __repr__(self) -> str:
        return "\n".join(filter(None, [str(self._short().to_string()), evaluation_note(self.runs)]))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        words = f"×: speed-up relative to {labels(self.runs)[0]}; seconds of training without evaluation"
        caption = ". ".join(filter(None, [words, evaluation_note(self.runs)]))
        table = table_html(self._short(), caption=caption)
        for unit in ("s,", "×<", "ms<", "B<", "kB<", "MB<", "GB<"):  # no line ends before a unit
            table = table.replace(f" {unit}", f"&nbsp;{unit}")
        return {"text/plain": repr(self), "text/html": table}


def _with_speedup(seconds: float, speedup: float) -> str:
    """Return seconds and the speed-up relative to the first run in words."""
    if math.isnan(seconds):
        return "not reached"
    return f"{seconds:.3g} s" + ("" if math.isnan(speedup) else f", {speedup:.2f} ×")


def compare(runs: Sequence[RunLike], *, target: float | None = None) -> Comparison:
    """Compare runs in their current state; the first is the baseline.

    If they were evaluated unequally often, scores are of the epochs in which all were evaluated
    (``comparison_table.py``), and the table's caption states this.

    Args:
        runs: handles or snapshots.
        target: validation score in [0, 1] of the time to accuracy; by default half a point below Vanilla's best, or the
            first run's if there is no Vanilla.

    Raises:
        TypeError: if ``runs`` are paths.
        ValueError: if there is no run, or the target is not a score in [0, 1].
    """
    if hasattr(runs, "records"):
        raise ValueError("runs must be a list of runs, got one run; pass compare([run, other]), or compare([run])")
    if isinstance(runs, str | Path) or any(isinstance(run, str | Path) for run in runs):
        raise TypeError(f"runs must be a list of runs, got {runs!r}; open a folder by gnnqlab.Run(path)")
    if not runs:
        raise ValueError("a comparison needs at least one run, got none; pass compare([run, other])")
    if target is not None:
        check_target(target)
    snapshots = match_evaluations([take(run) for run in runs])
    return Comparison(snapshots, usual_target(snapshots) if target is None else target)
