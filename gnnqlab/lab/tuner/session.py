"""Runs of the tuner: one at a time, steered while it trains, and compared with its prediction."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.settings import TunerSettings
from gnnqlab.lab.tuner.views import Measurement
from gnnqlab.launch.local import launch
from gnnqlab.run.run import LIVE, Run
from gnnqlab.run.status_text import describe_activity
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.records.json_lines import JsonLinesTail
from gnnqlab.tune.timing import read_epoch_time
from gnnqlab.units import human_seconds

__all__ = ["OwnRecords", "TunerSession"]

_SETTLING = 3
"""First epochs, which include set-up and are not measured."""
_MIN_EPOCHS = 6
"""Fewest epochs of a run whose phases are shown."""


@dataclass(eq=False)
class OwnRecords:
    """Records of rank 0, read incrementally."""

    path: Path
    epochs: list[int] = field(default_factory=list)
    epoch_s: list[float] = field(default_factory=list)
    """Seconds of each epoch without bit assignment."""
    ended_s: list[float] = field(default_factory=list)
    """Seconds from the start to the end of each epoch."""
    score: float | None = None
    """Newest validation score, 0 to 1."""

    def __post_init__(self) -> None:
        self._lines = JsonLinesTail(self.path)

    def poll(self) -> bool:
        """Read new records; return True if there were any."""
        records = self._lines.poll()
        for record in records:
            self.epochs.append(record["epoch"])
            # Assignment is rare, and not part of a forecast.
            self.epoch_s.append(record["epoch_s"] - record.get("assign_s", 0.0))
            self.ended_s.append(record["time_s"])
            if record["val_score"] is not None:
                self.score = record["val_score"]
        return bool(records)

    def remaining_s(self, epochs: int) -> float | None:
        """Return the estimated seconds of the remaining epochs, from the mean of the last ten."""
        recent_ends = self.ended_s[-11:]  # eleven ends: ten epochs
        if len(recent_ends) < 2:
            return None
        return (epochs - len(self.epochs)) * (recent_ends[-1] - recent_ends[0]) / (len(recent_ends) - 1)

    def median_s(self, since: int = 0) -> float | None:
        """Return the median epoch time from epoch ``since`` on, without the first ones."""
        measured_s = self.epoch_s[max(_SETTLING, since) :]
        return statistics.median(measured_s) if measured_s else None


def _submit(config: RunConfig) -> Run:
    """Submit a run to SLURM, with all its workers on one node."""
    from gnnqlab.launch.prepared import prepare_run
    from gnnqlab.launch.slurm import Slurm

    return Slurm(workers_per_node=config.workers).submit(prepare_run(config))


class TunerSession:
    """Launcher of runs with the settings of a model, and their status.

    Args:
        model: the knobs.
        start: function that launches a run; by default :func:`gnnqlab.launch.local.launch`.
    """

    def __init__(self, model: TunerModel, *, start: Callable[[RunConfig], Run] = launch) -> None:
        self.model = model
        self.run: Run | None = None
        """The newest run of this tuner."""
        self.in_queue = False
        """True to submit the next run to SLURM, on one node, in place of starting it on this machine."""
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
        """True while a run trains."""
        return self.run is not None and self.run.status in LIVE

    def time_place(self) -> bool:
        """Time launched runs for the current graph, model and link; return False if timed already or a run trains."""
        with self._machine:  # runs on the machine at the same time would slow each other down
            if self.model.is_timed or self.under_way:
                return False
            self.model.find_probe(launched=True)
            return True

    def train(self) -> Run:
        """Launch a run with the current position; return at once, or after a timing in progress.

        Raises:
            RuntimeError: if a run of this tuner trains already.
        """
        with self._machine:
            if self.under_way:
                assert self.run is not None
                raise RuntimeError(
                    f"a tuner trains one run at a time, got run {self.run.id} in progress; stop it first"
                )
            forecast = self.model.forecast
            self._settings, self._vanilla_s, self._predicted_s = (
                self.model.settings,
                forecast.vanilla_s if self.model.is_timed else None,
                forecast.epoch_s,
            )
            self._phases, self._since = None, 0
            start = _submit if self.in_queue else self._start
            self.run = start(self.model.config)
            self._records = OwnRecords(self.run.folder / "records-rank0.jsonl")
        return self.run

    def stop(self) -> None:
        """End the run and all its processes; nothing happens without one."""
        if self.run is not None:
            self.run.stop()

    def steer(self) -> dict[str, Any]:
        """Send the run the settings that changed since its launch; return these settings.

        Another system, number of workers, model, depth, size or link takes effect in the next run.
        """
        settings, launched_settings = self.model.settings, self._settings
        # Settings that a running system can change, where they differ from those of the run.
        changes = {
            name: value
            for name, value in (settings.steerable if settings.system == launched_settings.system else {}).items()
            if value != launched_settings.system_settings[name]
        }
        if not changes or self.run is None or not self.under_way:
            return {}
        self.run.control(**changes)
        forecast = self.model.forecast if settings.place == launched_settings.place else None
        self._settings = launched_settings.changed(changes)
        self._predicted_s = forecast.epoch_s if forecast else self._predicted_s
        # The next epoch may still run with the old settings, so it is not measured.
        self._since = len(self._records.epochs) + 2 if self._records else 0
        return changes

    @property
    def comparable(self) -> bool:
        """True if the run has the current settings, so that it can be compared with their prediction.

        A run that trains follows some knobs a moment after they change.
        """
        settings, launched_settings = self.model.settings, self._settings
        return settings == launched_settings or (
            self.under_way and settings.system == launched_settings.system and settings.place == launched_settings.place
        )

    @property
    def measurement(self) -> Measurement | None:
        """Measurements of a run with the current settings; its phases once it has ended.

        ``None`` without such a run, because measurements do not apply to other settings.
        """
        if self.run is None or self._records is None:
            return None
        measurement = self._poll_measurement()
        return measurement if self.comparable else None

    def _poll_measurement(self) -> Measurement:
        assert self.run is not None and self._records is not None
        has_ended = self.run.status not in LIVE
        self._records.poll()
        if has_ended and self._phases is None and len(self._records.epochs) >= _MIN_EPOCHS:  # once per run
            epoch_time = read_epoch_time(self.run)
            self._phases = {**epoch_time.phases, "wire": epoch_time.communication_s}
            if self.model.is_timed:
                self.model.update_error()
        records = self._records
        return Measurement(
            epochs=tuple(records.epochs),
            epoch_s=tuple(records.epoch_s),
            phases=self._phases,
            lam=self._settings.system_settings.get("lam"),
        )

    @property
    def speedup(self) -> float | None:
        """Ratio of Vanilla's timed epoch to the run's median epoch; ``None`` until both are known."""
        epoch_s = self._records.median_s(self._since) if self._records else None
        return self._vanilla_s / epoch_s if epoch_s and self._vanilla_s else None

    @property
    def sentence(self) -> str:
        """The run in one line: epoch, time left, accuracy, measured and predicted speed-up."""
        if self.run is None or self._records is None:
            return "No run yet: Train launches one with these settings."
        run, records = self.run, self._records
        records.poll()
        status, epochs = run.status, run.config.train.epochs
        words = [f"run {run.id}", status, f"epoch {len(records.epochs)}/{epochs}"]
        left_s = records.remaining_s(epochs)
        if status in LIVE and not records.epochs:
            words.append(describe_activity(run.pulses))
        if not self.comparable:
            words.append("with other settings than the current ones")
        if status in LIVE and left_s is not None:
            words.append(f"{int(left_s) // 60:02d}:{int(left_s) % 60:02d} left")
        if records.score is not None:
            words.append(f"validation {100 * records.score:.1f} %")
        epoch_s = records.median_s(self._since)
        if (speedup := self.speedup) is not None and self._vanilla_s and self._predicted_s:
            words.append(f"measured {speedup:.2f}×, predicted {self._vanilla_s / self._predicted_s:.2f}× Vanilla")
        elif epoch_s is not None and self._predicted_s:
            words.append(f"measured {human_seconds(epoch_s)} per epoch, estimated {human_seconds(self._predicted_s)}")
        if run.errors:
            words.append(run.errors[0].cause)
        return " · ".join(words)
