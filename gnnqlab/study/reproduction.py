"""Run the scaled experiment of a claim, judge the result, and store it as a row of a table."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnqlab import results
from gnnqlab.run.folder import default_root
from gnnqlab.study.cells import Cell
from gnnqlab.study.claims import BenchExperiment, Claim, StudyExperiment, find_claim
from gnnqlab.study.quantities import QUANTITIES
from gnnqlab.study.result import RunResult
from gnnqlab.study.study import Study, launch_cell
from gnnqlab.theory.intervals import interval

__all__ = ["TABLE", "Reproduction", "budget_seconds", "measured_in", "reproduce", "stored_reproductions"]

TABLE = "reproduced"
"""Name of the stored table."""
BUDGET_S = 600.0
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Measured number of a claim, with its verdict."""

    claim: str
    """Id."""
    value: float
    """Mean, in the unit of the claim."""
    half: float
    """Half the 95 % interval; NaN for one value, 0 for a counted number."""
    values: tuple[float, ...]
    """Single numbers, one per seed or row."""
    verdict: str
    unit: str
    reported: str
    """Reported numbers with their unit."""
    command: str
    """Command that repeats the measurement."""
    machine: Mapping[str, Any]
    left_out: str = ""
    """Seeds for which the time did not suffice."""
    date: str = field(default="", compare=False)

    def __str__(self) -> str:
        spread = "" if self.half == 0 else " (no interval)" if math.isnan(self.half) else f" ± {self.half:.3g}"
        lines = [
            f"{self.claim}: {self.verdict}",
            f"reported: {self.reported}",
            f"here:     {self.value:.3g}{spread} {self.unit}",
            f"machine:  {self.machine['processor']}, {self.machine['cores']} cores",
            f"command:  {self.command}",
        ]
        return "\n".join([*lines, *([f"left out: {self.left_out}"] if self.left_out else [])])

    def row(self) -> dict[str, Any]:
        """Return the row of a stored table."""
        return {
            "case": self.claim,
            "contestant": "",
            "metric": "",
            "rival": "",
            "figure": self.claim,
            "value": self.value,
            "half_interval": None if math.isnan(self.half) else self.half,
            "unit": self.unit,
            "reported": self.reported,
            "verdict": self.verdict,
            "values": list(self.values),
            "left_out": self.left_out,
        }


def reproduce(
    claim: str | Claim,
    *,
    budget: str | float = BUDGET_S,
    folder: str | Path | None = None,
    tables: str | Path | None = None,
    train: Callable[[Cell, Path], RunResult] = launch_cell,
) -> Reproduction:
    """Run the scaled experiment of a claim and compare its number with the paper's.

    A study trains both systems seed by seed, and stops before a seed for which the rest of the budget is too short;
    finished trainings are stored, so that a second call continues. A command of ``gnnqlab bench`` runs as a whole. The
    result is stored as a row of the table ``reproduced``.

    Args:
        claim: id, or claim of :func:`gnnqlab.study.load_claims`.
        budget: seconds, or a text such as ``"10min"``, ``"90s"`` or ``"2h"``.
        folder: folder of trainings; ``reproduce`` in the folder of runs by default.
        tables: folder of the stored table; ``tables`` in ``folder`` by default.
        train: trains one cell; for other kinds of training.

    Raises:
        ValueError: if the claim is unknown or has no experiment, or the budget is shorter than one seed or than the
            command; before anything is measured.
        RuntimeError: if a training or the command fails.
    """
    claim = find_claim(claim) if isinstance(claim, str) else claim
    experiment, budget_s = claim.require_measurable(), budget_seconds(budget)
    folder = Path(folder) if folder is not None else default_root() / "reproduce"
    tables = Path(tables) if tables is not None else folder / "tables"
    unit = "one seed" if isinstance(experiment, StudyExperiment) else "the command"
    if budget_s < 60 * experiment.minutes:
        raise ValueError(
            f"budget of {claim.id} must be at least {experiment.minutes:g}min, about the time of {unit} on two cores, "
            f"got {budget_s:g} s; raise it, for instance {experiment.minutes:g}min"
        )
    results.require_joinable(TABLE, folder=tables)  # before minutes of measurement, not after them
    left_out = ""
    if isinstance(experiment, StudyExperiment):
        values = _train_seeds(experiment, budget_s, folder, train)
        mean, half = interval(values)
        half = half if len(values) > 1 else math.nan
        if len(values) < experiment.seeds:
            left_out = f"{experiment.seeds - len(values)} of {experiment.seeds} seeds; raise --budget to train them"
    else:
        values, mean, half = measured_in(_bench_rows(experiment), experiment)
    from gnnqlab.train.records.provenance import machine

    result = Reproduction(
        claim=claim.id, value=mean, half=half, values=tuple(values), verdict=claim.judge(mean, half), unit=claim.unit,
        reported=claim.reported_text, command=f"gnnqlab reproduce {claim.id} --budget {budget_s / 60:g}min",
        machine=machine(), left_out=left_out,
    )  # fmt: skip
    results.join(TABLE, [result.row()], command=result.command, folder=tables)
    return result


