"""Comparison of runs: one table and the figures that explain it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gnnqlab.by_name import did_you_mean
from gnnqlab.former_names import FormerMember
from gnnqlab.lab.figures.bundle import FigureData, name_links, table_html
from gnnqlab.lab.figures.frames import (
    by_epoch,
    by_tier,
    device_pairs,
    mean_over_seeds,
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
from gnnqlab.lab.training.readable_table import ReadableTable, run_table, seed_summary, seed_table
from gnnqlab.lab.training.seed_groups import find_baseline, group_seeds
from gnnqlab.lab.training.snapshot import RunLike, Snapshot, labels, take
from gnnqlab.lab.training.sweep import OUTCOMES, Sweep, settings_of
from gnnqlab.lab.training.sweep_views import draw_importance, draw_parallel
from gnnqlab.study.tables import latex
from gnnqlab.terminal import output_width
from gnnqlab.train.loop.scores import get_test_score, score_label

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Comparison of runs; those that differ in their seed only are one row of its table and one line of its figures.

    At the end of a notebook cell it shows its table. Figures are returned as ``FigureData``: ``.figure`` is Plotly's,
    ``.frame`` has its numbers.
    """

    runs: tuple[Snapshot, ...]
    target: float
    """Validation score of the time to accuracy; NaN if no run was validated."""
    baseline: int = 0
    """Position of the baseline's first run."""
    by_seed: bool = False
    """True if the table has one row for all seeds of a system."""

    def by_run(self) -> Comparison:
        """Return the comparison with one row and one line for each run."""
        return replace(self, by_seed=False)

    def to_frame(self) -> DataFrame:
        """Return one row per run: seed, accuracy, total time, time to accuracy, bytes ... (``comparison_frame``)."""
        target = None if math.isnan(self.target) else self.target
        return comparison_frame(self.runs, target=target, baseline=self.baseline)

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
        """Draw loss or score by epoch or by seconds of training; over seeds the mean in a band of its 95 % interval."""
        import pandas as pd

        score = score_label(self.runs[0].summary)
        if self.by_seed:
            frame = plots.seed_curves(self._records_of_rows(), value=value)
            figure = plots.convergence_over_seeds(frame, value=value, against=against, score=score, dark=dark)
            return FigureData(self._linked(figure), frame.groupby("system", sort=False).tail(1).set_index("system"))
        # The last epoch with a value, one row per run.
        last_rows = {label: by_epoch(records).dropna(subset=[value]).tail(1) for label, records in self.records.items()}
        frame = pd.concat(last_rows.values(), keys=last_rows.keys(), names=["system"]).droplevel(1)
        figure = plots.convergence(self.records, value=value, against=against, score=score, dark=dark)
        return FigureData(self._linked(figure), frame[["epoch", "train_s", value]])

    def breakdown(self, *, per_worker: bool = False) -> FigureData:
        """Draw the mean time per epoch by phase, with a table in seconds."""
        import pandas as pd

        records = self._records_of_rows()
        phases = {label: mean_over_seeds(map(phase_seconds, seeds)).iloc[0] for label, seeds in records.items()}
        frame = pd.concat(phases, axis=1).T
        frame.index.name = "system"
        return FigureData(self._linked(plots.breakdown(records, per_worker=per_worker)), frame.fillna(0.0))

    def volume(self) -> FigureData:
        """Draw the bytes that all workers send per epoch, payload and parameters."""
        import pandas as pd

        records = self._records_of_rows()
        volumes = {label: pd.DataFrame(map(volume_per_epoch, seeds)).mean() for label, seeds in records.items()}
        frame = pd.DataFrame(volumes).T
        frame.index.name = "system"
        return FigureData(self._linked(plots.volume(records)), frame)

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

        # The baseline is the first run of a report.
        runs = [self.runs[self.baseline], *(run for number, run in enumerate(self.runs) if number != self.baseline)]
        return write_report(runs, path, target=None if math.isnan(self.target) else self.target)

    def _records_of_rows(self) -> dict[str, list[DataFrame]]:
        """Return the records of each row of the table: of one run, or of all seeds."""
        if not self.by_seed:
            return {label: [records] for label, records in self.records.items()}
        groups = group_seeds(self.runs)
        return {group.label: [self.runs[number].records for number in group.numbers] for group in groups}

    def _linked(self, figure: Figure) -> Figure:
        return name_links(figure, (run.summary.get("link") for run in self.runs))

    def table(self) -> DataFrame:
        """Return the table as text: one row per run, or over seeds one per system with ``mean ± half interval``."""
        return self._readable().cells

    def summary(self) -> DataFrame:
        """Return the numbers of the table over seeds, as ``Study.summary`` does.

        Returns:
            One row per group and metric: ``mean``, ``half_interval`` (95 %, NaN for one seed), ``difference`` from the
            baseline over the same seeds and its ``difference_half_interval``, ``unit``, ``seeds``.
        """
        return seed_summary(self.to_frame(), **self._measures())

    @property
    def notes(self) -> dict[str, str]:
        """Words about each row whose score is below the baseline's by more than half a point."""
        return self._readable().notes

    def to_latex(self, columns: Sequence[str] | None = None) -> str:
        """Return :meth:`table` as a LaTeX ``tabular`` with the rules of booktabs, the best of each column in bold.

        Args:
            columns: columns of the table in their order, after the name of the system; all by default.

        Raises:
            ValueError: if a column is unknown.
        """
        readable = self._readable()
        cells = readable.cells.rename_axis("system").reset_index()
        return latex(cells, None if columns is None else ["system", *columns], readable.best)

    def _measures(self) -> dict[str, Any]:
        baseline = find_baseline(group_seeds(self.runs), self.baseline)
        return {"score": score_label(self.runs[0].summary), "target": self.target, "baseline": baseline.label}

    def _readable(self) -> ReadableTable:
        build = seed_table if self.by_seed else run_table
        return build(self.to_frame(), **self._measures())

    def _note(self) -> str:
        """Return the origin of ratios and intervals in words."""
        name = self._measures()["baseline"]
        words = f"×: speed-up relative to {name}; seconds of training without evaluation"
        if self.by_seed:
            words = f"Means over seeds ± 95 % intervals (Student's t). ×, points: relative to {name} with the same seed"
        return ". ".join(filter(None, [words, evaluation_note(self.runs)]))

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self._readable().fitted(output_width()), self._note()]))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        readable = self._readable()
        table = table_html(readable.cells, caption=self._note(), best=readable.best)
        for unit in ("s,", "s<", "%<", "×<", "ms<", "B<", "kB<", "MB<", "GB<"):  # no line ends before a unit
            table = table.replace(f" {unit}", f"&nbsp;{unit}")
        return {"text/plain": repr(self), "text/html": table}


