"""A recorded epoch of a launched run: what each worker did when, which messages were under way, as the run wrote it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from gnnqlab.lab.figures.theme import BETWEEN
from gnnqlab.lab.training.critical_path import recorded_epoch
from gnnqlab.message.exchange_key import ExchangeKey

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts
    from gnnqlab.run.run import Run

__all__ = ["Doing", "Message", "Moment", "RunWalk", "place_words"]

_SHORT_MS = 2e-3
"""Times closer than this are one: clocks are read one after the other."""
_GAP_MS = 0.05
"""A shorter while between two parts counts with the first of them."""
_MOST_MOMENTS = 400


class Doing(NamedTuple):
    """What a worker did for a while; parts of one kind and exchange in a row are one."""

    rank: int
    what: str
    """One of ``timeline.WHATS``, ``between``, ``loss``, ``reduce`` or ``optimizer``."""
    place: ExchangeKey | None
    start: float
    """Milliseconds since the first part of the epoch, as all times here."""
    end: float


@dataclass(frozen=True)
class Message:
    """Rows of one worker for another, from the sender's post until they had come."""

    place: ExchangeKey
    sender: int
    receiver: int
    rows: tuple[tuple[int, int], ...]
    """Bit-width and how many rows have it, ascending."""
    num_bytes: int
    """Payload and parameters."""
    start: float
    end: float
    when: str
    """``now``: it left and came in this epoch; ``before``: it left an epoch ago; ``after``: it comes in the next."""

    @property
    def num_rows(self) -> int:
        return sum(count for _, count in self.rows)

    def gone(self, at: float) -> float | None:
        """Return how much of its way it has gone, in (0, 1); ``None`` if it is not under way."""
        share = (at - self.start) / max(self.end - self.start, _SHORT_MS)
        return share if 0 < share < 1 else None


def place_words(place: ExchangeKey) -> str:
    """Name an exchange; the first of its layer and direction has no number.

    Example:
        >>> place_words(ExchangeKey(0, "forward")), place_words(ExchangeKey(1, "backward", 1))
        ('layer 1, forward', 'layer 2, backward, exchange 2')
    """
    return f"layer {place.layer + 1}, {place.direction}" + (f", exchange {place.round + 1}" if place.round else "")


