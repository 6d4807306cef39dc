"""State of a training: capture it from all workers for a checkpoint, and restore it on all workers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor

from gnnqlab.former_names import with_former_names
from gnnqlab.plain_values import all_gather_values, broadcast_value, gather_values
from gnnqlab.settings import settings_in
from gnnqlab.systems.parts import PARTS, former_part, without_former_defaults
from gnnqlab.train.checkpoints.checkpoint import Checkpoint, Checkpoints, newest_checkpoint
from gnnqlab.train.checkpoints.model_file import ModelFile
from gnnqlab.train.config.run_config import RunConfig, TrainSettings
from gnnqlab.train.control import CHECKPOINT_NOW, Control
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.records.json_lines import log_event

if TYPE_CHECKING:
    from gnnqlab.partition.shard import Shard

__all__ = ["BestEpoch", "CheckpointManager", "capture", "config_digest", "cut_digest", "former_digest", "restore"]

_LIMIT_S = 600.0
"""Limit reported to the guard: a checkpoint of a large model on a slow disk may take longer than an epoch."""


_OPTIMIZER = "optimizer/"
"""Prefix of the tensors that a user's optimizer makes."""
_EMBEDDINGS = "node_embeddings/"
"""Prefix of the tensors of trained node embeddings."""
_BUFFER = "buffer/"
"""Prefix of the buffers of the model, such as running means of a batch normalization."""
_ADDED = {
    "class_weights": "", "objective": "", "node_features": "given", "optimizer": "adam", "sgd_momentum": 0.0,
    "max_gradient_norm": None, "lr_schedule": "constant", "lr_period": 50, "lr_factor": 0.5, "warmup_epochs": 0,
    "protocol": "transductive",
}  # fmt: skip
"""Settings that version 0.9 did not have, with the defaults for which a training is the same as there."""


def config_digest(config: RunConfig) -> str:
    """Return a digest of the settings that must be equal to resume bit for bit: all but the end and launch settings."""
    return _digest(config.to_json())


def former_digest(config: RunConfig) -> str:
    """Return the digest that versions before settings had their present names wrote to checkpoints."""
    value = config.to_json()
    value["train"] = with_former_names(value["train"], settings_in(TrainSettings))
    value["task"] = with_former_names(value["task"], settings_in(TaskSettings))
    value["system"] |= {axis: former_part(axis, value["system"][axis]) for axis in PARTS}
    return _digest(value)


def _digest(value: dict[str, Any]) -> str:
    # The recipe repeats the system's settings; a resumed run may use other hosts, devices or time limits.
    compared = {name: settings for name, settings in value.items() if name not in ("launch", "recipe")}
    compared["train"] = {
        name: setting
        for name, setting in value["train"].items()
        if name not in ("epochs", "checkpoint_every", "patience") and (name, setting) not in _ADDED.items()
    }
    compared["task"] = {
        name: setting for name, setting in value["task"].items() if (name, setting) not in _ADDED.items()
    }
    compared["system"] = compared["system"] | {
        axis: without_former_defaults(axis, compared["system"][axis]) for axis in PARTS
    }
    return hashlib.blake2b(json.dumps(compared, sort_keys=True).encode(), digest_size=12).hexdigest()


def _with_workers(config: RunConfig, workers: int) -> RunConfig:
    """Return the configuration with another number of workers, on one host if they do not fill its hosts.

    Example:
        >>> _with_workers(RunConfig(graph="digits", workers=2), 3).workers
        3
    """
    launch = config.launch
    if launch.hosts is not None and workers % launch.hosts:
        launch = dataclasses.replace(launch, hosts=1)  # launch settings do not belong to the digest
    return dataclasses.replace(config, workers=workers, launch=launch)


def cut_digest(shard: Shard) -> str:
    """Return a digest of the partition, from the row ids of all workers' shards; every worker must call this."""
    rows = hashlib.blake2b(shard.row_ids.numpy().tobytes(), digest_size=12).hexdigest()
    # In the order of ranks on every worker, so that all compute the same digest.
    names = all_gather_values(rows) if shard.workers > 1 else [rows]
    return hashlib.blake2b("".join(names).encode(), digest_size=12).hexdigest()


