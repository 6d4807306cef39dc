"""The commands that list: what there is to choose from, what has run, what this machine can do."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.cli.console import plain_table
from gnnqlab.train.config_file import read_config

if TYPE_CHECKING:
    from gnnqlab.launch.run import Run

__all__ = ["Doctor", "Graphs", "Models", "Runs", "Systems"]


@dataclass(kw_only=True)
class _List:
    json: bool = False
    """End standard output with one JSON object."""

    def _show(self, rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
        if not self.json:
            print(plain_table(rows))
        return {key: rows}


@dataclass(kw_only=True)
class Systems(_List):
    """List the systems and what each chooses along the axes."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.systems.system import SYSTEMS

        rows = []
        for name, recipe in SYSTEMS.items():
            axes = recipe().to_json()
            parts = {axis: part["name"] for axis, part in axes.items() if isinstance(part, dict)}
            about = (recipe.__doc__ or "").partition("\n")[0]
            rows.append({"name": name, **parts, "about": about})
        return self._show(rows, "systems")


@dataclass(kw_only=True)
class Graphs(_List):
    """List the graphs that can be loaded by name."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.graph.sources import names

        return self._show([dict(row) for row in names()], "graphs")


@dataclass(kw_only=True)
class Models(_List):
    """List the models."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.nn.models import MODELS

        rows = [{"name": name, "about": (build.__doc__ or "").partition("\n")[0]} for name, build in MODELS.items()]
        return self._show(rows, "models")


@dataclass(kw_only=True)
class Runs(_List):
    """List the runs in a folder, of earlier processes too."""

    out: Path | None = None
    """Folder of runs; default: $GNNQLAB_RUNS, else runs."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.launch import runs

        return self._show([_row(run) for run in runs(self.out)], "runs")


def _row(run: Run) -> dict[str, Any]:
    """Return what a run is and how it went; of a folder that cannot be read, why not: the others are still listed."""
    blank = dict.fromkeys(("system", "graph", "workers", "epochs", "test"), "")
    row: dict[str, Any] = {"run": run.id, "status": "unreadable", **blank}
    try:
        settings = read_config(run.folder)
        row |= {"status": run.status, "system": settings["system"]["name"], "graph": Path(settings["graph"]).name}
        row |= {"workers": settings["workers"], **({"cause": run.cause} if run.cause else {})}
        summary = run.summary
        score = summary.get("test_accuracy", summary.get("test_f1_micro"))
        row |= {"epochs": summary["epochs"], "test": "" if score is None else f"{score:.4f}"}
    except Exception as error:
        text = str(error) if str(run.folder) in str(error) else f"{run.folder}: {type(error).__name__}: {error}"
        row["cause"] = text
        print(f"gnnqlab: {text}", file=sys.stderr)
    return row


@dataclass(kw_only=True)
class Doctor(_List):
    """Say what this machine can do, and what is missing."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.bench.doctor import examine

        return self._show(examine(), "checks")
