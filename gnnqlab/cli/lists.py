"""The commands that list systems, graphs, models, runs and checks of this machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.cli.console import plain_table
from gnnqlab.train.config.config_file import read_config
from gnnqlab.train.loop.scores import get_test_score
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from gnnqlab.run.run import Run

__all__ = ["Doctor", "Graphs", "Models", "Runs", "Systems"]


@dataclass(kw_only=True)
class _List:
    json: bool = False
    """End standard output with one JSON object."""

    def _show(self, rows: list[dict[str, Any]], key: str, shown: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """Print a table, of ``shown`` if it differs from the rows of the JSON object; return that object."""
        if not self.json:
            print(plain_table(rows if shown is None else shown))
        return {key: rows}


@dataclass(kw_only=True)
class Systems(_List):
    """List the systems with their part on each axis."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.systems.registry import SYSTEMS

        rows, shown = [], []
        for name, recipe in SYSTEMS.items():
            system = recipe()
            parts = {axis: part["name"] for axis, part in system.to_json().items() if isinstance(part, dict)}
            summary = (recipe.__doc__ or "").partition("\n")[0]
            rows.append({"name": name, **parts, "about": summary})
            # Eight columns do not fit a terminal, and most parts are Vanilla's.
            other_parts = " ".join(f"{axis}={parts.get(axis, 'pair')}" for axis in system.differences)
            shown.append({"name": name, "about": summary, "other parts than Vanilla's": other_parts})
        return self._show(rows, "systems", shown)


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
    """List the runs in a folder, also of earlier processes; or delete runs, or prune the cache."""

    out: Path | None = None
    """Folder of runs; default: $GNNQLAB_RUNS, else runs."""
    tag: str | None = None
    """Only the runs with this tag."""
    delete: str | None = None
    """Delete these runs, separated by commas; they must have ended."""
    older_than: float | None = None
    """Delete the runs that ended at least this number of days ago."""
    prune_cache: bool = False
    """Delete recomputable files from $GNNQLAB_CACHE, else ~/.cache/gnnqlab: shards, timings, and graphs from memory
    that no run of the folder uses; and runs that the run browser moved aside."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.run import disk_usage
        from gnnqlab.run.find import find_run
        from gnnqlab.run.run import runs

        if self.delete is None and self.older_than is None and not self.prune_cache:
            return self._show([_row(run) for run in runs(self.out, tag=self.tag)], "runs")
        names = [] if self.delete is None else self.delete.split(",")
        # Found before the first is deleted, so that a misspelt name deletes nothing.
        runs_by_id = {run.id: run for run in [find_run(name, self.out) for name in names]}
        if self.older_than is not None:
            # By id, so that a run that matches both options is deleted once.
            runs_by_id |= {run.id: run for run in disk_usage.find_ended_before(self.older_than, self.out)}
        rows = [{"deleted": name, "size": human_bytes(disk_usage.delete_run(run))} for name, run in runs_by_id.items()]
        if self.prune_cache:
            pruned_bytes = disk_usage.prune_cache(self.out)
            rows += [
                {"deleted": kind if kind == "deleted runs" else f"{kind} of the cache", "size": human_bytes(size)}
                for kind, size in pruned_bytes.items()
            ]
        return self._show(rows, "deleted")


def _row(run: Run) -> dict[str, Any]:
    """Return the row of a run; for an unreadable folder with the error, so that other runs are still listed."""
    empty_cells = dict.fromkeys(("system", "graph", "workers", "epochs", "test", "size"), "")
    row: dict[str, Any] = {
        "run": run.id,
        "name": run.name,
        "tags": ", ".join(run.tags),
        "status": "unreadable",
        **empty_cells,
    }
    from gnnqlab.run.disk_usage import disk_bytes

    try:
        # Filled step by step, so that an error leaves the facts read before it.
        row |= {"size": human_bytes(disk_bytes(run.folder))}
        settings = read_config(run.folder)  # plain JSON: imports nothing of the user
        row |= {"status": run.status, "system": settings["system"]["name"], "graph": Path(settings["graph"]).name}
        row |= {"workers": settings["workers"], **({"cause": run.cause} if run.cause else {})}
        summary = run.summary
        score = get_test_score(summary)
        row |= {"epochs": summary["epochs"], "test": "" if score is None else f"{score:.4f}"}
    except Exception as error:
        text = str(error) if str(run.folder) in str(error) else f"{run.folder}: {type(error).__name__}: {error}"
        row["cause"] = text
        print(f"gnnqlab: {text}", file=sys.stderr)
    return row


@dataclass(kw_only=True)
class Doctor(_List):
    """Check this machine and its software, or several machines together; show a remedy for anything missing."""

    nodes: str | None = None
    """Machines of a run, HOST,HOST...: check names, versions, shared folder, clocks and the links between them; start
    the same command on each, with its --node-rank."""
    node_rank: int | None = None
    """Number of this machine in --nodes, 0 for the first."""
    port: int = 29500
    """A free port of the first machine, for --nodes."""
    interface: str | None = None
    """Network interface of the workers, for --nodes; default: the one that leads to the first machine."""
    out: Path | None = None
    """Folder for runs, which --nodes compares; default: $GNNQLAB_RUNS, else runs."""

    def run(self) -> dict[str, Any]:
        if self.nodes is None:
            if self.node_rank is not None:
                raise ValueError(f"--node-rank is a number in --nodes, got {self.node_rank} without; add --nodes")
            from gnnqlab.cli.doctor import examine

            return self._show(examine(), "checks")
        from gnnqlab.cli.doctor_machines import examine_machines

        names = [name.strip() for name in self.nodes.split(",") if name.strip()]
        if self.node_rank is None:
            raise ValueError(
                f"each machine of --nodes starts this command with its number, got no --node-rank for {self.nodes}; "
                "add --node-rank 0 on the first"
            )
        rows = examine_machines(names, self.node_rank, port=self.port, interface=self.interface, root=self.out)
        return self._show(rows, "checks")
