"""Several trainings in the same workers, one after another, so that they are started only once."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnqlab.launch.run import Run
    from gnnqlab.train.config.run_config import RunConfig
    from gnnqlab.train.heartbeat import Heartbeat

__all__ = ["fit_each", "train_in_turn"]

_LIST = "in-turn.json"


def train_in_turn(configs: Sequence[RunConfig]) -> Iterator[Run]:
    """Train once with each configuration; yield each run as it ends, to be read before the next one is asked for.

    Args:
        configs: of runs with the same workers and launch settings.

    Raises:
        ValueError: if they differ in these.
        WorkerFailed: if one of them failed.
    """
    from gnnqlab.launch.local import launch
    from gnnqlab.launch.run import LIVE, Run

    if len({(config.workers, config.launch) for config in configs}) > 1:
        raise ValueError("trainings in turn must have the same workers and launch settings, got different ones")

    def prepare(folder: Path) -> None:
        (folder / _LIST).write_text(json.dumps([config.to_json() for config in configs]))

    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        fit = "benchmarks.engine.in_turn:fit_each"
        # The end of the block waits until the machine is quiet again.
        with launch(configs[0], root=root, prepare=prepare, fit=fit) as whole:
            for number in range(len(configs)):
                folder = _place(whole.folder, number)
                while not (folder / "done").exists() and whole.status in LIVE:
                    time.sleep(0.05)
                if not (folder / "done").exists():
                    whole.wait()  # says why it failed
                yield Run(folder)
            whole.wait()


def fit_each(config: RunConfig, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Train one worker's share of every run on the list, in place of ``gnnqlab.train.loop.fit.fit``."""
    import torch.distributed as dist

    from gnnqlab.train.config.run_config import RunConfig
    from gnnqlab.train.loop.fit import fit

    for number, settings in enumerate(json.loads((folder / _LIST).read_text())):
        own = _place(folder, number)
        own.mkdir(exist_ok=True)
        if rank == 0:
            (own / "config.json").write_text(json.dumps(settings))
        fit(RunConfig.from_json(settings), own, rank, workers, heartbeat)
        if workers > 1:
            dist.barrier()
        if rank == 0:
            (own / "done").touch()


def _place(folder: Path, number: int) -> Path:
    return folder / f"in-turn-{number}"
