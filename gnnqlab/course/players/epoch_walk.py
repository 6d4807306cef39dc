"""One epoch step by step: activity of every worker, and rows in transit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.course.experiments.one_epoch import OneEpoch, SentRows, train_one_epoch
from gnnqlab.course.players.epoch_times import EpochTimes, Part, model_times
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
    """Number from 0."""
    milliseconds: tuple[float, ...]
    """Time measured by each worker; empty if not measured."""
    start: float
    """Modelled start on all workers, in microseconds since the epoch began; see ``epoch_times.py``."""
    modelled_us: tuple[float, ...]
    """Modelled time of each worker, in microseconds."""

    @property
    def name(self) -> str:
        """Unique name of the step."""
        return (
            self.activity
            if self.place is None
            else f"{self.activity}, layer {self.place.layer + 1} {self.place.direction}"
        )

    @property
    def end(self) -> float:
        """Modelled end on the slowest worker, in microseconds."""
        return self.start + max(self.modelled_us)

    @property
    def cursor(self) -> float:
        """Time at which the step is drawn: its middle, in microseconds."""
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class Flight:
    """Message in transit between two modelled times, in microseconds."""

    rows: SentRows
    start: float
    end: float

    def progress(self, time_us: float) -> float | None:
        """Return the fraction of its way covered at a time, in (0, 1); ``None`` if it is not in transit."""
        fraction = (time_us - self.start) / (self.end - self.start)
        return fraction if 0 < fraction < 1 else None


@dataclass(frozen=True, eq=False)
class EpochWalk:
    """Epoch of a small graph, trained in one of ``WAYS``."""

    parts: Parts
    way: str
    facts: OneEpoch
    vanilla: EpochWalk | None = None
    """The same epoch in Vanilla, with which its length is compared."""

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
        times = self._model([(activity, place) for activity, place, _ in parts])
        return tuple(
            EpochStep(activity, place, number, ms, times.starts[number], times.durations[number])
            for number, (activity, place, ms) in enumerate(parts)
        )

    @cached_property
    def flights(self) -> tuple[Flight, ...]:
        """All messages; one used in the next epoch occurs twice: as sent now, and as received from the epoch before."""
        times = self._model([(step.activity, step.place) for step in self.steps])
        return tuple(Flight(each.rows, each.start, each.end) for each in times.transfers)

    @property
    def length(self) -> float:
        """Modelled length of the epoch, in microseconds."""
        return self.steps[-1].end

    @property
    def axis_end(self) -> float:
        """End of the time axis, in microseconds: Vanilla's epoch, or a longer own one, and some space."""
        return 1.05 * max(self.length, self.vanilla.length if self.vanilla else 0.0)

    def _model(self, steps: Sequence[Part]) -> EpochTimes:
        return model_times(steps, self.parts, self.facts.messages)

    def is_stale(self, place: ExchangeKey) -> bool:
        """Return True if the rows used in an exchange were sent in the epoch before."""
        numbers = {(step.activity, step.place): step.number for step in self.steps}
        return numbers["post", place] > numbers["wait", place]  # rows in use were sent one epoch before

    def messages_of(self, place: ExchangeKey) -> list[SentRows]:
        """Return the messages of an exchange."""
        return [rows for rows in self.facts.messages if rows.place == place]

    def messages_in_transit(self, time_us: float) -> list[tuple[Flight, float]]:
        """Return the messages in transit at a time, with the fraction of the way that each has covered."""
        return [(flight, fraction) for flight in self.flights if (fraction := flight.progress(time_us)) is not None]

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
        """Return one line per worker: rows sent in the step's exchange, and its times of the step."""
        import pandas as pd

        lines = []
        for rank in range(self.parts.workers):
            messages = [rows for rows in self.facts.messages if rows.sender == rank and rows.place == step.place]
            lines.append(
                {
                    "sends rows of nodes": ", ".join(str(node) for rows in messages for node in rows.nodes) or "–",
                    "bits": ", ".join(sorted({str(bits) for rows in messages for bits in rows.bits})) or "–",
                    "bytes": sum(rows.num_bytes for rows in messages),
                    "modelled (µs)": round(step.modelled_us[rank], 1),
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
