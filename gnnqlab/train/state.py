"""What of a training has to survive it, taken from all workers and given back to all of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from gnnqlab.train.assignment import Assigner, Key
from gnnqlab.train.checkpoint import Checkpoint, Checkpoints, newest_checkpoint
from gnnqlab.train.config import RunConfig
from gnnqlab.train.control import CHECKPOINT_NOW, Control
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.record import tell
from gnnqlab.train.trainer import Trainer

__all__ = ["Keeper", "capture", "config_digest", "restore"]

_LIMIT_S = 600.0
"""A checkpoint of a large model on a slow disk may take longer than an epoch; the guard is told so."""


def config_digest(config: RunConfig) -> str:
    """Name what must be equal for a training to go on bit for bit: all but its length and where it runs."""
    value = config.to_json()
    del value["launch"]
    value["train"] = {
        name: setting for name, setting in value["train"].items() if name not in ("epochs", "checkpoint_every")
    }
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=12).hexdigest()


def capture(trainer: Trainer, control: Control) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return tensors and facts of a training between two epochs; every worker must call this, rank 0 gets it whole."""
    optimizer = trainer.optimizer
    tensors = {
        "values": trainer.parameters.values,
        "average": optimizer.average,
        "square": optimizer.square,
        "steps": optimizer.steps,
    }
    facts: dict[str, Any] = {"control": {"version": control.version, "settings": control.settings}}
    if trainer.coordinator is not None:
        facts["coordination"] = trainer.coordinator.state()
    if trainer.assigner is not None:
        kept = trainer.assigner.state()
        facts["assignment"] = kept.facts
        tensors |= {f"cost/{name}": tensor for name, tensor in kept.cost.items()}
        for table_name, table in (("widths", kept.table), ("pending", kept.pending)):
            tensors |= {_name(table_name, key): rows for key, rows in _gathered(table, trainer.assigner).items()}
    return tensors, facts


def restore(trainer: Trainer, control: Control, checkpoint: Checkpoint | None) -> tuple[int, dict[str, Any]]:
    """Put a training back where a checkpoint was taken; every worker must call this.

    Args:
        trainer: as new.
        control: as new.
        checkpoint: on rank 0; ``None`` for a training that begins.

    Returns:
        The epoch to go on with, and the facts.
    """
    shared: list[Any] = [None]
    if checkpoint is not None:
        small = {name: tensor for name, tensor in checkpoint.tensors.items() if "/" in name}
        shared = [(checkpoint.epoch, checkpoint.facts, small)]
    if trainer.distributed:
        dist.broadcast_object_list(shared, src=0)
    if shared[0] is None:
        return 0, {}
    epoch, facts, small = shared[0]
    optimizer = trainer.optimizer
    for name, target in (
        ("values", trainer.parameters.values),
        ("average", optimizer.average),
        ("square", optimizer.square),
        ("steps", optimizer.steps),
    ):
        if checkpoint is not None:
            target.copy_(checkpoint.tensors[name])
        if trainer.distributed:
            dist.broadcast(target, 0)
    if facts["control"]["version"]:
        control.adopt(facts["control"]["version"], facts["control"]["settings"])
    if trainer.coordinator is not None:
        trainer.coordinator.load(facts["coordination"])
    if trainer.assigner is not None:
        tables: dict[str, dict[Key, Tensor]] = {"widths": {}, "pending": {}}
        cost = {}
        for name, tensor in small.items():
            kind, _, rest = name.partition("/")
            if kind == "cost":
                cost[rest] = tensor
            else:
                layer, direction, sender, receiver = rest.split("-")
                tables[kind][int(layer), direction, int(sender), int(receiver)] = tensor
        trainer.assigner.load(facts["assignment"], tables["widths"], tables["pending"], cost)
    return epoch, facts


def _gathered(table: dict[Key, Tensor], assigner: Assigner) -> dict[Key, Tensor]:
    """Return the widths of all workers' messages on rank 0, told by their senders."""
    mine = {key: rows for key, rows in table.items() if key[2] == assigner.rank}
    parts: list[Any] | None = [None] * assigner.workers if assigner.rank == 0 else None
    dist.gather_object(mine, parts, dst=0)
    return {key: rows for part in parts or [] for key, rows in sorted(part.items())}


def _name(table: str, key: Key) -> str:
    return f"{table}/{'-'.join(map(str, key))}"


class Keeper:
    """Takes checkpoints of a training when they are due, and finds the one to go on from.

    Args:
        folder: the run folder; rank 0 writes and reads.
        config: the run's configuration.
        rank: this worker.
        trainer: whose state it is.
        control: the settings in force.
        heartbeat: told while a checkpoint is taken.
    """

    def __init__(
        self, folder: Path, config: RunConfig, rank: int, trainer: Trainer, control: Control, heartbeat: Heartbeat
    ) -> None:
        self._folder, self._rank, self._trainer, self._control = folder, rank, trainer, control
        self._heartbeat, self._every, self._epochs = heartbeat, config.train.checkpoint_every, config.train.epochs
        self._config = config_digest(config)
        self._files = Checkpoints(folder)

    def resume(self) -> tuple[int, float]:
        """Return the epoch to begin with and the seconds trained before it; restore the state it needs.

        Raises:
            RuntimeError: if the checkpoint was taken from another training.
        """
        found = newest_checkpoint(self._folder) if self._rank == 0 else None
        if found is not None and found.facts["config"] != self._config:
            raise RuntimeError(
                f"a checkpoint belongs to the configuration it was taken under, got one of another in {self._folder}; "
                "launch a new run, or resume the run that it came from"
            )
        epoch, facts = restore(self._trainer, self._control, found)
        return epoch, facts.get("time_s", 0.0)

    def after(self, epoch: int, time_s: float) -> None:
        """Take a checkpoint after an epoch if one is due, or asked for."""
        due = self._every > 0 and ((epoch + 1) % self._every == 0 or epoch + 1 == self._epochs)
        asked, self._control.checkpoint_now = self._control.checkpoint_now, False
        if not (due or asked):
            return
        self._heartbeat.phase("checkpoint", limit_s=_LIMIT_S)
        tensors, facts = capture(self._trainer, self._control)
        if self._rank == 0:
            self._report(self._files.save(epoch + 1, tensors, {**facts, "config": self._config, "time_s": time_s}))
            if asked:
                self._report(self._files.finish())
                (self._folder / CHECKPOINT_NOW).unlink(missing_ok=True)

    def close(self) -> None:
        """Return when the last checkpoint is on the disk."""
        self._report(self._files.finish())

    def _report(self, failure: str | None) -> None:
        if failure is not None:
            print(f"{failure}; training goes on", flush=True)
            tell(self._folder, "checkpoint failed", cause=failure)
