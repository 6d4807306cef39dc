"""Training of one launched process: load the shard, build the trainer, run the epochs, write the records."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gnnqlab.atomic import write_text
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.transport.paced import Pacer
from gnnqlab.message.transport.transport import Transport, make_transport
from gnnqlab.observe import Observers, observers_named
from gnnqlab.partition.shard import Shard
from gnnqlab.train.checkpoints.model_file import ModelFile
from gnnqlab.train.checkpoints.state import CheckpointManager, cut_digest
from gnnqlab.train.config.run_config import RunConfig, TrainSettings
from gnnqlab.train.control import Control
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.inductive import evaluate_on_whole_graph, own_training_shard
from gnnqlab.train.learned_features import learn_features
from gnnqlab.train.link import HostTrafficCounter, Link
from gnnqlab.train.loop.objective import Scores
from gnnqlab.train.loop.phase_timer import PhaseTimer
from gnnqlab.train.loop.recorders import (
    ChannelBytes,
    Decisions,
    EntropyOfCodes,
    HostBytes,
    ObserverEvents,
    PhaseSeconds,
    RecordFile,
    RoundedProducts,
    TrafficFile,
)
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from gnnqlab.train.memory import keep_pages
from gnnqlab.train.moving_partition import MovingPartition
from gnnqlab.train.node_features import with_node_features
from gnnqlab.train.processors import ORIGIN
from gnnqlab.train.records.energy import Energy, find_meters
from gnnqlab.train.records.history import trim_records
from gnnqlab.train.records.json_lines import log_event
from gnnqlab.train.records.memory_tracker import MemoryFile
from gnnqlab.train.records.provenance import machine, package
from gnnqlab.train.records.recorder import EndedEpoch, Recorder
from gnnqlab.train.records.timeline import TimelineFile
from gnnqlab.train.shard_cache import check_same_partition, held_out_links, own_links, own_shard, partitioner_library

__all__ = ["fit", "link_pacer"]


def fit(
    config: RunConfig,
    folder: Path,
    rank: int,
    workers: int,
    heartbeat: Heartbeat,
    *,
    watch: Callable[[Trainer], object] | None = None,
    transports: Callable[[str, int, int], Transport] = make_transport,
) -> None:
    """Train one worker's share of a run from its first to its last epoch.

    Args:
        config: the run's configuration, the same on every worker.
        folder: the run folder; records go there.
        rank: this worker; ``torch.distributed`` is initialised if there are several.
        workers: P.
        heartbeat: receives every change of phase.
        watch: called with the trainer before its first epoch, for measurements.
        transports: creates a transport from a name, a rank and a number of workers.
    """
    settings = config.train
    assert settings.evaluate_every is not None
    keep_pages()  # before the first large tensor is allocated
    placed_system = config.system_on_hosts
    task, held_links = config.task, held_out_links(config)
    # Read this worker's shard; if it is not cached, load and partition the graph first.
    shard = own_shard(
        config.graph,
        placed_system.partition,
        rank=rank,
        workers=workers,
        run=folder,
        heartbeat=heartbeat,
        held=held_links,
        expect=task.require_graph,
    )
    start = {"columns": config.model.hidden, "seed": settings.seed}  # of trained embeddings
    shard = with_node_features(shard, task.node_features, **start)
    # Timer, observers, link and control, which the trainer reports to or reads from.
    observers = Observers(observers_named(config.launch.observers), rank)
    clock = PhaseTimer(heartbeat.phase, observers=observers)
    device = _device(config, rank)
    link = Link.from_folder(folder, workers)
    pacer = link_pacer(link, rank, workers, folder)
    counting = Counting()
    control = Control(folder, rank, config.system, distributed=workers > 1)
    is_inductive = settings.protocol == "inductive"
    train_shard = shard
    if is_inductive:
        train_shard = own_training_shard(config.graph, rank=rank, workers=workers, run=folder, heartbeat=heartbeat)
        train_shard = with_node_features(train_shard, task.node_features)
    build = partial(
        worker_trainer,
        system=placed_system,
        model=config.model,
        settings=settings,
        device=device,
        clock=clock,
        run=_identity(config),
        pacer=pacer,
        counting=counting,
        observers=observers,
        task=task,
        transports=transports,
    )
    links = None if held_links is None else own_links(folder, rank)
    trainer = build(train_shard, control=control, links=links)
    if task.node_features == "learned":
        learn_features(trainer, shard.num_global_nodes)
    if is_inductive:
        evaluate_on_whole_graph(trainer, shard, run=_identity(config), pacer=pacer, transports=transports)
    if watch is not None:
        watch(trainer)
    if rank == 0:
        _write_facts(folder, config, shard, trainer, device)
    moving: list[Recorder] = []
    if placed_system.partition.partition_every:
        moving = [
            MovingPartition(
                config,
                folder,
                shard,
                trainer,
                lambda shard: build(with_node_features(shard, task.node_features, **start)),
                heartbeat,
            )
        ]
    # Recorders are called in this order; each adds entries to the record of an epoch, or writes its own file.
    recorders: tuple[Recorder, ...] = (
        *moving,  # first, so that the others see the partition of the epoch
        MemoryFile(folder, rank, trainer, settings.memory_every),
        PhaseSeconds(clock),
        ChannelBytes(trainer),
        HostBytes(HostTrafficCounter(link, rank, workers)),
        # Once per machine.
        Energy(find_meters() if os.environ.get("LOCAL_RANK", "0") == "0" else []),
        EntropyOfCodes(counting, settings.entropy_every),
        RecordFile(folder, rank),
        ObserverEvents(folder, observers),
        TimelineFile(folder, rank, trainer, settings.timeline_every),
        Decisions(folder, rank, trainer),
        TrafficFile(folder, rank, trainer),
        RoundedProducts(trainer),
    )
    model_file = ModelFile(
        folder,
        config.model,
        trainer.model,
        num_nodes=shard.num_global_nodes,
        num_features=int(trainer.graph.features.shape[1]),
        num_classes=task.columns(config.model.hidden, shard.num_classes),
        num_edge_features=0 if shard.edge_features is None else int(shard.edge_features.shape[1]),
        class_names=shard.class_names if task.task == "nodes" else None,
    )
    # Before any exchange: workers that hold different partitions would wait for each other's rows for ever.
    if workers > 1:
        check_same_partition(shard)
        check_same_partition(train_shard)
    # Continue after the newest checkpoint, if there is one.
    keeper = CheckpointManager(folder, config, rank, trainer, control, heartbeat, model_file, cut_digest(shard))
    first_epoch, earlier_s = keeper.resume()
    trim_records(folder, rank, first_epoch)  # after a restart in this folder, later epochs are trained again
    start_s = time.perf_counter() - earlier_s  # a resumed run continues the time of the old one
    # Train, evaluate, record, and take a checkpoint.
    rate = trainer.optimizer.learning_rate
    for epoch in range(first_epoch, settings.epochs):
        heartbeat.phase("compute", epoch=epoch)
        for recorder in recorders:
            recorder.begin(epoch)
        epoch_start = time.perf_counter()
        loss = trainer.epoch(epoch)
        epoch_s = time.perf_counter() - epoch_start
        for recorder in recorders:  # before the evaluation, whose bytes and seconds are not training's
            recorder.measure(epoch)
        scores = Scores(train=float("nan"), val=float("nan"), test=float("nan"))
        is_last = epoch == settings.epochs - 1
        is_evaluated = is_last or _is_evaluated(epoch, settings.evaluate_every)
        if is_evaluated:
            scores = trainer.evaluate(epoch)
        figures = [recorder.figures() for recorder in recorders]
        record: dict[str, Any] = {
            "epoch": epoch,
            "rank": rank,
            "time_s": round(time.perf_counter() - start_s, 6),
            "loss": loss,
            **({} if rate.is_constant else {"lr": rate.value(epoch)}),
            "train_score": _number(scores.train),
            "val_score": _number(scores.val),
            "test_score": _number(scores.test),
            **{name: _number(value) for name, value in scores.further_scores.items()},
            "epoch_s": round(epoch_s, 7),
            **{name: value for entries in figures for name, value in entries.items()},
        }
        results = EndedEpoch(epoch, loss, record, trainer.take_arrivals())
        for recorder in recorders:
            recorder.write(results)
        # After the records, so that they show the epoch that failed, and before a checkpoint of its weights.
        _check_finite(loss, epoch)
        if is_evaluated:
            score = record["val_score"]
            _check_validation(settings, score)
            waited_epochs = keeper.evaluated(epoch, score)
            if 0 < settings.patience <= waited_epochs and not is_last:
                is_last = True
                _report_early_stop(folder, rank, epoch, waited_epochs)
        # Without an evaluation, so that a resumed run has the records of an uninterrupted one.
        is_interrupted = control.stop_after_epoch and not is_last
        keeper.after(epoch, time.perf_counter() - start_s, is_last=is_last, is_interrupted=is_interrupted)
        if is_last or is_interrupted:
            break
    keeper.close()
    trainer.close()
    for recorder in recorders:
        recorder.close()


def _identity(config: RunConfig) -> str:
    """Return an identifier of this run for its message headers; the same on every machine."""
    value = config.to_json()
    # Without graph and launch settings: a graph's path may differ between machines.
    parts = {name: value[name] for name in ("system", "model", "train", "workers", "task")}
    return json.dumps(parts, sort_keys=True) + os.environ.get("TORCHELASTIC_RUN_ID", "")


def _is_evaluated(epoch: int, period: int) -> bool:
    return period > 0 and epoch % period == 0


def _check_finite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        # The loss is summed over workers, so all of them raise, or none.
        raise RuntimeError(f"the loss must be finite, got {loss} in epoch {epoch}; lower the learning rate (--lr)")


def _check_validation(settings: TrainSettings, score: float | None) -> None:
    is_plateau = settings.lr_schedule == "plateau"
    if score is None and (settings.patience or is_plateau):
        name = "lr_schedule 'plateau'" if is_plateau else f"patience {settings.patience}"
        raise RuntimeError(
            f"{name} compares validation scores, got a graph without validation nodes; leave it out, or choose a split "
            "with graph.with_split(train_idx, val_idx)"
        )


def _report_early_stop(folder: Path, rank: int, epoch: int, waited_epochs: int) -> None:
    if rank == 0:
        text = f"training ended early, since no validation score was better for {waited_epochs} epochs"
        print(f"epoch {epoch}: {text}", flush=True)
        log_event(folder, "stopped early", epoch=epoch, text=text)


def _number(value: float) -> float | None:
    return None if value != value else round(value, 6)  # JSON has no NaN


def link_pacer(link: Link, rank: int, workers: int, folder: Path) -> Pacer | None:
    """Return the pacer that throttles this worker's messages; ``None`` if the link is not paced."""
    if link.kind != "paced":
        return None
    assert link.bytes_per_s is not None
    board = folder / "tmp" / "paced"
    return Pacer(rank, workers, hosts=link.hosts, bytes_per_s=link.bytes_per_s, board=board)


