"""Change settings of a run while it trains: a versioned file that all workers apply between the same two epochs.

``control.json`` in the run folder holds a version and every setting changed so far. Rank 0 checks the file's
modification time once per epoch; a flag in the gradient all-reduce announces a new version, and only then are its
settings broadcast. So all workers change at the same epoch boundary, and an epoch without a change costs one ``stat``
and four bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnnqlab.adaptive import Adaptive, State
from gnnqlab.atomic import locked, write_text
from gnnqlab.former_names import with_present_names
from gnnqlab.plain_values import broadcast_value
from gnnqlab.settings import settings_in
from gnnqlab.systems.parts import PARTS
from gnnqlab.systems.system import System
from gnnqlab.train.records.json_lines import log_event
from gnnqlab.train.stop_request import STOP

__all__ = ["CHECKPOINT_NOW", "CONTROL", "Control", "steered", "write_control"]

CONTROL = "control.json"
CHECKPOINT_NOW = "checkpoint-now"
"""File that requests saving after the present epoch: the model, and a checkpoint if the run takes checkpoints.
Rank 0 removes it once both are on disk."""
_ABSENT = object()  # differs from every setting, also from None


def steered(system: System, changes: Mapping[str, Any]) -> System:
    """Return the system with changed settings, which its parts must list in ``steerable``.

    Raises:
        ValueError: if the system has no such setting, or a value is out of its range.
        TypeError: if a value is of the wrong kind.

    Example:
        >>> from gnnqlab.systems.registry import make_system
        >>> steered(make_system("adaqp"), {"lam": 0.2, "period": 10}).bits.lam
        0.2
    """
    axis_of = _axis_of(system)
    declared_settings = [each for axis in {*axis_of.values()} for each in settings_in(type(getattr(system, axis)))]
    changes = with_present_names(changes, declared_settings)
    if not axis_of:
        raise ValueError(
            f"system {system.name!r} has no setting that can change while it trains, got {sorted(changes)}; "
            "choose a system whose messages are quantized"
        )
    unknown_names = sorted(set(changes) - set(axis_of))
    if unknown_names:
        raise ValueError(f"while system {system.name!r} trains, {sorted(axis_of)} can change, got {unknown_names}")
    parts = {
        axis: dataclasses.replace(
            getattr(system, axis), **{name: value for name, value in changes.items() if axis_of[name] == axis}
        )
        for axis in {axis_of[name] for name in changes}
    }
    return dataclasses.replace(system, **parts)


def _axis_of(system: System) -> dict[str, str]:
    """Return the axis of every setting that can change while a system trains.

    Raises:
        ValueError: if two parts have a setting of the same name.
    """
    axes: dict[str, str] = {}
    for axis in PARTS:
        if axis == "bits" and len(system.codec.widths) == 1:
            continue  # the codec has one bit-width, so the policy has nothing to change
        for name in getattr(system, axis).steerable:
            if name in axes:
                raise ValueError(
                    f"settings that change while a system trains must have unique names, got {name!r} on the axes "
                    f"{axes[name]!r} and {axis!r}; rename one of them"
                )
            axes[name] = axis
    return axes


def write_control(folder: Path, system: System, changes: Mapping[str, Any]) -> int:
    """Add changes to the control file of a run, atomically and under a new version; return the version.

    Args:
        folder: the run folder.
        system: the system the run was launched with.
        changes: new values of settings, by name.

    Raises:
        ValueError: if ``changes`` is empty, or as for :func:`steered`; the file is left unchanged.
        TypeError: as for :func:`steered`.
    """
    if not changes:
        raise ValueError("control needs at least one setting to change, got none; for instance control(lam=0.2)")
    # Scalars of NumPy and torch become plain numbers for JSON.
    plain_values = {name: value.item() if hasattr(value, "item") else value for name, value in changes.items()}
    with locked(folder / f".{CONTROL}.lock"):  # two processes may change the same run
        version, settings = _read(folder / CONTROL) or (0, {})
        settings = {**settings, **plain_values}
        steered(system, settings)  # raises for invalid changes, before the file is replaced
        write_text(folder / CONTROL, json.dumps({"version": version + 1, "settings": settings}))
    return version + 1


class Control(Adaptive):
    """Callback that reads the control file on rank 0 and applies its settings on every worker; the first callback.

    Args:
        folder: the run folder.
        rank: this worker; rank 0 reads the file.
        system: the system the run was launched with.
        distributed: True if there are other workers, in a process group.
    """

    name = "control"
    decides = False

    def __init__(self, folder: Path, rank: int, system: System, *, distributed: bool) -> None:
        self._folder, self._path, self._rank, self._system = folder, folder / CONTROL, rank, system
        self._distributed = distributed
        self._callbacks: Mapping[str, Sequence[Adaptive]] = {}
        self._stamp: tuple[int, int] | None = None
        self._update: tuple[int, dict[str, Any]] | None = None
        self._save_requested = self._stop_requested = False
        self.version = 0
        """Version of the settings in force; 0: those of the launch."""
        self.settings: dict[str, Any] = {}
        """Every setting changed since the launch."""
        self.checkpoint_now = False
        """True if a checkpoint after this epoch is requested; reset by the :class:`CheckpointManager` that takes it."""
        self.stop_after_epoch = False
        """True if training must end after this epoch, with a checkpoint."""

    def register_callbacks(self, adaptives: Mapping[str, Sequence[Adaptive]]) -> Control:
        """Register the callbacks that receive new settings, by axis; return this one.

        Raises:
            ValueError: if a part has a setting that can change, but no callback that applies it.
        """
        for name, axis in _axis_of(self._system).items():
            if not any(type(callback).steer is not Adaptive.steer for callback in adaptives.get(axis, ())):
                raise ValueError(
                    f"a setting that can change while a system trains needs a callback with a method steer, got none "
                    f"for {name!r} of the axis {axis!r}; write one, or remove {name!r} from steerable"
                )
        self._callbacks = adaptives
        return self

    def has_update(self) -> bool:
        """Return True if rank 0 found a new version of the settings, or a request for a checkpoint or for the end."""
        if self._rank != 0:
            return False
        self._save_requested = os.path.exists(self._folder / CHECKPOINT_NOW)
        self._stop_requested = os.path.exists(self._folder / STOP)
        # In this order: a request must not skip the check for new settings.
        return self._poll_settings() or self._save_requested or self._stop_requested

    def _poll_settings(self) -> bool:
        try:
            entry = os.stat(self._path)
        except OSError:
            return False
        # The file is replaced, not rewritten: a new inode shows a change within the resolution of modification times.
        stamp = (entry.st_ino, entry.st_mtime_ns)
        if stamp == self._stamp:
            return False
        # Before validation: an invalid file is reported once, not in every epoch.
        self._stamp = stamp
        update = _read(self._path)
        try:
            if update is None:
                raise ValueError(f'{CONTROL} must hold {{"version": number, "settings": object}}')
            steered(self._system, update[1])
        except (TypeError, ValueError) as error:
            log_event(self._folder, "control refused", cause=str(error))
            return False
        # A version that is already in force, as after a resume, is no update.
        self._update = update if update[0] != self.version else None
        return self._update is not None

    def share_updates(self, epoch: int) -> None:
        """Broadcast rank 0's update after an epoch and apply it; every worker must call this together.

        Args:
            epoch: the epoch that has just ended.
        """
        requests = self._update, self._save_requested, self._stop_requested
        if self._distributed:
            requests = broadcast_value(requests)
        self._update = None
        update, self.checkpoint_now, self.stop_after_epoch = requests
        if update is None:
            return
        self.adopt(*update)
        if self._rank == 0:
            # The new settings apply from the next epoch on.
            log_event(self._folder, "control", epoch=epoch + 1, version=self.version, settings=self.settings)

    def adopt(self, version: int, settings: dict[str, Any]) -> None:
        """Apply settings that were validated before."""
        changed_names = {name for name, value in settings.items() if self.settings.get(name, _ABSENT) != value}
        system, axis_of = steered(self._system, settings), _axis_of(self._system)
        self.version, self.settings = version, settings
        # A new version with unchanged values restarts the callbacks (for instance a period), so all are notified.
        changed_axes = {axis_of[name] for name in changed_names or settings}
        for axis, callbacks in self._callbacks.items():
            for callback in callbacks if axis in changed_axes else ():
                callback.steer(getattr(system, axis), version=version)

    def state(self) -> State:
        return State({"version": self.version, "settings": self.settings})

    def load(self, facts: dict[str, Any], tensors: object) -> None:
        if facts["version"]:  # 0: the settings of the launch, which are in force already
            self.adopt(facts["version"], facts["settings"])


def _read(path: Path) -> tuple[int, dict[str, Any]] | None:
    """Return version and settings, or ``None`` if the file is missing or holds something else."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("version"), int):
        return None
    settings = value.get("settings")
    return (value["version"], settings) if isinstance(settings, dict) else None
