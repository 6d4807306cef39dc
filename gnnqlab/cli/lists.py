"""The commands that list: what there is to choose from, what has run, what this machine can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnqlab.lab.console import plain_table

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

        rows = []
        for run in runs(self.out):
            summary = run.summary
            score = summary.get("test_accuracy", summary.get("test_f1_micro"))
            rows.append(
                {
                    "run": run.id,
                    "status": run.status,
                    "system": summary["system"],
                    "graph": Path(summary["graph"]).name,
                    "workers": summary["workers"],
                    "epochs": summary["epochs"],
                    "test": "" if score is None else f"{score:.4f}",
                }
            )
        return self._show(rows, "runs")


@dataclass(kw_only=True)
class Doctor(_List):
    """Say what this machine can do, and what is missing."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.bench.doctor import examine

        return self._show(examine(), "checks")