class Moment(NamedTuple):
    """A while in which every worker does one thing: a step of the player."""

    number: int
    """From 0."""
    start: float
    end: float

    @property
    def name(self) -> str:
        """Tells it from all other steps."""
        return f"{self.number + 1}, {self.start:.2f} ms"

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True, eq=False)
class RunWalk:
    """One epoch of a run, as it was recorded."""

    name: str
    """Of the run."""
    system: str
    parts: Parts
    epoch: int
    doings: tuple[Doing, ...]
    """By worker, and within one in the order of time."""
    messages: tuple[Message, ...]
    """In the order in which they left."""
    facts: Mapping[str, float]
    """Of the epoch as all workers see it: ``loss``, and ``gradients``, bytes of weight gradients that one sends."""

    @classmethod
    def of(cls, run: Run, epoch: int | None = None) -> RunWalk:
        """Read an epoch of a run.

        Args:
            run: with a timeline, on two workers or more.
            epoch: one that was recorded; by default that whose length is the median.

        Raises:
            ValueError: if nothing, or not that epoch, was recorded, its workers sent each other nothing, or the
                partition is not found again.
        """
        workers = run.config.workers
        if workers < 2:
            raise ValueError(
                f"an epoch is played of workers that send each other rows, got run {run.id} on {workers} worker(s); "
                "launch one with workers=2"
            )
        timeline = run.timeline
        epoch = recorded_epoch(timeline, epoch)
        some = timeline[timeline["epoch"] == epoch]
        some = some.assign(round=some["round"] if "round" in some.columns else 0)
        own = some[some["what"] != "transfer"]
        records = run.records
        of_rank = records[records["epoch"] == epoch].set_index("rank").to_dict("index")
        begin = own["start_s"].min()
        doings = [
            list(_whole(_merged(_doings(own[own["rank"] == rank], begin)), of_rank.get(rank, {})))
            for rank in range(workers)
        ]
        messages = _messages(some, run.read_traffic(epochs=[epoch, epoch + 1]), epoch, begin)
        parts = run.parts()
        _check_rows(parts, messages, run)
        first = of_rank.get(0, {})
        facts = {"loss": first.get("loss", float("nan")), "gradients": first.get("bytes_gradients", float("nan"))}
        name = str(run.summary.get("system", ""))
        return cls(run.id, name, parts, epoch, tuple(itertools.chain(*doings)), messages, facts)

    @property
    def milliseconds(self) -> float:
        """From the first recorded part to the last worker's step of the weights."""
        return max(doing.end for doing in self.doings)

    @cached_property
    def steps(self) -> tuple[Moment, ...]:
        """From one change to the next: somebody begins something, or a message comes."""
        last = self.milliseconds
        times = {doing.start for doing in self.doings}
        times |= {at for message in self.messages for at in (message.start, message.end) if 0 < at < last}
        apart = _SHORT_MS
        while len(bounds := _apart(sorted(times), apart, last)) > _MOST_MOMENTS:
            apart *= 2
        return tuple(Moment(number, *both) for number, both in enumerate(itertools.pairwise([*bounds, last])))

    def doing(self, rank: int, at: float) -> Doing | None:
        """Return what a worker does at a time; ``None`` before its first part and after its last."""
        mine = [doing for doing in self.doings if doing.rank == rank]
        begun = [doing for doing in mine if doing.start <= at]
        return begun[-1] if begun and at < mine[-1].end else None

    def under_way(self, at: float) -> list[tuple[Message, float]]:
        """Return the messages under way at a time, and how far each has come."""
        return [(message, gone) for message in self.messages if (gone := message.gone(at)) is not None]

    def awaited(self, doing: Doing) -> list[Message]:
        """Return the messages that a wait was for."""
        mine = [one for one in self.messages if one.receiver == doing.rank and one.place == doing.place]
        return [one for one in mine if one.when != "after"]

    @property
    def num_bytes(self) -> int:
        """Of all rows that workers used in the epoch."""
        return sum(message.num_bytes for message in self.messages if message.when != "after")

    def to_frame(self, step: Moment) -> DataFrame:
        """Return a line a worker: what it does, since and until when, and what is under way to it."""
        import pandas as pd

        lines = []
        for rank in range(self.parts.workers):
            doing = self.doing(rank, step.middle)
            coming = [message for message, _ in self.under_way(step.middle) if message.receiver == rank]
            lines.append(
                {
                    "does": doing.what if doing else "–",
                    "exchange": place_words(doing.place) if doing and doing.place else "–",
                    "since (ms)": doing.start if doing else float("nan"),
                    "until (ms)": doing.end if doing else float("nan"),
                    "rows under way to it": sum(message.num_rows for message in coming),
                    "bytes": sum(message.num_bytes for message in coming),
                }
            )
        return pd.DataFrame(lines, index=pd.Index([f"worker {rank}" for rank in range(len(lines))], name=step.name))


def _doings(own: DataFrame, begin: float) -> Iterator[Doing]:
    for row in own.sort_values(["start_s", "end_s"], kind="stable").to_dict("records"):
        yield Doing(int(row["rank"]), row["what"], _place(row), *_times(row, begin))


def _merged(doings: Iterable[Doing]) -> list[Doing]:
    found: list[Doing] = []
    for doing in doings:
        if found and (found[-1].what, found[-1].place) == (doing.what, doing.place):
            found[-1] = found[-1]._replace(end=doing.end)
        else:
            found.append(doing)
    return found


def _whole(doings: Sequence[Doing], record: Mapping[str, Any]) -> Iterator[Doing]:
    """Yield a worker's parts and what lay between them; at the end what is known by its length alone.

    Weight gradients are summed after the last part, or before messages that were held back for that.
    """
    held = _held_back(doings)
    for number, doing in enumerate(doings):
        yield doing
        if number + 1 == len(doings):
            break
        later = doings[number + 1]
        if later.start - doing.end > _GAP_MS:
            turn = (doing.place and doing.place.direction, later.place and later.place.direction)
            what = "reduce" if number + 1 == held else "loss" if turn == ("forward", "backward") else BETWEEN
            yield Doing(doing.rank, what, None, doing.end, later.start)
    end = doings[-1].end if doings else 0.0
    for what in ("reduce", "optimizer") if held is None else ("optimizer",):
        took = 1e3 * record.get(f"{what}_s", 0.0)
        if took > 0:
            yield Doing(doings[-1].rank, what, None, end, end + took)
            end += took


