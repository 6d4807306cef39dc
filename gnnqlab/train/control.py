"""Settings that change while a run trains: a versioned file goes in, all workers follow between the same two epochs.

``control.json`` in the run folder holds a version and every setting that was changed so far. Rank 0 looks at the
file's age once an epoch; that there is a new one travels with the loss in the gradient all-reduce, and only then
are its settings broadcast. So all workers change at the same boundary, and an epoch without a change pays for one
``stat`` and four bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from gnnqlab.adaptive import Adaptive, State
from gnnqlab.atomic import locked, write_text
from gnnqlab.systems.parts import PARTS
from gnnqlab.systems.system import System
from gnnqlab.train.records.json_lines import log_event

__all__ = ["CHECKPOINT_NOW", "CONTROL", "Control", "steered", "write_control"]

CONTROL = "control.json"
CHECKPOINT_NOW = "checkpoint-now"
"""A file that asks to keep what is trained after the present epoch: the model, and a checkpoint if the run takes them.
Rank 0 removes it once that is on the disk."""
_UNSAID = object()


def steered(system: System, changes: Mapping[str, Any]) -> System:
    """Return the system with other settings, of those that its parts name as ``steerable``.

    Raises:
        ValueError: if the system has no such setting, or a value is out of its range.
        TypeError: if a value is of the wrong kind.

    Example:
        >>> from gnnqlab.systems.system import make_system
        >>> steered(make_system("adaqp"), {"lam": 0.2, "period": 10}).bits.lam
        0.2
    """
    known = _axis_of(system)
    if not known:
        raise ValueError(
            f"system {system.name!r} has nothing that can change while it trains, got {sorted(changes)}; "
            "choose a system whose messages are quantized"
        )
    unknown = sorted(set(changes) - set(known))
    if unknown:
        raise ValueError(f"while system {system.name!r} trains, {sorted(known)} can change, got {unknown}")
    parts = {
        axis: dataclasses.replace(
            getattr(system, axis), **{name: value for name, value in changes.items() if known[name] == axis}
        )
        for axis in {known[name] for name in changes}
    }
    return dataclasses.replace(system, **parts)


def _axis_of(system: System) -> dict[str, str]:
    """Return the axis of every setting that can change while a system trains.

    Raises:
        ValueError: if two parts call one of theirs the same.
    """
    found: dict[str, str] = {}
    for axis in PARTS:
        if axis == "bits" and len(system.codec.widths) == 1:
            continue  # whatever the policy says, there is one width
        for name in getattr(system, axis).steerable:
            if name in found:
                raise ValueError(
                    f"settings that change while a system trains must have names of their own, got {name!r} on the "
                    f"axes {found[name]!r} and {axis!r}; give one of them another name"
                )
            found[name] = axis
    return found


def write_control(folder: Path, system: System, changes: Mapping[str, Any]) -> int:
    """Add changes to the control file of a run, as a whole and under a new version; return the version.

    Args:
        folder: the run folder.
        system: the system the run was launched with.
        changes: what shall be different from now on.

    Raises:
        ValueError: if nothing is changed, or as for :func:`steered`; the file stays as it is.
        TypeError: as for :func:`steered`.
    """
    if not changes:
        raise ValueError("control needs at least one setting to change, got none; for instance control(lam=0.2)")
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in changes.items()}
    with locked(folder / f".{CONTROL}.lock"):  # two notebooks may steer the same run
        version, settings = _read(folder / CONTROL) or (0, {})
        settings = {**settings, **plain}
        steered(system, settings)
        write_text(folder / CONTROL, json.dumps({"version": version + 1, "settings": settings}))
    return version + 1


class Control(Adaptive):
    """One worker's end of the control file, and the first of what adapts.

    Args:
        folder: the run folder.
        rank: this worker; rank 0 reads the file.
        system: the system the run was launched with.
        distributed: whether there are others to tell.
    """

    name = "control"
    decides = False

    def __init__(self, folder: Path, rank: int, system: System, *, distributed: bool) -> None:
        self._folder, self._path, self._rank, self._system = folder, folder / CONTROL, rank, system
        self._distributed = distributed
        self._steers: Mapping[str, Sequence[Adaptive]] = {}
        self._seen: tuple[int, int] | None = None
        self._news: tuple[int, dict[str, Any]] | None = None
        self._asked = False
        self.version = 0
        """Version of the settings in force; 0: those of the launch."""
        self.settings: dict[str, Any] = {}
        """Every setting that was changed since the launch."""
        self.checkpoint_now = False
        """Whether somebody asks to keep what is trained after the present epoch; whoever keeps it clears this."""

    def steers(self, adaptives: Mapping[str, Sequence[Adaptive]]) -> Control:
        """Take whom to tell of new settings, by axis.

        Raises:
            ValueError: if a part has settings that can change, but nobody to put them in force.
        """
        for name, axis in _axis_of(self._system).items():
            if not any(type(adaptive).steer is not Adaptive.steer for adaptive in adaptives.get(axis, ())):
                raise ValueError(
                    f"a setting that can change while a system trains needs an adaptive with a method steer, got none "
                    f"for {name!r} of the axis {axis!r}; write one, or take {name!r} out of steerable"
                )
        self._steers = adaptives
        return self

    def news(self) -> bool:
        """Return whether this worker has news: on rank 0, a version that holds water, or a wish for a checkpoint."""
        if self._rank != 0:
            return False
        self._asked = os.path.exists(self._folder / CHECKPOINT_NOW)
        return self._look_for_settings() or self._asked

    def _look_for_settings(self) -> bool:
        try:
            found = os.stat(self._path)
        except OSError:
            return False
        mark = (found.st_ino, found.st_mtime_ns)
        if mark == self._seen:
            return False
        self._seen = mark
        news = _read(self._path)
        try:
            if news is None:
                raise ValueError(f'{CONTROL} must hold {{"version": number, "settings": object}}')
            steered(self._system, news[1])
        except (TypeError, ValueError) as error:
            log_event(self._folder, "control refused", cause=str(error))
            return False
        self._news = news if news[0] != self.version else None
        return self._news is not None

    def follow(self, epoch: int) -> None:
        """Take the news after an epoch, put new settings in force; every worker must call this together.

        Args:
            epoch: the epoch that has just ended.
        """
        shared: list[Any] = [self._news, self._asked]
        if self._distributed:
            dist.broadcast_object_list(shared, src=0)
        self._news = None
        news, self.checkpoint_now = shared
        if news is None:
            return
        self.adopt(*news)
        if self._rank == 0:
            log_event(self._folder, "control", epoch=epoch + 1, version=self.version, settings=self.settings)

    def adopt(self, version: int, settings: dict[str, Any]) -> None:
        """Put settings in force that are known to hold water."""
        changed = {name for name, value in settings.items() if self.settings.get(name, _UNSAID) != value}
        system, axis_of = steered(self._system, settings), _axis_of(self._system)
        self.version, self.settings = version, settings
        # Whoever says again what is in force already wants a new period, say, so that is told, too.
        touched = {axis_of[name] for name in changed or settings}
        for axis, adaptives in self._steers.items():
            for adaptive in adaptives if axis in touched else ():
                adaptive.steer(getattr(system, axis), version=version)

    def state(self) -> State:
        return State({"version": self.version, "settings": self.settings})

    def load(self, facts: dict[str, Any], tensors: object) -> None:
        if facts["version"]:
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
