"""One epoch step by step: activity of every worker, and rows in transit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.course.experiments.one_epoch import OneEpoch, SentRows, train_one_epoch
from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.exchange.timeline import Span
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.partition.cut import cut_name
from gnnqlab.systems import fixed_bits, pipegcn, vanilla

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts
    from gnnqlab.systems.system import System

__all__ = ["WAYS", "EpochStep", "EpochWalk", "Flight"]

_LEAVES, _COMES = 0.25, 0.75
"""Drawn times of sending and arrival, as fractions of the steps ``post`` and ``wait``."""


@dataclass(frozen=True)
class _Way:
    label: str
    system: System
    about: str


# Name -> label of the switch, system, and sentence that explains it.
WAYS: dict[str, _Way] = {
    "vanilla": _Way("Vanilla", vanilla(), "Rows are sent in 32 bits, and nothing is computed meanwhile."),
    "two bits": _Way("2 bits", fixed_bits(bits=2), "Rows are sent in 2 bits per element, plus two floats per row."),
    "overlapped": _Way(
        "Overlapped", replace(vanilla(), schedule=Overlapped()), "Central nodes are computed while messages are sent."
    ),
    "stale": _Way("Stale", pipegcn(), "Rows are used one epoch after they were sent, so no worker waits (PipeGCN)."),
    "cached": _Way(
        "Cached",
        replace(vanilla(), cache=Unchanged(tolerance=0.1)),
        "A row is sent only if it differs by more than 10 % from the receiver's cached copy.",
    ),
}
"""Ways to train an epoch, by name."""


@dataclass(frozen=True)
class EpochStep:
    """Step of the epoch, with the same number on all workers."""

    activity: str
    """``start``, one of ``timeline.WHATS``, ``loss``, ``reduce`` or ``update``."""
    place: ExchangeKey | None
    """Key of the exchange: layer, direction, round."""
    number: int
    """Number from 0; on the timelines the step spans ``[number, number + 1]``."""
    milliseconds: tuple[float, ...]
    """Time measured by each worker; empty if not measured."""

    @property
    def name(self) -> str:
        """Unique name of the step."""
        return (
            self.activity
            if self.place is None
            else f"{self.activity}, layer {self.place.layer + 1} {self.place.direction}"
        )

    @property
    def cursor(self) -> float:
        return self.number + 0.5


@dataclass(frozen=True)
class Flight:
    """Message in transit between two positions on the timelines."""

    rows: SentRows
    start: float
    end: float

    def progress(self, position: float) -> float | None:
        """Return the fraction of its way covered at a position, in (0, 1); ``None`` if it is not in transit."""
        fraction = (position - self.start) / (self.end - self.start)
        return fraction if 0 < fraction < 1 else None


@dataclass(frozen=True, eq=False)
class EpochWalk:
    """Epoch of a small graph, trained in one of ``WAYS``."""

    parts: Parts
    way: str
    facts: OneEpoch

    @classmethod
    def from_partition(cls, parts: Parts, way: str = "vanilla", **settings: Any) -> EpochWalk:
        """Train a few epochs in this process; the walk shows the last one.

        Args:
            parts: an edge-cut of a graph that is small enough to be drawn.
            way: one of ``WAYS``.
            **settings: see `train_one_epoch`.

        Raises:
            ValueError: if there is no such way, or the partition is no edge-cut or cuts no edge.

        Example:
            >>> from gnnqlab import course
            >>> from gnnqlab.partition.parts import partition
            >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
            >>> [step.name for step in EpochWalk.from_partition(parts, epochs=1).steps][:3]
            ['start', 'encode, layer 1 forward', 'post, layer 1 forward']
        """
        if way not in WAYS:
            raise ValueError(f"a way to train an epoch must be one of {', '.join(WAYS)}, got {way!r}")
        kind = parts.shards[0].cuts
        if kind != "nodes" or not any(shard.halo.numel() for shard in parts.shards):
            raise ValueError(
                f"an epoch is played on an edge-cut with at least one cut edge, got {cut_name(kind)} on "
                f"{parts.workers} worker(s); use gq.partition(graph, gq.partitioners.METIS(), workers=2)"
            )
        return cls(parts, way, train_one_epoch(parts, WAYS[way].system, **settings))

    @cached_property
    def steps(self) -> tuple[EpochStep, ...]:
        """All steps in their order; consecutive parts of the same kind and exchange are merged."""
        parts: list[tuple[str, ExchangeKey | None, tuple[float, ...]]] = [("start", None, ())]
        # per worker: (kind, exchange) and milliseconds
        ranks = [_merge_spans(spans, self.facts.gradients_ready_s[rank]) for rank, spans in enumerate(self.facts.spans)]
        if any([key for key, _ in rank] != [key for key, _ in ranks[0]] for rank in ranks):
            raise ValueError(
                "all workers must take the same steps to be played together, got different ones; use another partition"
            )
        for index, ((activity, place), _) in enumerate(ranks[0]):
            # the loss lies between forward and backward
            back = activity == "reduce" or (place is not None and place.direction == "backward")
            if back and all(name != "loss" for name, _, _ in parts):  # the loss is not on the timeline
                parts.append(("loss", None, ()))
            # the all-reduce has no measured time here
            parts.append((activity, place, () if activity == "reduce" else tuple(rank[index][1] for rank in ranks)))
        parts.append(("update", None, ()))
        return tuple(EpochStep(activity, place, number, ms) for number, (activity, place, ms) in enumerate(parts))

    @cached_property
    def flights(self) -> tuple[Flight, ...]:
        """All messages; one used in the next epoch occurs twice: as sent now, and as received from the epoch before."""
        numbers = {(step.activity, step.place): step.number for step in self.steps}
        flights = []
        for rows in self.facts.messages:
            if not rows.nodes:  # a cache skipped every row
                continue
            start, end = numbers["post", rows.place] + _LEAVES, numbers["wait", rows.place] + _COMES
            if start < end:  # sent and used in this epoch
                flights.append(Flight(rows, start, end))
            else:
                # Used before it was sent: the rows in use are those of the epoch before.
                length = len(self.steps)
                # arrives now; sent now
                flights += [Flight(rows, start - length, end), Flight(rows, start, end + length)]
        return tuple(flights)

    def is_stale(self, place: ExchangeKey) -> bool:
        """Return True if the rows used in an exchange were sent in the epoch before."""
        numbers = {(step.activity, step.place): step.number for step in self.steps}
        return numbers["post", place] > numbers["wait", place]  # rows in use were sent one epoch before

    def messages_of(self, place: ExchangeKey) -> list[SentRows]:
        """Return the messages of an exchange."""
        return [rows for rows in self.facts.messages if rows.place == place]

    def messages_in_transit(self, position: float) -> list[tuple[Flight, float]]:
        """Return the messages in transit at a position, with the fraction of the way that each has covered."""
        return [(flight, fraction) for flight in self.flights if (fraction := flight.progress(position)) is not None]

    def nodes(self, rank: int, kind: str) -> list[int]:
        """Return a worker's ``central``, ``marginal`` or ``halo`` nodes, ascending."""
        shard = self.parts.shards[rank]
        cut = shard.num_central  # owned nodes: central first, then marginal
        ids = {"central": shard.owned[:cut], "marginal": shard.owned[cut:], "halo": shard.halo}[kind]
        return sorted(ids.tolist())

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows sent in the epoch."""
        return sum(rows.num_bytes for rows in self.facts.messages)

    def to_frame(self, step: EpochStep) -> DataFrame:
        """Return one line per worker: rows sent in the step's exchange, and its duration of the step."""
        import pandas as pd

        lines = []
        for rank in range(self.parts.workers):
            messages = [rows for rows in self.facts.messages if rows.sender == rank and rows.place == step.place]
            lines.append(
                {
                    "sends rows of nodes": ", ".join(str(node) for rows in messages for node in rows.nodes) or "–",
                    "bits": ", ".join(sorted({str(bits) for rows in messages for bits in rows.bits})) or "–",
                    "bytes": sum(rows.num_bytes for rows in messages),
                    "took here (ms)": step.milliseconds[rank] if step.milliseconds else float("nan"),
                }
            )
        return pd.DataFrame(lines, index=pd.Index([f"worker {rank}" for rank in range(len(lines))], name=step.name))


_Key = tuple[str, ExchangeKey | None]


def _merge_spans(spans: Sequence[Span], ready_s: float) -> list[tuple[_Key, float]]:
    """Return a worker's parts and their milliseconds, with ``reduce`` when its weight gradients were ready."""
    parts: list[tuple[_Key, float]] = []
    is_reduced = False
    for span in spans:
        if not is_reduced and span.start > ready_s:  # the first part after the gradients were ready
            parts.append((("reduce", None), 0.0))
            is_reduced = True
        key = (span.what, ExchangeKey(span.layer, span.direction, span.round))
        ms = 1e3 * (span.end - span.start)  # seconds -> ms
        if parts and parts[-1][0] == key:
            parts[-1] = key, parts[-1][1] + ms
        else:
            parts.append((key, ms))  # a part that is interrupted becomes two
    return parts if is_reduced else [*parts, (("reduce", None), 0.0)]