def budget_seconds(budget: str | float) -> float:
    """Return a budget in seconds.

    Raises:
        ValueError: if it is not a positive number, or a text of a number with s, min or h.

    Example:
        >>> budget_seconds("10min"), budget_seconds("1.5h"), budget_seconds(90)
        (600.0, 5400.0, 90.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)?\s*", str(budget))
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    if not seconds > 0:
        raise ValueError(f"budget must be a positive number with s, min or h, got {budget!r}; for instance 10min")
    return seconds


def _train_seeds(
    experiment: StudyExperiment, budget_s: float, folder: Path, train: Callable[[Cell, Path], RunResult]
) -> list[float]:
    """Train seed by seed until the next one would exceed the budget; return a number per seed."""
    start, durations, values = time.monotonic(), [0.0], []
    for seed in range(experiment.seeds):
        if seed and time.monotonic() - start + max(durations) > budget_s:
            break
        began = time.monotonic()
        values.append(_value_of_seed(experiment, seed, folder, train))
        durations.append(time.monotonic() - began)
    return values


def _value_of_seed(
    experiment: StudyExperiment, seed: int, folder: Path, train: Callable[[Cell, Path], RunResult]
) -> float:
    from gnnqlab.systems.registry import make_system

    workers = experiment.workers, experiment.baseline_workers or experiment.workers
    made = (
        make_system(experiment.system, **experiment.settings),
        make_system(experiment.baseline, **experiment.baseline_settings),
    )
    labels = experiment.labels
    # Both systems with all numbers of workers in question; a cell of an earlier call is not trained again.
    study = Study(
        systems=dict(zip(labels, made)), seeds=[seed], workers=sorted(set(workers)), folder=folder, train=train,
        **experiment.grid,
    ).run()  # fmt: skip
    by_workers = {case.workers: found for case, found in study.results().items()}
    (system,), (baseline,) = (by_workers[count][label] for count, label in zip(workers, labels))
    return QUANTITIES[experiment.quantity](system, baseline)


def _bench_rows(experiment: BenchExperiment) -> Rows:
    """Run a benchmark as a process of its own and return its rows; its progress goes to standard error."""
    command = [sys.executable, "-m", "gnnqlab", "bench", *experiment.words, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    last_line = (done.stdout.splitlines() or ["{}"])[-1]
    if done.returncode:
        reason = json.loads(last_line).get("error", "") if last_line.startswith("{") else last_line
        raise RuntimeError(f"{experiment.text} ended with exit code {done.returncode}: {reason}")
    rows: Rows = json.loads(last_line)["rows"]
    return rows


def measured_in(rows: Rows, experiment: BenchExperiment) -> tuple[list[float], float, float]:
    """Return the numbers of the rows that an experiment selects, the number of the claim, and half its 95 % interval.

    Half the interval is that of a single row's points, or of the mean of several rows; 0 for counted numbers, NaN
    without an interval.

    Raises:
        RuntimeError: if no row matches.

    Example:
        >>> rows = [{"case": name, "contestant": "x", "metric": "", "rival": "y", "ratio": 2.0} for name in "ab"]
        >>> measured_in(rows, BenchExperiment(command="made-up", minutes=1, contestant="x", show="ratio"))
        ([2.0, 2.0], 2.0, 0.0)
    """
    columns = {name: re.compile(getattr(experiment, name)) for name in ("case", "contestant", "metric", "rival")}
    matches = [row for row in rows if all(pattern.fullmatch(row.get(name) or "") for name, pattern in columns.items())]
    if not matches:
        wanted = ", ".join(f"{name} {getattr(experiment, name)!r}" for name in columns)
        raise RuntimeError(f"a row of {experiment.text} must have {wanted}, got none of {len(rows)} rows")
    values = [_shown(row, experiment.show) for row in matches]
    number, half = (min(values), math.nan) if experiment.take == "least" else interval(values)
    if len(values) == 1:
        half = _half_of(matches[0], experiment.show)
    return values, number, 0.0 if experiment.exact else half


def _half_of(row: Mapping[str, Any], show: str) -> float:
    """Return half the interval of a row's number, from that of its points; NaN for other numbers."""
    if show not in ("points", "difference", "share", "change") or row.get("half_interval") is None:
        return math.nan
    half = float(row["half_interval"])
    return half if show in ("points", "difference") else 100 * half / float(row["rival_value"])  # points -> per cent


def _shown(row: Mapping[str, Any], show: str) -> float:
    if show in ("value", "ratio", "points"):
        return float(row[show])
    value, rival_value = float(row["value"]), float(row["rival_value"])
    if show == "difference":
        return value - rival_value
    return 100 * value / rival_value - (100 if show == "change" else 0)


def stored_reproductions(folder: str | Path = results.HERE) -> dict[str, dict[str, Any]]:
    """Return the rows of the stored table ``reproduced`` by claim, each with ``date``, ``command`` and ``device``.

    Example:
        >>> stored_reproductions("no-such-folder")
        {}
    """
    table = results.load(folder).get(TABLE)
    if table is None:
        return {}
    head = {name: table[name] for name in ("date", "command", "device")}
    return {row["case"]: {**head, **row} for row in table["rows"]}
