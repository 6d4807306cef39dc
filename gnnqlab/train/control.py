"""Settings that change while a run trains: a versioned file goes in, all workers follow between the same two epochs.

``control.json`` in the run folder holds a version and every setting that was changed so far. Rank 0 looks at the
file's age once an epoch; that there is a new one travels with the loss in the gradient all-reduce, and only then
are its settings broadcast. So all workers change at the same boundary, and an epoch without a change pays for one
``stat`` and four bytes.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch.distributed as dist

from gnnqlab.bits.policy import BitPolicy
from gnnqlab.systems.system import System
from gnnqlab.train.record import tell

__all__ = ["CHECKPOINT_NOW", "CONTROL", "Control", "Steerable", "steered", "write_control"]

CONTROL = "control.json"
CHECKPOINT_NOW = "checkpoint-now"
"""A file that asks for a checkpoint after the present epoch; rank 0 removes it once that is on the disk."""


class Steerable(Protocol):
    """A policy in force whose settings can be replaced between epochs."""

    def steer(self, settings: Any, *, version: int) -> None:
        """Put other settings in force."""


def steered(system: System, changes: Mapping[str, Any]) -> System:
    """Return the system with other settings of its axis ``bits``, those that may change while it trains.

    Raises:
        ValueError: if the system has no such setting, or a value is out of its range.
        TypeError: if a value is of the wrong kind.

    Example:
        >>> from gnnqlab.systems.system import make_system
        >>> steered(make_system("adaqp"), {"lam": 0.2, "period": 10}).bits.lam
        0.2
    """
    known: tuple[str, ...] = getattr(system.bits, "steerable", ())
    if not known or len(system.codec.widths) == 1:
        raise ValueError(
            f"system {system.name!r} has nothing that can change while it trains, got {sorted(changes)}; "
            "choose a system whose messages are quantized"
        )
    unknown = sorted(set(changes) - set(known))
    if unknown:
        raise ValueError(f"while system {system.name!r} trains, {sorted(known)} can change, got {unknown}")
    return dataclasses.replace(system, bits=dataclasses.replace(system.bits, **changes))  # type: ignore[type-var]


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
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # two notebooks may steer the same run
        version, settings = _read(folder / CONTROL) or (0, {})
        settings = {**settings, **plain}
        steered(system, settings)
        partial = folder / f".{CONTROL}.{os.getpid()}"
        try:
            partial.write_text(json.dumps({"version": version + 1, "settings": settings}))
            partial.replace(folder / CONTROL)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
    finally:
        os.close(descriptor)
    return version + 1


class Control:
    """One worker's end of the control file.

    Args:
        folder: the run folder.
        rank: this worker; rank 0 reads the file.
        system: the system the run was launched with.
        policy: what is steered: the bit policy in force on this worker.
        distributed: whether there are others to tell.
    """

    def __init__(
        self, folder: Path, rank: int, system: System, policy: BitPolicy | Steerable, *, distributed: bool
    ) -> None:
        self._folder, self._path, self._rank, self._system = folder, folder / CONTROL, rank, system
        self._policy, self._distributed = policy, distributed
        self._seen: tuple[int, int] | None = None
        self._news: tuple[int, dict[str, Any]] | None = None
        self._asked = False
        self.version = 0
        """Version of the settings in force; 0: those of the launch."""
        self.settings: dict[str, Any] = {}
        """Every setting that was changed since the launch."""
        self.checkpoint_now = False
        """Whether a checkpoint is asked for after the present epoch; whoever takes it clears this."""

    def look(self) -> bool:
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
            tell(self._folder, "control refused", cause=str(error))
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
            tell(self._folder, "control", epoch=epoch + 1, version=self.version, settings=self.settings)

    def adopt(self, version: int, settings: dict[str, Any]) -> None:
        """Put settings in force that are known to hold water."""
        self.version, self.settings = version, settings
        assert hasattr(self._policy, "steer"), "steered() has refused what cannot be steered"
        self._policy.steer(steered(self._system, settings).bits, version=version)


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
