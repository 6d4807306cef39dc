"""What each launched process runs: shard, trainer, epochs, records."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path

import torch
import torch.distributed as dist

from gnnqlab.message.paced import Pacer
from gnnqlab.partition.shard import Shard
from gnnqlab.train.assignment import Assigner
from gnnqlab.train.clock import Clock
from gnnqlab.train.config import RunConfig
from gnnqlab.train.control import Control
from gnnqlab.train.coordinator import Coordinator
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.installed import save_widths
from gnnqlab.train.link import Crossing, Link
from gnnqlab.train.memory import keep_pages
from gnnqlab.train.objective import Scores
from gnnqlab.train.overhead import extraction_fact
from gnnqlab.train.prepare import own_shard
from gnnqlab.train.record import JsonLines, traffic_rows
from gnnqlab.train.state import Keeper
from gnnqlab.train.timeline import TimelineFile
from gnnqlab.train.trainer import Trainer, worker_trainer

__all__ = ["fit"]


def fit(config: RunConfig, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Train one worker's share of a run from its first to its last epoch.

    Args:
        config: the run's configuration, the same on every worker.
        folder: the run folder; records go there.
        rank: this worker; ``torch.distributed`` is initialised if there are several.
        workers: P.
        heartbeat: told about every change of phase.
    """
    settings = config.train
    assert settings.evaluate_every is not None
    keep_pages()
    shard = own_shard(
        config.graph, config.system.partition, rank=rank, workers=workers, run=folder, heartbeat=heartbeat
    )
    clock = Clock(heartbeat.phase)
    device = _device(config, rank)
    link = Link.of(folder, workers)
    pacer = _pacer(link, rank, workers, folder)
    trainer = worker_trainer(
        shard, config.system, config.model, settings, device=device, clock=clock, run=_identity(config), pacer=pacer
    )
    if rank == 0:
        _write_facts(folder, config, shard, trainer, device)
    records = JsonLines(folder / f"records-rank{rank}.jsonl")
    traffic = JsonLines(folder / f"traffic-rank{rank}.jsonl")
    timeline = TimelineFile(folder, rank, trainer.exchange, settings.timeline_every)
    meter = _Meter(trainer)
    assert trainer.policy is not None
    control = Control(folder, rank, config.system, trainer.policy, distributed=trainer.distributed)
    trainer.control = control
    keeper = Keeper(folder, config, rank, trainer, control, heartbeat)
    crossing = Crossing(link, rank, workers)
    if workers > 1:
        _check_same_partition(shard)
    installed = 0
    first, earlier_s = keeper.resume()
    started = time.perf_counter() - earlier_s
    for epoch in range(first, settings.epochs):
        heartbeat.phase("compute", epoch=epoch)
        clock.take()
        crossing.take()
        timeline.begin(epoch)
        begun = time.perf_counter()
        loss = trainer.epoch(epoch)
        epoch_s = time.perf_counter() - begun
        bytes_wire = crossing.take()
        if trainer.coordinator is not None:
            with clock.whole("assign"):
                _take_decisions(folder, rank, trainer.coordinator)
        scores = Scores(train=float("nan"), val=float("nan"), test=float("nan"))
        if _evaluates(epoch, settings.epochs, settings.evaluate_every):
            scores = trainer.evaluate(epoch)
        seconds = clock.take()
        records.write(
            {
                "epoch": epoch,
                "rank": rank,
                "time_s": round(time.perf_counter() - started, 6),
                "loss": loss,
                "train_score": _number(scores.train),
                "val_score": _number(scores.val),
                "test_score": _number(scores.test),
                "epoch_s": round(epoch_s, 7),
                **{f"{phase}_s": round(value, 7) for phase, value in seconds.items()},
                **meter.read(),
                "bytes_wire": bytes_wire,
            }
        )
        arrivals = meter.arrivals()
        timeline.end(epoch, arrivals)
        if trainer.assigner is not None:
            trainer.assigner.observe(arrivals)
            if rank == 0:
                _write_assignments(folder, trainer.assigner)
            installed = _keep_widths(folder, rank, trainer.assigner, installed)
        traffic.write({"epoch": epoch, "rows": traffic_rows(arrivals)})
        _check_finite(loss, epoch)
        keeper.after(epoch, time.perf_counter() - started)
    keeper.close()
    trainer.close()
    records.close()
    traffic.close()


def _identity(config: RunConfig) -> str:
    """Return what tells the messages of this run from those of others; the same on every machine."""
    whole = config.to_json()
    kept = {part: whole[part] for part in ("system", "model", "train", "workers")}
    return json.dumps(kept, sort_keys=True) + os.environ.get("TORCHELASTIC_RUN_ID", "")


