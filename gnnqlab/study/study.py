"""``gq.Study``: a resumable grid of trainings, and one table of its results."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.run.folder import default_root
from gnnqlab.study.cells import (
    Case,
    Cell,
    CellResults,
    Contestant,
    code_in_use,
    content_digest,
    make_contestants,
    with_link,
)
from gnnqlab.study.metrics import metric_rows
from gnnqlab.study.result import MARGIN, RunResult, read_result
from gnnqlab.study.tables import GROUP, SCORE, best_cells, convergence, latex, summarize, wide_table
from gnnqlab.train.config.configure import configure
from gnnqlab.train.records.evaluation_pauses import usual_every

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.run.run import Run
    from gnnqlab.systems.system import System

__all__ = ["Study", "launch_cell"]

FINISHED, MISSING = "finished", "not trained"
DEFAULT_METRICS = ("speed_up", "speed_up_to_target", "score")


def launch_cell(cell: Cell, folder: Path) -> RunResult:
    """Train a cell as a separate run in a study's folder.

    Raises:
        WorkerFailed: if the run fails.
    """
    from gnnqlab.launch.local import launch

    # Processes that still run would slow the next cell, and its times are measured.
    with launch(cell.config, root=folder) as run:  # leaving the block waits until the run's processes have ended
        result = read_result(run.wait())
        if run.status != "finished":
            raise RuntimeError(f"run {run.id} was stopped before its end")
        return result


class Study:
    """Trainings of several systems with identical seeds, partitions and links.

    The grid is every system on every graph with every model, number of workers and seed. All configurations are built
    and checked here; :meth:`run` trains. Seeds are the outer loop and systems the inner one, so that a slowdown of the
    machine affects all systems.

    Args:
        systems: names, systems, :class:`gnnqlab.study.Contestant` objects, or a mapping from display names to systems.
        graphs: names, paths or graphs, as accepted by ``gq.launch``.
        models: names or settings of models.
        seeds: seeds of the trainings.
        workers: number of workers, or several numbers.
        baseline: the system to compare others with; the first one by default.
        folder: folder of results and runs; ``study`` in the folder of runs by default. Several studies may share one: a
            cell trained by another study is not trained again.
        train: ``(cell, folder) -> RunResult`` in place of a launched run, for other kinds of training.
        **settings: settings of ``gq.launch`` for all cells: ``epochs``, ``hidden``, ``hosts``, ``link`` and so on. With
            ``comm_share`` the link rate is calibrated once per graph, model and number of workers, with Vanilla. All
            cells are evaluated equally often.

    Raises:
        ValueError: if the grid is empty, or a name, a setting or a value is invalid; before any training.

    Example:
        >>> study = Study(systems=["vanilla", "fixed-bits"], graphs=["digits"], seeds=range(3), epochs=5)
        >>> len(study.cells), study.cells[1].contestant.label, study.cells[1].seed
        (6, 'fixed-bits', 0)
    """

    def __init__(
        self,
        *,
        systems: Sequence[str | System | Contestant] | Mapping[str, str | System],
        graphs: Sequence[GraphLike] = ("digits",),
        models: Sequence[str | ModelSettings] = ("gcn",),
        seeds: Iterable[int] = range(5),
        workers: int | Sequence[int] = 2,
        baseline: str | None = None,
        folder: str | Path | None = None,
        train: Callable[[Cell, Path], RunResult] = launch_cell,
        **settings: Any,
    ) -> None:
        self.folder = Path(folder).absolute() if folder is not None else default_root() / "study"
        self.contestants = make_contestants(systems)
        labels = [contestant.label for contestant in self.contestants]
        self.baseline = labels[0] if baseline is None else baseline
        if self.baseline not in labels:
            raise ValueError(f"baseline must be one of the systems {labels}, got {baseline!r}")
        # Evaluation receives pending messages of a stale schedule, so one such contestant makes all evaluations rare.
        lag = max(contestant.system.schedule.lag for contestant in self.contestants)
        settings = {"evaluate_every": usual_every(lag), **settings}  # an explicit setting precedes
        counts = [workers] if isinstance(workers, int) else list(workers)
        seeds = list(seeds)
        for argument, values in (("graphs", graphs), ("models", models), ("seeds", seeds), ("workers", counts)):
            if isinstance(values, str) or not values:
                raise ValueError(f"{argument} of a study must be a list with at least one entry, got {values!r}")
        self._train, self._results, code = train, CellResults(self.folder), code_in_use()
        self._cells: list[Cell] = []
        # Seeds outside, contestants inside: a slow hour of the machine affects all systems of a seed.
        for graph in graphs:
            name, content = _identity(graph)
            for model in models:
                for count in counts:
                    model_name = model if isinstance(model, str) else model.name
                    for seed in seeds:
                        for contestant in self.contestants:
                            options = {
                                **settings,
                                **contestant.settings(),
                                "model": model,
                                "workers": count,
                                "seed": seed,
                            }
                            config = configure(graph, **options)  # checks every cell before the first training
                            case = Case(name, model_name, count, config.launch.link or "")
                            cell = Cell(
                                case=case,
                                contestant=contestant,
                                config=config,
                                content=content or config.graph,
                                code=code,
                            )
                            self._cells.append(cell)

    @property
    def cells(self) -> list[Cell]:
        """All cells in the order of training, with calibrated links as far as known."""
        # Another process may have calibrated a link in the meantime, so it is looked up at each access.
        for number, cell in enumerate(self._cells):
            share = cell.config.launch.comm_share
            link = None if share is None else self._results.link(cell.case, share)
            if link is not None:
                self._cells[number] = with_link(cell, *link)
        return list(self._cells)

    def __repr__(self) -> str:
        states = [self._status(cell) for cell in self.cells]
        num_finished, num_missing = states.count(FINISHED), states.count(MISSING)
        num_failed = len(states) - num_finished - num_missing
        return (
            f"Study of {len(states)} cells: {num_finished} finished, {num_failed} failed, {num_missing} not trained; "
            f"{self.folder}"
        )

    def run(self) -> Study:
        """Train all cells without a result, one after another; return the study.

        A failed cell does not end the study: its cause is in the column ``status`` of :meth:`frame`, and the next call
        trains it again. Ctrl-C stops the study; finished cells are stored, and the next call continues. Progress and
        the estimated remaining time are printed on standard error.
        """
        # Failed cells have no result, so they are trained again.
        numbers = [number for number, cell in enumerate(self.cells) if self._results.find(cell.key) is None]
        start = time.monotonic()
        for index, number in enumerate(numbers):
            try:
                text = self._run_cell(number)
            except KeyboardInterrupt:
                count = len(self._cells) - len(numbers) + index
                print(f"stopped: {count} of {len(self._cells)} cells are in {self.folder}", file=sys.stderr, flush=True)
                raise
            # by the mean of this call
            left_s = (time.monotonic() - start) / (index + 1) * (len(numbers) - index - 1)
            count = len(self._cells) - len(numbers) + index + 1
            text = f"{count} of {len(self._cells)}: {text}, about {left_s / 60:.0f} min left"
            print(text, file=sys.stderr, flush=True)
        return self

    def runs(self) -> list[Run]:
        """Return the runs of the finished cells whose folders still exist."""
        from gnnqlab.run.run import Run

        results = (self._results.find(cell.key) for cell in self.cells)
        return [
            Run(self.folder / result.run)
            for result in results
            if result and result.run and (self.folder / result.run).is_dir()
        ]

    def results(self) -> dict[Case, dict[str, list[RunResult]]]:
        """Return the results of each case by contestant label, with seeds in identical order.

        Raises:
            RuntimeError: if a cell has no result; the message has the number of such cells and the first cause.
        """
        results: dict[Case, dict[str, list[RunResult]]] = {}
        causes = []
        for cell in self.cells:
            result = self._results.find(cell.key)
            if result is None:
                causes.append(f"{_describe(cell)}: {self._status(cell)}")
            else:
                results.setdefault(cell.case, {}).setdefault(cell.contestant.label, []).append(result)
        if causes:
            raise RuntimeError(f"{len(causes)} of {len(self._cells)} cells have no result, first {causes[0]}")
        return results

    def frame(self) -> pd.DataFrame:
        """Return all results as one tidy table.

        Returns:
            One row per cell and metric: ``graph, model, system, services, workers, link, seed, metric, value, unit,
            status``; see :mod:`gnnqlab.study.metrics`. A cell without a result has one row without a metric, and the
            reason in ``status``.
        """
        import pandas as pd

        rows = []
        # Ratios are between results of one seed, so each seed has its own baseline.
        baselines = {
            (cell.case, cell.seed): self._results.find(cell.key)
            for cell in self.cells
            if cell.contestant.label == self.baseline
        }
        for cell in self.cells:
            result = self._results.find(cell.key)
            metrics: list[dict[str, Any]] = [{"metric": "", "value": float("nan"), "unit": ""}]
            if result is not None:
                metrics = metric_rows(result, baselines[cell.case, cell.seed])
            rows += [{**cell.columns(), **metric, "status": self._status(cell)} for metric in metrics]
        return pd.DataFrame(rows)

    def summary(self, *metrics: str) -> pd.DataFrame:
        """Return means over seeds with 95 % intervals, and differences from the baseline over the same seeds.

        Args:
            *metrics: names from the column ``metric``; ``score`` stands for the graph's test score. All by default.

        Returns:
            One row per graph, model, system, number of workers and metric: ``mean``, ``half_interval``,
            ``difference``, ``difference_half_interval`` in ``unit``, and ``seeds``, the number of seeds.

        Raises:
            ValueError: if a metric is unknown.
        """
        return summarize(self.frame(), metrics, self._baseline_columns())

    def table(self, *metrics: str) -> pd.DataFrame:
        """Return :meth:`summary` as a readable table: one row per system, ``mean ± half interval`` in each cell.

        Args:
            *metrics: as for :meth:`summary`; by default ``speed_up``, ``speed_up_to_target`` and ``score``.
        """
        return wide_table(self.summary(*(metrics or DEFAULT_METRICS)), self.baseline)

    def convergence(self) -> pd.DataFrame:
        """Return validation scores over the training: means over seeds with 95 % intervals.

        Returns:
            One row per graph, model, system, number of workers and evaluation: ``epochs`` and mean ``seconds`` of
            training, ``score``, ``low`` and ``high`` in %, and ``seeds``. ``gq.charts.lines`` draws it.

        Example:
            >>> study = Study(systems=["vanilla"], graphs=["digits"], seeds=range(3), folder="runs/none")
            >>> study.convergence().columns[-6:].tolist()
            ['epochs', 'seconds', 'score', 'low', 'high', 'seeds']
        """
        results = [(cell.columns(), self._results.find(cell.key)) for cell in self.cells]
        return convergence([(columns, result.curve) for columns, result in results if result is not None])

    def to_latex(self, *metrics: str, columns: Sequence[str] | None = None) -> str:
        """Return :meth:`table` as a LaTeX ``tabular`` with the rules of the package booktabs, best values in bold.

        Values of a system whose score is more than half a point below the baseline's are never best.

        Args:
            *metrics: as for :meth:`table`.
            columns: columns of that table in their order; all by default.
        """
        summary = self.summary(*(metrics or DEFAULT_METRICS))
        scores = self.summary(SCORE)
        missed = scores[scores["difference"] < -100 * MARGIN]
        best = best_cells(summary, set(map(tuple, missed[GROUP].values.tolist())))
        return latex(wide_table(summary, self.baseline), columns, best)

    def save(self, path: str | Path) -> Path:
        """Write :meth:`frame` to a ``.csv`` or ``.json`` file; return its path.

        Raises:
            ValueError: if the name ends in neither.
        """
        path = Path(path)
        if path.suffix not in (".csv", ".json"):
            raise ValueError(f"a table is saved as .csv or .json, got {path.name!r}; to_latex() returns LaTeX")
        frame = self.frame()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", indent=1)
        return path

    def _run_cell(self, number: int) -> str:
        """Train one cell and return a status line; the cause of a failure is stored."""
        try:
            cell = self._cells[number] = self._resolve_link(self._cells[number])
        except (RuntimeError, OSError) as error:
            cause = f"failed: the link could not be calibrated: {error}"
            self._results.add(self._cells[number], None, cause)
            return f"{_describe(self._cells[number])}: {cause}"
        try:
            result = self._train(cell, self.folder)
        # One failed cell must not end a study of hours; errors of the program itself are raised.
        except (RuntimeError, OSError, ValueError) as error:
            cause = f"failed: {error}"
            self._results.add(cell, None, cause)
            return f"{_describe(cell)}: {cause}"
        self._results.add(cell, result)
        return f"{_describe(cell)}: {result.train_s:.1f} s"

    def _resolve_link(self, cell: Cell) -> Cell:
        """Return a cell with the link rate of its case; calibrate it with Vanilla at the first call."""
        from gnnqlab.launch.calibrate import resolve_comm_share
        from gnnqlab.systems.registry import make_system

        share = cell.config.launch.comm_share
        if share is None:
            return cell
        if self._results.link(cell.case, share) is None:
            # Calibrate with the plain reference, so that the rate does not depend on the contestant.
            train = dataclasses.replace(cell.config.train, gradients="float32", seed=0)
            vanilla = dataclasses.replace(cell.config, system=make_system("vanilla"), train=train)
            (resolved_config,) = resolve_comm_share([vanilla])  # short runs of Vanilla at several rates
            launch = resolved_config.launch
            assert launch.link is not None and launch.vanilla_share is not None
            self._results.add_link(cell.case, share, launch.link, launch.vanilla_share)
        link = self._results.link(cell.case, share)
        assert link is not None
        return with_link(cell, *link)

    def _status(self, cell: Cell) -> str:
        if self._results.find(cell.key) is not None:
            return FINISHED
        return self._results.cause(cell.key) or MISSING

    def _baseline_columns(self) -> dict[str, str]:
        contestant = next(contestant for contestant in self.contestants if contestant.label == self.baseline)
        return {"system": contestant.name, "services": contestant.services}


def _identity(graph: GraphLike) -> tuple[str, str]:
    """Return a graph's name in tables, and a digest of its content."""
    if isinstance(graph, str | Path):
        path = Path(graph)
        return (path.stem if path.is_file() else path.name) if path.exists() else str(graph), content_digest(str(graph))
    from gnnqlab.graph import load

    loaded_graph = load(graph)
    return loaded_graph.name, loaded_graph.content_hash


def _describe(cell: Cell) -> str:
    return f"{cell.case}, seed {cell.seed}, {cell.contestant.label}"
