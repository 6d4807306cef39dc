"""Trainings of a grid, each kept in the folder of a study, so that a table of hundreds can stop and continue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.engine.rows import counted
from gnnqlab.study import Case, Cell, RunResult, Study

__all__ = ["Options", "Results", "mean_of", "scores_of", "study_rows", "train_each", "train_here", "train_mini_batches"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every study of launched trainings."""

    graph: str | None = None
    """Name or path; by default the study's own."""
    seeds: int = 5
    """Trainings of each contestant."""
    first_seed: int = 0
    """Of the first of them; the next ones follow."""
    epochs: int | None = None
    """Of each training; by default the study's own number."""
    workers: tuple[int, ...] = (2,)
    """Numbers of workers."""
    trainings: str = "runs/bench"
    """Folder in which each training is kept; those that stand there are not repeated."""

    def over(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `train_each` for a study with these settings, whose ``epochs`` may be others here."""
        own = {"workers": self.workers, "seeds": self.seeds, "first_seed": self.first_seed, "folder": self.trainings}
        return {**settings, **own, **({} if self.epochs is None else {"epochs": self.epochs})}


Results = dict[Case, dict[str, list[RunResult]]]
"""Results by case and line, the same seeds in the same order."""


def train_each(systems: Any, *, seeds: int, first_seed: int = 0, **grid: Any) -> Results:
    """Train every cell of a grid that has no result yet, and return all results.

    Args:
        systems: as :class:`gnnqlab.Study` takes them; their names are the lines of a table.
        seeds: number of trainings of each line.
        first_seed: of these.
        **grid: further arguments of :class:`gnnqlab.Study`: ``graphs``, ``folder`` and so on.

    Raises:
        ValueError: if there is no seed.
        RuntimeError: if a training failed; the others were trained before.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
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
    """Train a grid and return the rows of every case, with the columns ``graph, model, workers, link`` behind.

    Args:
        table: rows of a case, from its name and the results by contestant, the same seeds in the same order.
        systems, seeds, first_seed, **grid: as for `train_each`.
        case: format of the first column, with the names of the grid's settings and of a case's columns; ``{seeds}`` is
            the number of seeds in words.
    """
    rows = []
    for one, trained in train_each(systems, seeds=seeds, first_seed=first_seed, **grid).items():
        columns = one._asdict()
        name = case.format(**{**grid, **columns, "seeds": counted(seeds, first_seed)})
        rows += [{**each, **columns} for each in table(name, trained)]
    return rows


def mean_of(trainings: Sequence[RunResult], value: str) -> float:
    """Return the mean of a field over trainings."""
    return statistics.fmean(getattr(one, value) for one in trainings)


def scores_of(trainings: Sequence[RunResult]) -> list[float]:
    """Return the test scores of trainings, in [0, 1]."""
    return [one.score for one in trainings]


def train_here(trainer: Any, cell: Cell) -> RunResult:
    """Train a cell in this process; seconds are those of epochs, without evaluation.

    Args:
        trainer: with ``epoch(number)`` and ``evaluate(number)``, of the cell's graph, model and seed.
        cell: says how many epochs there are, and how many lie between evaluations; 0 evaluates the last alone.
    """
    spent: list[float] = []
    curve: list[tuple[int, float, float]] = []
    tests: list[float] = []
    settings = cell.config.train
    for epoch in range(settings.epochs):
        start = time.perf_counter()
        trainer.epoch(epoch)
        spent.append(time.perf_counter() - start)
        trained = epoch + 1
        if trained == settings.epochs or (settings.evaluate_every and trained % settings.evaluate_every == 0):
            scores = trainer.evaluate(trained)
            curve.append((trained, sum(spent), float(scores.val)))
            tests.append(float(scores.test))
    best = max(range(len(curve)), key=lambda number: curve[number][2])  # the first of equals
    return RunResult(
        score=tests[best], epochs=settings.epochs, train_s=sum(spent), curve=tuple(curve), epochs_s=tuple(spent)
    )


def train_mini_batches(cell: Cell, *, fanout: int, batch_size: int) -> RunResult:
    """Train a cell's model in this process on batches of sampled neighbours.

    Raises:
        RuntimeError: if DGL, which samples the neighbours, is not installed.
    """
    from gnnqlab.graph.sources.catalogue import load
    from gnnqlab.train.dgl_mini_batch import MiniBatch
    from gnnqlab.train.loop.scores import score_in

    line = MiniBatch(fanout=fanout, batch_size=batch_size).train(load(cell.config.graph), cell.config)
    return RunResult(score=score_in(line.summary) or 0.0, train_s=float(line.summary.get("train_s", 0.0)))