def _take_decisions(folder: Path, rank: int, coordinator: Coordinator) -> None:
    """Append what was decided since the last call, by all workers alike, to ``decisions.jsonl``."""
    decided, coordinator.decisions[:] = list(coordinator.decisions), []
    if decided and rank == 0:
        lines = JsonLines(folder / "decisions.jsonl")
        for entry in decided:
            lines.write(entry)
        lines.close()


def _write_assignments(folder: Path, assigner: Assigner) -> None:
    """Append what was assigned since the last call to ``assignments.jsonl``."""
    solved, assigner.history[:] = list(assigner.history), []
    if solved:
        lines = JsonLines(folder / "assignments.jsonl")
        for entry in solved:
            lines.write(entry)
        lines.close()


def _keep_widths(folder: Path, rank: int, assigner: Assigner, installed: int) -> int:
    """Write the assignment in force if it is a new one; return its number."""
    number = assigner.widths.round(0)
    if number != installed:
        save_widths(folder, rank, assigner.widths)
    return number


def _check_same_partition(shard: Shard) -> None:
    """Refuse shards of different partitions, which machines without a common cache can make; also a barrier."""
    counts = torch.zeros(2, shard.workers, shard.workers, dtype=torch.int64)
    counts[0, :, shard.rank] = shard.halo_splits
    counts[1, shard.rank] = shard.boundary_splits
    counts = counts.to("cuda") if dist.get_backend() == "nccl" else counts
    dist.all_reduce(counts)
    if not torch.equal(counts[0], counts[1]):
        raise RuntimeError(
            "workers must hold shards of one partition, got rows to send that nobody expects; let all machines share "
            "the folder GNNQLAB_CACHE, or choose the partition 'random'"
        )


def _evaluates(epoch: int, epochs: int, every: int) -> bool:
    return epoch == epochs - 1 or (every > 0 and epoch % every == 0)


def _check_finite(loss: float, epoch: int) -> None:
    if not torch.isfinite(torch.tensor(loss)):
        raise RuntimeError(f"the loss must be finite, got {loss} in epoch {epoch}; lower the learning rate (--lr)")


def _number(value: float) -> float | None:
    return None if value != value else round(value, 6)


def _pacer(link: Link, rank: int, workers: int, folder: Path) -> Pacer | None:
    """Return what slows this worker's messages down, if its link is not a real one."""
    if link.kind != "paced":
        return None
    assert link.bytes_per_s is not None
    board = folder / "tmp" / "paced"
    return Pacer(rank, workers, hosts=link.hosts, bytes_per_s=link.bytes_per_s, board=board)


def _device(config: RunConfig, rank: int) -> torch.device:
    if config.launch.device == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _write_facts(folder: Path, config: RunConfig, shard: Shard, trainer: Trainer, device: torch.device) -> None:
    """Write what was found out while the run was set up, for tables and reports."""
    facts = {
        "multi_label": shard.multi_label,
        "num_nodes": shard.num_global_nodes,
        "num_classes": shard.num_classes,
        "num_features": int(trainer.graph.features.shape[1]),
        "num_parameters": trainer.parameters.values.numel(),
        "device": str(device),
        "backend": dist.get_backend() if dist.is_initialized() else "none",
        "threads": torch.get_num_threads(),
        "projects_first": [
            bool(convolution.projects_first) for convolution in getattr(trainer.model, "convolutions", [])
        ],
        "layer0": config.train.layer0,
        "gradients": config.train.gradients,
        "torch": torch.__version__,
    }
    if trainer.coordinator is not None:
        facts |= extraction_fact(shard)
    print(
        f"training on {facts['device']}, backend {facts['backend']}, {facts['threads']} thread(s) a worker", flush=True
    )
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


class _Meter:
    """Turns the channels' running counts into figures per epoch."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._before = (0, 0, 0, 0.0)

    def read(self) -> dict[str, float]:
        channels = self._trainer.exchange.channels if self._trainer.exchange else []
        now = (
            sum(channel.bytes_payload for channel in channels),
            sum(channel.bytes_params for channel in channels),
            sum(channel.bytes_headers for channel in channels),
            sum(channel.wire_s for channel in channels),
        )
        before, self._before = self._before, now
        return {
            "bytes_payload": now[0] - before[0],
            "bytes_params": now[1] - before[1],
            "bytes_headers": now[2] - before[2],
            "bytes_gradients": self._trainer.reduction.sent_bytes,
            "wire_s": round(now[3] - before[3], 7),
            "memory_bytes": _peak_memory(),
        }

    def arrivals(self) -> list:  # type: ignore[type-arg]
        channels = self._trainer.exchange.channels if self._trainer.exchange else []
        taken = [arrival for channel in channels for arrival in channel.arrivals]
        for channel in channels:
            channel.arrivals.clear()
        return taken


def _peak_memory() -> int:
    """Return the most memory this process, or its GPU, has held, in bytes."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