def compare(
    runs: Sequence[RunLike],
    *,
    target: float | None = None,
    baseline: str | int | None = None,
    names: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare runs in their current state; runs that differ in their seed only are one row, a mean with its interval.

    Speed-ups and differences of scores are between runs of the same seed. If runs were evaluated unequally often,
    scores are of the epochs in which all were evaluated (``comparison_table.py``), and the table's caption states this.

    Args:
        runs: handles or snapshots.
        target: validation score in [0, 1] of the time to accuracy; by default half a point below the baseline's best,
            of several seeds the lowest.
        baseline: name of the system, label of the row, or position of a run to compare others with; by default Vanilla,
            or the first run if there is no Vanilla.
        names: name of a system -> its name in tables and figures, for instance ``{"my-codec": "Ours"}``.

    Raises:
        TypeError: if ``runs`` are paths.
        ValueError: if there is no run, the target is not a score in [0, 1], or a baseline or system is unknown.
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
    groups = group_seeds(snapshots)
    return Comparison(
        _renamed(snapshots, names or {}),
        usual_target(snapshots, baseline=baseline) if target is None else target,
        find_baseline(groups, baseline).numbers[0],
        any(len(group.numbers) > 1 for group in groups),
    )


def _renamed(runs: tuple[Snapshot, ...], names: Mapping[str, str]) -> tuple[Snapshot, ...]:
    """Return the runs with other names of systems in their summaries, from which tables and figures read them."""
    systems = dict.fromkeys(str(run.summary["system"]) for run in runs)
    for name in names:
        if name not in systems:
            raise ValueError(f"names must be of the systems {list(systems)}, got {name!r}{did_you_mean(name, systems)}")
    new_names = {system: names.get(system, system) for system in systems}
    if len(set(new_names.values())) < len(systems):
        raise ValueError(f"names of systems must differ, got {new_names}")
    return tuple(replace(run, summary={**run.summary, "system": new_names[run.summary["system"]]}) for run in runs)
