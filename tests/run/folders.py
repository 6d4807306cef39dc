"""Runs for tests: folders without a training, and a wait for a run that trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gnnqlab.run import folder as files
from gnnqlab.run.run import Run
from gnnqlab.train.config.run_config import RunConfig
from tests.slow_down import wait_until

__all__ = ["run_folder", "wait_for"]


def run_folder(root: Path, name: str, config: RunConfig, **status: object) -> Run:
    """Make the folder of a run: its configuration and its status, by default that of a finished run."""
    folder = files.create(root, name)
    finished = {"state": "finished", "epoch": config.train.epochs - 1, "errors": []}
    files.write_json(folder / "config.json", config.to_json())
    files.write_json(folder / "status.json", {**finished, **status})
    return Run(folder)


def wait_for(run: Run, condition: Callable[[], object], *, what: str) -> None:
    """Wait until a condition holds for a launched run; a run that ends before is an error."""

    def holds() -> object:
        assert run.status in ("starting", "running"), run.errors
        return condition()

    wait_until(holds, what=what)