def _device(config: RunConfig, rank: int) -> torch.device:
    if config.launch.device == "cpu":
        return torch.device("cpu")
    # Numbers of GPUs are those of a machine; over Gloo, workers can share a GPU.
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _write_facts(folder: Path, config: RunConfig, shard: Shard, trainer: Trainer, device: torch.device) -> None:
    """Write ``facts.json``: properties of the graph, model, system and machine known after set-up, for reports."""
    facts = {
        "multi_label": shard.multi_label,
        "score": trainer.objective.score,
        "also": list(trainer.objective.further_scores),
        "num_nodes": shard.num_global_nodes,
        "num_classes": shard.num_classes,
        "num_features": int(trainer.graph.features.shape[1]),
        "num_parameters": trainer.parameters.values.numel(),
        "device": str(device),
        "backend": dist.get_backend() if dist.is_initialized() else "none",
        "threads": torch.get_num_threads(),
        "threads_from": os.environ.get(ORIGIN, ""),
        "projects_first": _projected_first(config, trainer),
        "input_features": config.train.input_features,
        "lr_changes": not trainer.optimizer.learning_rate.is_constant,
        "lag": config.system.schedule.lag,
        "gradients": config.train.gradients,
        "partition_every": config.system.partition.partition_every,
        "bytes_bases": any(callback.sent_bytes is not None for callback in trainer.adaptives.values()),
        "partitioner_library": partitioner_library(folder),
        "torch": torch.__version__,
        "machine": machine(),
        "package": package(),
    }
    for callback in trainer.adaptives.values():
        facts |= callback.notes()
    print(
        f"training on {facts['device']}, backend {facts['backend']}, {facts['threads']} thread(s) per worker"
        + (f" from {facts['threads_from']}" if facts["threads_from"] else ""),
        flush=True,
    )
    write_text(folder / "facts.json", json.dumps(facts, indent=1))


def _projected_first(config: RunConfig, trainer: Trainer) -> list[bool]:
    """Return True for each layer that sends projected rows."""
    layers = [bool(convolution.projects_first) for convolution in getattr(trainer.model, "convolutions", [])]
    if trainer.exchange is None or not trainer.exchange.aggregates_before_projection or config.model.dropout == 0.0:
        return layers
    return [projects_first and index == 0 for index, projects_first in enumerate(layers)]
