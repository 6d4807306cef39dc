"""The folder of a synthetic run, to which a test adds epochs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training.live_model import LiveModel
from gnnqlab.run import processes
from gnnqlab.run.folder import write_json
from gnnqlab.run.run import Run
from gnnqlab.train.config.configure import configure

__all__ = ["PHASE_S", "Folder"]

PHASE_S = 0.004
"""Seconds of every phase in the records of rank 0; those of rank r are r + 1 times as many."""


class Folder:
    """A run folder without a training: this process stands for its guard.

    Args:
        place: folder in which it is made.
        system: name of the system in its configuration.
        workers: number of workers.
        epochs: number of epochs in its configuration.
        noise: share by which times and losses vary; 0 for numbers that can be checked by hand.
    """

    def __init__(
        self, place: Path, *, system: str = "vanilla", workers: int = 2, epochs: int = 100, noise: float = 0.0
    ) -> None:
        self.workers, self.path = workers, place / "20260101-000000-run"
        self._noise, self._random = noise, np.random.default_rng(0)
        self.path.mkdir(parents=True)
        write_json(
            self.path / "config.json", configure("digits", system=system, workers=workers, epochs=epochs).to_json()
        )
        self.state("running")

    def state(self, state: str, cause: str = "") -> None:
        write_json(self.path / "status.json", {"state": state, "cause": cause, "epoch": 3, "errors": []})
        me = [os.getpid(), processes.start_time(os.getpid())]
        write_json(self.path / "guard.json", {"place": processes.place(), "guard": me, "agent": me, "workers": {}})

    def write(
        self, epochs: range, *, bits: int = 4, ranks: Any = None, records: bool = True, traffic: bool = True
    ) -> None:
        for rank in range(self.workers) if ranks is None else ranks:
            lines, messages = [], []
            for epoch in epochs:
                wander = (1 + self._noise * self._random.uniform(-1, 1, len(PHASES) + 1)).tolist()
                spent = {phase.column: PHASE_S * (rank + 1) * by for phase, by in zip(PHASES, wander)}
                lines.append(
                    {
                        "epoch": epoch, "rank": rank, "time_s": 0.1 * (epoch + 1),
                        "loss": 2.0 / (epoch + 1) * wander[-1], "train_score": 0.5,
                        "val_score": None if epoch % 2 else 0.25, "test_score": 0.75,
                        "epoch_s": sum(spent.values()), **spent, "bytes_payload": 1000, "bytes_params": 24,
                        "memory_bytes": 10**6,
                    }
                )  # fmt: skip
                rows = [
                    [1, way, sender, rank, width, 10, 100 * width, 8, 0.001]
                    for way, width in (("forward", bits), ("backward", 8))
                    for sender in range(self.workers)
                    if sender != rank
                ]
                messages.append({"epoch": epoch, "rows": rows})
            if records:
                self._append(f"records-rank{rank}.jsonl", lines)
            if traffic:
                self._append(f"traffic-rank{rank}.jsonl", messages)

    def _append(self, name: str, lines: list[dict[str, Any]]) -> None:
        with open(self.path / name, "a") as file:
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)

    @property
    def model(self) -> LiveModel:
        return LiveModel(Run(self.path))

    def read(self, epochs: range = range(0)) -> LiveModel:
        """Write some epochs and return a model that has read the folder."""
        if epochs:
            self.write(epochs)
        model = self.model
        model.poll()
        return model
