"""Recorders of every training: seconds, bytes, decisions, and the files of records and messages."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gnnqlab.adaptive import ASSIGNMENTS, DECISIONS, Entry
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.observe import DecisionMade, EpochEnded, Observers
from gnnqlab.train.link import HostTrafficCounter
from gnnqlab.train.loop.phase_timer import PhaseTimer, include_parts
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.records.active_bit_widths import save_tables
from gnnqlab.train.records.cache_stats import CacheCounts, record_entries
from gnnqlab.train.records.json_lines import JsonLines
from gnnqlab.train.records.observer_tables import write_tables
from gnnqlab.train.records.record import traffic_rows
from gnnqlab.train.records.recorder import EndedEpoch, Recorder

__all__ = [
    "ChannelBytes", "Decisions", "EntropyOfCodes", "HostBytes", "ObserverEvents", "PhaseSeconds", "RecordFile",
    "RoundedProducts", "TrafficFile", "report_epoch", "take_decisions",
]  # fmt: skip


class PhaseSeconds(Recorder):
    """Record the seconds of each phase as ``<phase>_s``."""

    def __init__(self, clock: PhaseTimer) -> None:
        self._clock = clock

    def begin(self, epoch: int) -> None:
        self._clock.take()  # drops the time between two epochs

    def figures(self) -> dict[str, Any]:
        return {f"{phase}_s": round(value, 7) for phase, value in include_parts(self._clock.take()).items()}


class ChannelBytes(Recorder):
    """Record the bytes and seconds of all channels in an epoch, and the peak memory so far."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._before: tuple[int, int, int, float, int] = (0, 0, 0, 0.0, 0)
        self._bases_before = 0

    def begin(self, epoch: int) -> None:
        self._before = self._totals()  # channels of another partition count from 0

    def figures(self) -> dict[str, Any]:
        totals = self._totals()
        # Counters run from the first epoch on; a record has the difference.
        earlier_totals, self._before = self._before, totals
        counts = [each.sent_bytes for each in self._trainer.adaptives.values() if each.sent_bytes is not None]
        bases, self._bases_before = sum(counts) - self._bases_before, sum(counts)
        return {
            **({"bytes_bases": bases} if counts else {}),
            "bytes_payload": totals[0] - earlier_totals[0],
            "bytes_params": totals[1] - earlier_totals[1],
            "bytes_headers": totals[2] - earlier_totals[2],
            "bytes_gradients": self._trainer.reduction.sent_bytes + totals[4] - earlier_totals[4],
            "wire_s": round(totals[3] - earlier_totals[3], 7),
            "memory_bytes": _peak_memory(),
        }

    def _totals(self) -> tuple[int, int, int, float, int]:
        channels = self._trainer.channels
        return (
            sum(channel.bytes_payload for channel in channels),
            sum(channel.bytes_params for channel in channels),
            sum(channel.bytes_headers for channel in channels),
            sum(channel.wire_s for channel in channels),
            self._trainer.graph.node_sums.sent_bytes,  # of batch normalization over all workers
        )


class HostBytes(Recorder):
    """Record the bytes that this worker's host sent to others during training, as ``bytes_wire``."""

    def __init__(self, counter: HostTrafficCounter) -> None:
        self._counter = counter
        self._sent: int | None = None

    def begin(self, epoch: int) -> None:
        self._counter.take()  # drops the bytes between two epochs

    def measure(self, epoch: int) -> None:
        self._sent = self._counter.take()

    def figures(self) -> dict[str, Any]:
        return {"bytes_wire": self._sent}