def capture(trainer: Trainer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return tensors and facts between two epochs, complete on rank 0; every worker must call this."""
    tensors, facts, per_row = dict(_trained_tensors(trainer)), {}, []
    # Identical on all workers, as the trained tensors.
    tensors |= {f"{_OPTIMIZER}{name}": tensor for name, tensor in trainer.optimizer.late_tensors().items()}
    own_tensors: dict[str, Tensor] | None = None
    for name, callback in trainer.adaptives.items():
        state = callback.state()
        facts[name] = state.facts
        tensors |= {f"{name}/{key}": tensor for key, tensor in state.tensors.items()}
        if state.own is not None:
            per_row.append(name)
            own_tensors = (own_tensors or {}) | {f"{name}/{key}": tensor for key, tensor in state.own.items()}
    if own_tensors is not None:  # on all workers or on none, because all have the same callbacks
        # Their keys name their worker, so that those of all workers fit into one dictionary.
        tensors |= _gather_on_rank0(own_tensors) if trainer.distributed else own_tensors
    learned_names = []
    if trainer.embeddings is not None:
        learned_names = trainer.embeddings.names()
        tensors |= {f"{_EMBEDDINGS}{name}": table for name, table in trainer.embeddings.gather().items()}
    return tensors, {"adaptives": facts, "of_rows": per_row, "node_embeddings": learned_names}


def restore(
    trainer: Trainer, checkpoint: Checkpoint | None, *, same_workers: bool = True
) -> tuple[int, dict[str, Any]]:
    """Restore the state of a checkpoint on all workers; every worker must call this.

    Args:
        trainer: newly built, before its first epoch.
        checkpoint: on rank 0; ``None`` for a new training.
        same_workers: False if another number of workers took the checkpoint: callbacks with per-row state, which
            belongs to the old partition, then start as in a new training. So do callbacks that the checkpoint of an
            earlier version does not know.

    Returns:
        The next epoch, and the facts.
    """
    shared_state = None
    if checkpoint is not None:
        # Tensors of callbacks. The others are large: trained ones are broadcast below without a copy, and the best
        # weights stay on rank 0.
        names = [name for name in checkpoint.tensors if name.partition("/")[0] in trainer.adaptives]
        names += [name for name in checkpoint.tensors if name.startswith(_OPTIMIZER)]
        small_tensors = {name: checkpoint.tensors[name] for name in names}
        shared_state = (checkpoint.epoch, checkpoint.facts, small_tensors)
    if trainer.distributed:
        shared_state = broadcast_value(shared_state)
    if shared_state is None:
        return 0, {}
    epoch, facts, small_tensors = shared_state
    # In place, because parameters are views of the flat buffer; in one order, so that broadcasts match.
    for name, target in _trained_tensors(trainer).items():
        # Buffers are absent in checkpoints of version 0.9.
        if checkpoint is not None and (name in checkpoint.tensors or not name.startswith(_BUFFER)):
            target.copy_(checkpoint.tensors[name])
        if trainer.distributed:
            dist.broadcast(target, 0)
    if trainer.embeddings is not None:
        for name in facts["node_embeddings"]:
            table = None if checkpoint is None else checkpoint.tensors[f"{_EMBEDDINGS}{name}"]
            trainer.embeddings.load(name, table)
    trainer.optimizer.load_late(_under(_OPTIMIZER, small_tensors))
    # Another number of workers may also have other callbacks: a single worker has no exchange.
    dropped = _unknown_callbacks(trainer, facts) | (set() if same_workers else {*facts.get("of_rows", [])})
    for name, callback in trainer.adaptives.items():
        if name not in dropped:
            callback.load(facts["adaptives"][name], _under(f"{name}/", small_tensors))
    return epoch, facts


def _unknown_callbacks(trainer: Trainer, facts: dict[str, Any]) -> set[str]:
    """Return the names of callbacks without state in a checkpoint."""
    return {*trainer.adaptives} - facts["adaptives"].keys()


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _trained_tensors(trainer: Trainer) -> dict[str, Tensor]:
    """Return the tensors that training changes, identical on all workers: with the buffers of the ``state_dict``."""
    stored_names = trainer.model.state_dict().keys()
    buffers = {f"{_BUFFER}{name}": each for name, each in trainer.model.named_buffers() if name in stored_names}
    return {"values": trainer.parameters.values, **trainer.optimizer.tensors(), **buffers}


def _gather_on_rank0(own_tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of all workers on rank 0."""
    named = [item for part in gather_values(own_tensors) for item in sorted(part.items(), key=itemgetter(0))]
    if len(dict(named)) < len(named):
        names = [name for name, _ in named]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"tensors of workers must have names of their own, got {repeated} from several workers")
    return dict(named)