def _held_back(doings: Sequence[Doing]) -> int | None:
    """Return the number of the first part after which gradients are only written and sent; ``None`` if none is."""
    computed = [number for number, doing in enumerate(doings) if doing.what not in ("encode", "post")]
    first = computed[-1] + 1 if computed else 0
    return first if first < len(doings) else None


def _messages(some: DataFrame, traffic: DataFrame, epoch: int, begin: float) -> tuple[Message, ...]:
    """Join what the records say of each message with when it was posted and when it had come."""
    came = {
        (int(row["rank"]), int(row["peer"]), _place(row)): _times(row, begin)
        for row in some[some["what"] == "transfer"].to_dict("records")
    }
    posts = {
        (int(row["rank"]), _place(row)): _times(row, begin)[0]
        for row in some[some["what"] == "post"].to_dict("records")
    }
    found, left = [], set()
    for message in _recorded(traffic[traffic["epoch"] == epoch]):
        receiver, sender, place = message.receiver, message.sender, message.place
        # A GPU knows the last message of an exchange alone, and no sender.
        times = came.get((receiver, sender, place), came.get((receiver, -1, place)))
        if times is None:
            continue
        posted = posts.get((sender, place))
        if posted is not None and posted <= times[1]:
            found.append(replace(message, start=posted, end=times[1]))
            left.add((sender, place))
        else:
            found.append(replace(message, start=times[0], end=times[1], when="before"))
    for message in _recorded(traffic[traffic["epoch"] == epoch + 1]):
        key = (message.sender, message.place)
        if key in posts and key not in left:
            took = message.end  # milliseconds that the next epoch's records say
            found.append(replace(message, start=posts[key], end=posts[key] + took, when="after"))
    return tuple(sorted(found, key=lambda message: (message.start, message.sender, message.receiver)))


def _recorded(traffic: DataFrame) -> Iterator[Message]:
    """Yield the messages of an epoch with rows and bytes; as times they have their length alone."""
    columns = ["layer", "direction", "round", "sender", "receiver"]
    for (layer, direction, number, sender, receiver), rows in traffic.groupby(columns, sort=False):
        kinds = rows.groupby("bits")["rows"].sum()
        counts = tuple((int(bits), int(count)) for bits, count in kinds.items() if count)
        size = int(rows["payload_bytes"].sum() + rows["param_bytes"].sum())
        if counts:
            place, took = ExchangeKey(int(layer), direction, int(number)), 1e3 * float(rows["seconds"].max())
            yield Message(place, int(sender), int(receiver), counts, size, 0.0, took, "now")


def _place(row: Mapping[Any, Any]) -> ExchangeKey:
    return ExchangeKey(int(row["layer"]), row["direction"], int(row["round"]))


def _times(row: Mapping[Any, Any], begin: float) -> tuple[float, float]:
    return float(1e3 * (row["start_s"] - begin)), float(1e3 * (row["end_s"] - begin))


def _check_rows(parts: Parts, messages: Iterable[Message], run: Run) -> None:
    """Refuse a partition that has no room for what was sent: then another one was trained on."""
    routes = {
        (route.peer, shard.rank): route.num_rows for shard in parts.shards for route in shard.plan("forward").receive
    }
    for message in messages:
        pair = (message.sender, message.receiver)
        most = max(routes.get(pair, 0), routes.get(pair[::-1], 0))
        if message.num_rows > most:
            raise ValueError(
                f"the partition of run {run.id} must have the rows that travelled, got {message.num_rows} from worker "
                f"{pair[0]} to worker {pair[1]} and {most} in its cut; launch the run anew"
            )


def _apart(times: Sequence[float], apart: float, last: float) -> list[float]:
    """Return times of which any two lie apart."""
    found = [0.0]
    for time in times:
        if time - found[-1] > apart and last - time > apart:
            found.append(time)
    return found