class RoundedProducts(Recorder):
    """Record the number of elements quantized for products of codes, as ``rounded``; nothing for other products."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._before: tuple[int, ...] = ()
        self._rounded: dict[str, int] = {}

    def begin(self, epoch: int) -> None:
        self._before = tuple(self._counts().values())

    def measure(self, epoch: int) -> None:
        # Before the evaluation, whose products are not counted.
        counts = self._counts().items()
        self._rounded = {
            name: count - earlier_count for (name, count), earlier_count in zip(counts, self._before, strict=True)
        }

    def figures(self) -> dict[str, Any]:
        return self._rounded

    def _counts(self) -> dict[str, int]:
        products = self._trainer.exchange.products if self._trainer.exchange else None
        counts = None if products is None else products.quantized
        return {} if counts is None else {"rounded": counts.num_quantized, "rounded_twice": counts.num_requantized}


class EntropyOfCodes(Recorder):
    """Enable the counting of message codes in every n-th epoch; the counts are stored with the messages."""

    def __init__(self, counting: Counting, every: int) -> None:
        self._counting, self._every = counting, every

    def begin(self, epoch: int) -> None:
        self._counting.on = self._every > 0 and epoch % self._every == 0


class Decisions(Recorder):
    """Write the decisions of the callbacks, pass them the messages of an epoch, and save their tables."""

    def __init__(self, folder: Path, rank: int, trainer: Trainer) -> None:
        self._folder, self._rank, self._trainer = folder, rank, trainer

    def measure(self, epoch: int) -> None:
        trainer = self._trainer
        decisions = take_decisions(trainer, epoch)
        if not decisions or self._rank != 0:  # all workers make the same decisions
            return
        # Writing decisions is part of what they cost.
        with trainer.clock.open_inclusive("assign"):
            for name in dict.fromkeys(name for name, _ in decisions):  # each file once
                if name not in (ASSIGNMENTS, DECISIONS):
                    raise ValueError(f"a decision belongs to {DECISIONS} or {ASSIGNMENTS}, got {name!r}")
                lines = JsonLines(self._folder / name)
                for file, entry in decisions:
                    if file == name:
                        lines.write(entry)
                lines.close()

    def write(self, epoch: EndedEpoch) -> None:
        for callback in self._trainer.adaptives.values():
            callback.observe(epoch.arrivals)
            save_tables(self._folder, self._rank, callback.tables())


class RecordFile(Recorder):
    """Write ``records-rankR.jsonl``, one line per epoch."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._lines = JsonLines(folder / f"records-rank{rank}.jsonl")

    def write(self, epoch: EndedEpoch) -> None:
        self._lines.write(epoch.record)

    def close(self) -> None:
        self._lines.close()


class TrafficFile(Recorder):
    """Write ``traffic-rankR.jsonl``: the messages of an epoch, and the rows that a cache skipped."""

    def __init__(self, folder: Path, rank: int, trainer: Trainer) -> None:
        self._lines = JsonLines(folder / f"traffic-rank{rank}.jsonl")
        self._trainer, self._cached = trainer, CacheCounts()
        self._cache_rows: list[list[Any]] = []

    def figures(self) -> dict[str, Any]:
        exchange = self._trainer.exchange
        self._cache_rows = self._cached.read(exchange.channels if exchange else [])
        return record_entries(self._cache_rows)

    def write(self, epoch: EndedEpoch) -> None:
        cache = {"cache": self._cache_rows} if self._cache_rows else {}  # no entry without a cache
        self._lines.write({"epoch": epoch.epoch, "rows": traffic_rows(epoch.arrivals), **cache})

    def close(self) -> None:
        self._lines.close()


class ObserverEvents(Recorder):
    """Report the end of an epoch to the observers, and write their tables."""

    def __init__(self, folder: Path, observers: Observers) -> None:
        self._folder, self._observers = folder, observers

    def write(self, epoch: EndedEpoch) -> None:
        report_epoch(self._observers, epoch.epoch, epoch.loss, epoch.record)

    def close(self) -> None:
        write_tables(self._folder, self._observers)


def take_decisions(trainer: Trainer, epoch: int) -> list[Entry]:
    """Return the decisions of a trainer's callbacks since the last call; report them to the observers."""
    observers = trainer.observers
    decisions = [entry for callback in trainer.adaptives.values() for entry in callback.entries()]
    if observers.decision_made:
        for name, entry in decisions:
            decision = DecisionMade(observers.rank, epoch, name.partition(".")[0], entry)
            observers.emit(observers.decision_made, decision)
    return decisions


def report_epoch(observers: Observers, epoch: int, loss: float, record: Mapping[str, Any]) -> None:
    """Report the end of an epoch to the observers."""
    if observers.epoch_ended:
        observers.emit(observers.epoch_ended, EpochEnded(observers.rank, epoch, loss, record))


def _peak_memory() -> int:
    """Return the peak memory of this process, or of its GPU, in bytes."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