@dataclasses.dataclass
class BestEpoch:
    """Epoch with the best validation score so far, the first of equal ones.

    Without validation nodes it is the newest evaluated epoch. ``best_evaluation`` in ``train/records/record.py``
    selects the same epoch from the records.
    """

    epoch: int | None = None
    score: float | None = None
    """Validation score as in the records; ``None`` without validation nodes."""

    def update(self, epoch: int, score: float | None) -> bool:
        """Add an evaluation; return True if it is the best one."""
        is_best = self.score is None or (score is not None and score > self.score)
        if is_best:
            self.epoch, self.score = epoch, score
        return is_best


class CheckpointManager:
    """Manager of a run's saved state: periodic checkpoints, the model at the end, and the checkpoint to resume from.

    Args:
        folder: the run folder; rank 0 writes and reads.
        config: the run's configuration.
        rank: this worker.
        trainer: source and target of the state.
        control: source of requests for a checkpoint.
        heartbeat: receives the phases in which files are written.
        model_file: writes the model.
        cut: digest of the partition, from :func:`cut_digest`.
    """

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        rank: int,
        trainer: Trainer,
        control: Control,
        heartbeat: Heartbeat,
        model_file: ModelFile,
        cut: str,
    ) -> None:
        self._folder, self._rank, self._trainer, self._control = folder, rank, trainer, control
        self._heartbeat, self._every = heartbeat, config.train.checkpoint_every
        self._config, self._cut, self._settings = config_digest(config), cut, config
        self._files, self._model_file = Checkpoints(folder), model_file
        self._best, self._last_epoch = BestEpoch(), config.train.epochs - 1
        self._failures: dict[str, str] = {}  # of the last checkpoint and of the last model

    def resume(self) -> tuple[int, float]:
        """Restore the newest checkpoint, if any; return the first epoch to train and the seconds trained before it.

        Raises:
            RuntimeError: on every worker, if the checkpoint has another configuration, or holds per-row state of
                another partition.
        """
        checkpoint = newest_checkpoint(self._folder) if self._rank == 0 else None
        verdict = self._refusal(checkpoint), self._has_same_workers(checkpoint)
        if self._trainer.distributed:  # only rank 0 has read the checkpoint; without it the others would wait
            verdict = broadcast_value(verdict)
        refusal, same_workers = verdict
        if refusal:
            raise RuntimeError(refusal)
        epoch, facts = restore(self._trainer, checkpoint, same_workers=same_workers)
        if facts and same_workers and (names := sorted(_unknown_callbacks(self._trainer, facts))) and self._rank == 0:
            # With other workers the event "resumed" says it.
            text = (
                f"the checkpoint of an earlier version has no state of {', '.join(names)}, which starts again: losses "
                "may differ from those of an uninterrupted run"
            )
            print(text, flush=True)
            log_event(self._folder, "state started again", epoch=epoch, text=text)
        self._best = BestEpoch(**facts.get("best_model", {}))
        if "learning_rate" in facts:  # absent in checkpoints of version 0.9
            self._trainer.optimizer.learning_rate.load(facts["learning_rate"])
        if checkpoint is not None:  # on rank 0, which writes the model
            self._model_file.restore(checkpoint.tensors, self._best.epoch)
        return epoch, facts.get("time_s", 0.0)

    def _refusal(self, checkpoint: Checkpoint | None) -> str:
        """Return the reason why a checkpoint cannot be restored, or an empty string."""
        if checkpoint is None:
            return ""
        has_same_workers = self._has_same_workers(checkpoint)
        config = self._settings
        if not has_same_workers:
            config = _with_workers(config, checkpoint.facts["workers"])
        if checkpoint.facts["config"] not in (config_digest(config), former_digest(config)):
            return (
                f"a checkpoint must have the configuration of its run, got one of another run in {self._folder}; "
                "launch a new run, or resume the run that wrote the checkpoint"
            )
        per_row = checkpoint.facts.get("of_rows", [])
        # With other workers the partition differs in any case, and per-row state is dropped.
        if has_same_workers and per_row and checkpoint.facts["cut"] != self._cut:
            return (
                f"a checkpoint with per-row state ({', '.join(per_row)}) needs the partition that it was taken on, got "
                f"another partition for {self._folder}, because the stored one was deleted; launch a new run"
            )
        return ""

    def _has_same_workers(self, checkpoint: Checkpoint | None) -> bool:
        """Return False if another number of workers took the checkpoint; those of version 0.9 do not name it."""
        return checkpoint is None or checkpoint.facts.get("workers", self._settings.workers) == self._settings.workers

    def after(self, epoch: int, time_s: float, *, is_last: bool, is_interrupted: bool = False) -> None:
        """Take a checkpoint after an epoch if one is due or requested; on request, write the model too.

        A run without ``checkpoint_every`` takes one only if it is interrupted.
        """
        self._last_epoch = epoch
        is_requested, self._control.checkpoint_now = self._control.checkpoint_now, False
        # The request was broadcast, so all workers take this branch together: capture() is collective.
        if is_interrupted or (self._every > 0 and (is_requested or (epoch + 1) % self._every == 0 or is_last)):
            self._take(epoch, time_s)
        if is_requested:
            self._report("checkpoint failed", self._files.finish())
            self._write_model(epoch)
            # The request is removed last: by then checkpoint and model are on disk, or their failure is reported.
            if self._rank == 0:
                (self._folder / CHECKPOINT_NOW).unlink(missing_ok=True)

    def evaluated(self, epoch: int, score: float | None) -> int:
        """Retain the weights of this epoch for the model if its validation score is the best so far.

        Returns:
            Epochs since the best one; the same on all workers, because all have the same scores.
        """
        if self._best.update(epoch, score):
            if self._trainer.embeddings is not None:
                self._trainer.embeddings.select()
            if self._rank == 0:
                self._model_file.select(epoch)
        assert self._best.epoch is not None
        waited_epochs = epoch - self._best.epoch
        self._trainer.optimizer.learning_rate.evaluated(epoch, waited_epochs)
        return waited_epochs

    def close(self) -> None:
        """Write the model, and wait until it and the last checkpoint are on disk."""
        self._write_model(self._last_epoch)
        self._report("checkpoint failed", self._files.finish())

    def _take(self, epoch: int, time_s: float) -> None:
        self._heartbeat.phase("checkpoint", limit_s=_LIMIT_S)
        tensors, facts = capture(self._trainer)
        if self._rank == 0:
            best_tensors = self._model_file.checkpoint()
            if best_tensors:
                facts["best_model"] = dataclasses.asdict(self._best)
            facts["learning_rate"] = self._trainer.optimizer.learning_rate.state()
            facts |= {"config": self._config, "cut": self._cut, "workers": self._settings.workers, "time_s": time_s}
            self._report("checkpoint failed", self._files.save(epoch + 1, tensors | best_tensors, facts))

    def _write_model(self, epoch: int) -> None:
        """Write the model on rank 0; every worker must call this, since each has rows of trained embeddings."""
        embeddings = self._trainer.embeddings
        if self._rank == 0 or embeddings is not None:
            self._heartbeat.phase("save", limit_s=_LIMIT_S)
        tables = {} if embeddings is None else embeddings.gather()
        if self._rank == 0:
            self._report("model failed", self._model_file.write(epoch, tables))

    def _report(self, event: str, failure: str | None) -> None:
        if failure is not None:
            print(f"{failure}; training continues", flush=True)
            log_event(self._folder, event, cause=failure)
        self._failures[event] = failure or ""
        # On a full disk the event and the log are lost, but not the warning.
        self._heartbeat.warn("; ".join(filter(None, self._failures.values())))
