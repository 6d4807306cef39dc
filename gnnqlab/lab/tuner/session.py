"""What the tuner has launched: one run at a time, steered while it trains, measured beside what was predicted."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.settings import TunerSettings
from gnnqlab.lab.tuner.views import Measured
from gnnqlab.launch.local import launch
from gnnqlab.run.run import LIVE, Run
from gnnqlab.run.status_text import doing
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.records.json_lines import JsonLinesTail
from gnnqlab.tune.timing import spent

__all__ = ["OwnRecords", "TunerSession"]

_SETTLING = 3
"""First epochs, which also set things up; they count for no measurement."""
_FEWEST = 6
"""Epochs that a run needs for its phases to be shown."""


@dataclass(eq=False)
class OwnRecords:
    """The records of rank 0, read on from where the last look ended."""

    path: Path
    epochs: list[int] = field(default_factory=list)
    epoch_s: list[float] = field(default_factory=list)
    """Seconds of each epoch, assignment left out."""
    ended_s: list[float] = field(default_factory=list)
    """Seconds since the start at which each ended."""
    score: float | None = None
    """The newest validation score, 0 to 1."""

    def __post_init__(self) -> None:
        self._lines = JsonLinesTail(self.path)

    def poll(self) -> bool:
        """Read what is new; whether there was anything."""
        found = self._lines.poll()
        for record in found:
            self.epochs.append(record["epoch"])
            self.epoch_s.append(record["epoch_s"] - record.get("assign_s", 0.0))
            self.ended_s.append(record["time_s"])
            if record["val_score"] is not None:
                self.score = record["val_score"]
        return bool(found)

    def left_s(self, epochs: int) -> float | None:
        """Seconds that the remaining epochs will take if they take as long as the last ten."""
        recent = self.ended_s[-11:]
        if len(recent) < 2:
            return None
        return (epochs - len(self.epochs)) * (recent[-1] - recent[0]) / (len(recent) - 1)

    def median_s(self, since: int = 0) -> float | None:
        """Median epoch from ``since`` on, the first ones left out."""
        settled = self.epoch_s[max(_SETTLING, since) :]
        return statistics.median(settled) if settled else None


class TunerSession:
    """Launches what a model describes and says how it goes.

    Args:
        model: the knobs.
        start: what launches; by default :func:`gnnqlab.launch.local.launch`.
    """

    def __init__(self, model: TunerModel, *, start: Callable[[RunConfig], Run] = launch) -> None:
        self.model = model
        self.run: Run | None = None
        """The newest run of this tuner."""
        self._start = start
        self._machine = threading.Lock()
        self._settings: TunerSettings = model.settings
        self._vanilla_s: float | None = None
        self._predicted_s: float | None = None
        self._since = 0
        self._records: OwnRecords | None = None
        self._phases: dict[str, float] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a run trains."""
        return self.run is not None and self.run.status in LIVE

    def time_place(self) -> bool:
        """Time launched runs for the place chosen now, unless they were or a run trains; whether it was done."""
        with self._machine:
            if self.model.timed or self.under_way:
                return False
            self.model.look(launched=True)
            return True

    def train(self) -> Run:
        """Launch a run with the position chosen now; it returns at once, after a timing that is under way.

        Raises:
            RuntimeError: if a run of this tuner trains already.
        """
        with self._machine:
            if self.under_way:
                assert self.run is not None
                raise RuntimeError(
                    f"one run at a time is launched from a tuner, got run {self.run.id} under way; stop it"
                )
            forecast = self.model.forecast
            self._settings, self._vanilla_s, self._predicted_s = (
                self.model.settings,
                forecast.vanilla_s if self.model.timed else None,
                forecast.epoch_s,
            )
            self._phases, self._since = None, 0
            self.run = self._start(self.model.config)
            self._records = OwnRecords(self.run.folder / "records-rank0.jsonl")
        return self.run

    def stop(self) -> None:
        """End the run and all its processes; nothing happens without one."""
        if self.run is not None:
            self.run.stop()

    def steer(self) -> dict[str, Any]:
        """Pass on to the run what was turned since it was launched; returns what was passed.

        Another system, workers, model, depth, size and link wait for the next run.
        """
        now, before = self.model.settings, self._settings
        changes = {
            name: value
            for name, value in (now.steerable if now.system == before.system else {}).items()
            if value != before.told[name]
        }
        if not changes or self.run is None or not self.under_way:
            return {}
        self.run.control(**changes)
        forecast = self.model.forecast if now.place == before.place else None
        self._settings = before.changed(changes)
        self._predicted_s = forecast.epoch_s if forecast else self._predicted_s
        self._since = len(self._records.epochs) + 2 if self._records else 0
        return changes

    @property
    def comparable(self) -> bool:
        """Whether the run is of the settings chosen now, so that it may be held against their prediction.

        A run that trains follows some knobs a moment after they were turned.
        """
        now, own = self.model.settings, self._settings
        return now == own or (self.under_way and now.system == own.system and now.place == own.place)

    @property
    def measured(self) -> Measured | None:
        """What a run of the settings chosen now has shown so far; its phases once it has ended.

        ``None`` while there is no such run: a measurement says nothing of other settings.
        """
        if self.run is None or self._records is None:
            return None
        found = self._look()
        return found if self.comparable else None

    def _look(self) -> Measured:
        assert self.run is not None and self._records is not None
        ended = self.run.status not in LIVE
        self._records.poll()
        if ended and self._phases is None and len(self._records.epochs) >= _FEWEST:
            found = spent(self.run)
            self._phases = {**found.phases, "wire": found.communication_s}
            if self.model.timed:
                self.model.learn()
        records = self._records
        return Measured(
            epochs=tuple(records.epochs),
            epoch_s=tuple(records.epoch_s),
            phases=self._phases,
            lam=self._settings.told.get("lam"),
        )

    @property
    def speedup(self) -> float | None:
        """Vanilla's timed epoch over the run's median one; ``None`` while one of them is not known."""
        epoch_s = self._records.median_s(self._since) if self._records else None
        return self._vanilla_s / epoch_s if epoch_s and self._vanilla_s else None

    @property
    def sentence(self) -> str:
        """The run in one line: epoch, time left, accuracy, measured beside predicted."""
        if self.run is None or self._records is None:
            return "No run yet: Train launches one with these settings."
        run, records = self.run, self._records
        records.poll()
        status, epochs = run.status, run.config.train.epochs
        words = [f"run {run.id}", status, f"epoch {len(records.epochs)}/{epochs}"]
        left = records.left_s(epochs)
        if status in LIVE and not records.epochs:
            words.append(doing(run.pulses))
        if not self.comparable:
            words.append("of other settings than those chosen now")
        if status in LIVE and left is not None:
            words.append(f"{int(left) // 60:02d}:{int(left) % 60:02d} left")
        if records.score is not None:
            words.append(f"validation {100 * records.score:.1f} %")
        epoch_s = records.median_s(self._since)
        if (faster := self.speedup) is not None and self._vanilla_s and self._predicted_s:
            words.append(f"measured {faster:.2f}×, predicted {self._vanilla_s / self._predicted_s:.2f}× Vanilla")
        elif epoch_s is not None and self._predicted_s:
            words.append(f"measured {1e3 * epoch_s:.1f} ms an epoch, guessed {1e3 * self._predicted_s:.1f} ms")
        if run.errors:
            words.append(run.errors[0].cause)
        return " · ".join(words)
