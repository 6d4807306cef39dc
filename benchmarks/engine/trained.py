"""Trainings of a grid, stored in the folder of a study, so that a table of hundreds can be interrupted and resumed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.engine.rows import seed_count_text
from gnnqlab.study import Case, Cell, RunResult, Study

__all__ = [
    "TrainingOptions",
    "Results",
    "mean_of",
    "scores_of",
    "study_rows",
    "train_each",
    "train_here",
    "train_mini_batches",
]


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options shared by all studies of launched trainings."""

    graph: str | None = None
    """Name or path; by default the study's own."""
    seeds: int = 5
    """Number of seeds: trainings of each contestant."""
    first_seed: int = 0
    """First of the consecutive seeds."""
    epochs: int | None = None
    """Epochs of each training; by default the study's own number."""
    workers: tuple[int, ...] = (2,)
    """Numbers of workers."""
    trainings: str = "runs/bench"
    """Folder of stored trainings; those in it are not repeated."""

    def merge_into(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `train_each` for a study with these settings; options replace its ``epochs``."""
        grid = {"workers": self.workers, "seeds": self.seeds, "first_seed": self.first_seed, "folder": self.trainings}
        # options of the command replace the study's own settings
        return {**settings, **grid, **({} if self.epochs is None else {"epochs": self.epochs})}


Results = dict[Case, dict[str, list[RunResult]]]
"""Case -> contestant -> results of the same seeds in the same order."""


def train_each(systems: Any, *, seeds: int, first_seed: int = 0, **grid: Any) -> Results:
    """Train every cell of a grid that has no result yet, and return all results.

    Args:
        systems: argument of :class:`gnnqlab.Study`; the names are the contestants of a table.
        seeds: number of trainings of each contestant.
        first_seed: first seed.
        **grid: further arguments of :class:`gnnqlab.Study`: ``graphs``, ``folder`` and so on.

    Raises:
        ValueError: if there is no seed.
        RuntimeError: if a training failed; the others are trained first.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    # consecutive seeds; stored results are not trained again
    return Study(systems=systems, seeds=range(first_seed, first_seed + seeds), **grid).run().results()


def study_rows(
    table: Callable[[str, Mapping[str, Sequence[RunResult]]], list[dict[str, Any]]],
    systems: Any,
    *,
    case: str,
    seeds: int,
    first_seed: int = 0,
    **grid: Any,
) -> list[dict[str, Any]]:
    """Train a grid and return the rows of every case, with additional columns ``graph, model, workers, link``.

    Args:
        table: makes the rows of a case from its name and the results by contestant (same seeds, same order).
        systems, seeds, first_seed, **grid: see `train_each`.
        case: format of the first column, with the names of the grid's settings and of a case's columns; ``{seeds}`` is
            the number of seeds as text.
    """
    rows = []
    for grid_case, results in train_each(systems, seeds=seeds, first_seed=first_seed, **grid).items():
        columns = grid_case._asdict()
        # text of the first column
        name = case.format(**{**grid, **columns, "seeds": seed_count_text(seeds, first_seed)})
        rows += [{**each, **columns} for each in table(name, results)]
    return rows


def mean_of(trainings: Sequence[RunResult], value: str) -> float:
    """Return the mean of a field over trainings."""
    return statistics.fmean(getattr(training, value) for training in trainings)


def scores_of(trainings: Sequence[RunResult]) -> list[float]:
    """Return the test scores of trainings, in [0, 1]."""
    return [training.score for training in trainings]


def train_here(trainer: Any, cell: Cell) -> RunResult:
    """Train a cell in this process; seconds are those of epochs, without evaluation.

    Args:
        trainer: object with ``epoch(number)`` and ``evaluate(number)``, for the cell's graph, model and seed.
        cell: has the number of epochs and the period of evaluation; 0 evaluates after the last epoch only.
    """
    seconds: list[float] = []
    curve: list[tuple[int, float, float]] = []
    tests: list[float] = []
    settings = cell.config.train
    for epoch in range(settings.epochs):
        start = time.perf_counter()
        trainer.epoch(epoch)
        seconds.append(time.perf_counter() - start)
        epoch_count = epoch + 1
        # after every k-th epoch, and after the last
        if epoch_count == settings.epochs or (settings.evaluate_every and epoch_count % settings.evaluate_every == 0):
            scores = trainer.evaluate(epoch_count)
            curve.append((epoch_count, sum(seconds), float(scores.val)))  # seconds so far without evaluation
            tests.append(float(scores.test))
    best_index = max(range(len(curve)), key=lambda number: curve[number][2])  # the first of equals
    return RunResult(
        # test score at the best validation score
        score=tests[best_index],
        epochs=settings.epochs,
        train_s=sum(seconds),
        curve=tuple(curve),
        epochs_s=tuple(seconds),
    )


def train_mini_batches(cell: Cell, *, fanout: int, batch_size: int) -> RunResult:
    """Train a cell's model in this process on mini-batches of sampled neighbours.

    Raises:
        RuntimeError: if DGL, which samples the neighbours, is not installed.
    """
    from gnnqlab.graph.sources.catalogue import load
    from gnnqlab.train.dgl_mini_batch import MiniBatch
    from gnnqlab.train.loop.scores import get_test_score

    line = MiniBatch(fanout=fanout, batch_size=batch_size).train(load(cell.config.graph), cell.config)
    # 0 if the model has no score
    return RunResult(score=get_test_score(line.summary) or 0.0, train_s=float(line.summary.get("train_s", 0.0)))
