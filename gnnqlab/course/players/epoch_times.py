"""Modelled times of the steps of an epoch of a small graph: counted work, and messages on a modelled link.

Steps of ten nodes take microseconds that measure Python, so their lengths are computed. A worker does 4 multiply-adds
per microsecond; a link has 5 µs of latency and carries one byte per microsecond in each direction between two workers.
The ratio of the two gives ten nodes about the shares of a large graph on a slow network. Dense layers are left out, and
all-reduce and update of the weights are drawn in 20 µs each: ten nodes have more weights than rows, a large graph has
far fewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnqlab.course.experiments.one_epoch import SentRows
from gnnqlab.message.exchange_key import ExchangeKey

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts

__all__ = ["EpochTimes", "Transfer", "model_times"]

_WORK_PER_US = 4.0
"""Multiply-adds per microsecond."""
_BYTES_PER_US, _LATENCY_US = 1.0, 5.0
_STEP_US, _WEIGHTS_US = 1.0, 20.0
"""Fixed cost of each step that does something, and length of the all-reduce and of the update."""
_COPY, _QUANTIZE = 0.5, 2.0
"""Multiply-adds per element to copy a row into a message or out of it, and to quantize or dequantize it."""
_PASSES = 8
"""Epochs in a row, after which messages used one epoch later have reached the same times in every epoch."""

Part = tuple[str, ExchangeKey | None]
"""Activity and exchange of a step."""


@dataclass(frozen=True)
class Transfer:
    """Message in transit, in microseconds since the epoch began; negative if it was sent in the epoch before."""

    rows: SentRows
    start: float
    end: float


@dataclass(frozen=True)
class EpochTimes:
    """Modelled times of an epoch, in microseconds."""

    starts: tuple[float, ...]
    """Start of every step, the same on all workers."""
    durations: tuple[tuple[float, ...], ...]
    """For every step, the time that each worker takes; the next step starts when the slowest worker has finished."""
    length: float
    transfers: tuple[Transfer, ...]
    """Messages in the order of their steps; one used in the next epoch occurs twice, arriving and sent."""


def model_times(steps: Sequence[Part], parts: Parts, messages: Sequence[SentRows]) -> EpochTimes:
    """Compute when each worker starts and ends each step, and when each message is in transit.

    Args:
        steps: activity and exchange of every step, in order, the same on all workers.
        parts: edge-cut whose edges and rows are counted.
        messages: all messages of the epoch.
    """
    work = _Work(parts, messages)
    times = _one_pass(steps, work, {}, length=0.0)
    for _ in range(_PASSES):  # arrivals of stale messages depend on the epoch's length, and the length on arrivals
        arrivals = {(t.rows.place, t.rows.sender, t.rows.receiver): t.end for t in times.transfers if t.start >= 0}
        times = _one_pass(steps, work, arrivals, length=times.length)
    return times


class _Work:
    """Counted work of each worker in each step, in microseconds."""

    def __init__(self, parts: Parts, messages: Sequence[SentRows]) -> None:
        self.workers, self.messages = parts.workers, messages
        self._columns = {rows.place.layer: rows.columns for rows in messages}
        self._edges = [_count_edges(parts, rank) for rank in range(parts.workers)]

    def messages_of(self, place: ExchangeKey) -> list[SentRows]:
        """Return the messages of an exchange that have rows; a cache may skip all of one."""
        return [rows for rows in self.messages if rows.place == place and rows.nodes]

    def duration(self, rank: int, part: Part) -> float:
        """Return the microseconds of a step other than ``wait``."""
        activity, place = part
        if activity == "start":
            return 0.0
        if activity in ("reduce", "update"):
            return _WEIGHTS_US
        if place is None or activity == "post":
            return _STEP_US
        if activity in ("encode", "decode"):
            # the sender encodes, the receiver decodes
            rows = [r for r in self.messages_of(place) if rank == (r.sender if activity == "encode" else r.receiver)]
            return _STEP_US + sum(_coding(each) for each in rows)
        edges = self._edges[rank][place.direction, activity]
        return _STEP_US + edges * self._columns[place.layer] / _WORK_PER_US


def _coding(rows: SentRows) -> float:
    elements = sum(rows.columns * (_COPY if bits >= 32 else _QUANTIZE) for bits in rows.bits)
    return elements / _WORK_PER_US


def _count_edges(parts: Parts, rank: int) -> Mapping[tuple[str, str], int]:
    """Return the edges of each aggregation by direction and activity, self-loops counted."""
    graph = parts.graph
    sources = graph.indices.tolist()
    targets = [node for node, degree in enumerate(graph.in_degrees.tolist()) for _ in range(degree)]
    owner, shard = parts.owner.tolist(), parts.shards[rank]
    central = set(shard.owned[: shard.num_central].tolist())
    into = [(source, target) for source, target in zip(sources, targets, strict=True) if owner[target] == rank]
    in_central = sum(target in central for _, target in into)
    local = sum(owner[source] == rank for source, _ in into)
    return {
        ("forward", "central"): in_central,
        ("forward", "marginal"): len(into) - in_central,
        # backward: "central" computes gradients of owned rows, "marginal" those of halo rows
        ("backward", "central"): local,
        ("backward", "marginal"): len(into) - local,
    }


def _one_pass(
    steps: Sequence[Part],
    work: _Work,
    before: Mapping[tuple[ExchangeKey, int, int], float],
    *,
    length: float,
) -> EpochTimes:
    """Time one epoch after another one of a given length, whose messages arrived at the times ``before``."""
    now, starts, durations = 0.0, [], []
    free: dict[tuple[int, int], float] = {}  # link -> time at which it is free again
    sent: list[Transfer] = []
    stale: list[SentRows] = []  # rows that were sent in the epoch before
    for activity, place in steps:
        starts.append(now)
        took = [work.duration(rank, (activity, place)) for rank in range(work.workers)] if activity != "wait" else []
        if activity == "post" and place is not None:
            for rows in work.messages_of(place):
                link = rows.sender, rows.receiver
                start = max(now, free.get(link, 0.0))  # messages of one link are sent one after another
                free[link] = start + rows.num_bytes / _BYTES_PER_US
                sent.append(Transfer(rows, start, free[link] + _LATENCY_US))
        if activity == "wait" and place is not None:
            ends = [now] * work.workers
            for rows in work.messages_of(place):
                own = [transfer.end for transfer in sent if transfer.rows is rows]
                if not own:
                    stale.append(rows)
                    # of the epoch before; in the first pass nothing is waited for
                    own = [before.get((place, rows.sender, rows.receiver), 0.0) - length]
                ends[rows.receiver] = max(ends[rows.receiver], own[0])
            took = [end - now for end in ends]
        durations.append(tuple(took))
        now += max(took)
    arriving = [
        Transfer(transfer.rows, transfer.start - now, transfer.end - now)
        for transfer in sent
        if any(rows is transfer.rows for rows in stale)
    ]
    return EpochTimes(tuple(starts), tuple(durations), now, (*arriving, *sent))
