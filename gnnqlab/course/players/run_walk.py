"""Recorded epoch of a launched run: activities of each worker and messages in transit, with their times."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from gnnqlab.lab.figures.theme import UNRECORDED
from gnnqlab.lab.training.critical_path import recorded_epoch
from gnnqlab.message.exchange_key import ExchangeKey

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts
    from gnnqlab.run.run import Run

__all__ = ["Activity", "WalkMessage", "Moment", "RunWalk", "place_words"]

_SHORT_MS = 2e-3
"""Times closer than this are merged: clocks are read one after another."""
_GAP_MS = 0.05
"""Shorter gaps between two activities are ignored."""
_MAX_MOMENTS = 400
"""Largest number of steps of the player; more are merged."""


class Activity(NamedTuple):
    """Activity of a worker over a span of time; consecutive parts of one kind and exchange are merged."""

    rank: int
    kind: str
    """One of ``timeline.WHATS``, ``between``, ``loss``, ``reduce`` or ``optimizer``."""
    place: ExchangeKey | None
    start: float
    """Milliseconds since the first activity of the epoch, like all times here."""
    end: float


@dataclass(frozen=True)
class WalkMessage:
    """Rows of one worker for another, from the sender's post to their arrival."""

    place: ExchangeKey
    sender: int
    receiver: int
    rows: tuple[tuple[int, int], ...]
    """Pairs of bit-width and number of rows, ascending."""
    num_bytes: int
    """Payload and quantization parameters."""
    start: float
    end: float
    timing: str
    """``now``: sent and received in this epoch; ``before``: sent one epoch ago; ``after``: received in the next one."""

    @property
    def num_rows(self) -> int:
        return sum(count for _, count in self.rows)

    def progress(self, time: float) -> float | None:
        """Return the fraction of its way covered at a time, in (0, 1); ``None`` if it is not in transit."""
        share = (time - self.start) / max(self.end - self.start, _SHORT_MS)
        return share if 0 < share < 1 else None


def place_words(place: ExchangeKey) -> str:
    """Return the name of an exchange; round 0 has no number.

    Example:
        >>> place_words(ExchangeKey(0, "forward")), place_words(ExchangeKey(1, "backward", 1))
        ('layer 1, forward', 'layer 2, backward, exchange 2')
    """
    return f"layer {place.layer + 1}, {place.direction}" + (f", exchange {place.round + 1}" if place.round else "")


class Moment(NamedTuple):
    """Step of the player: a span in which no worker changes its activity."""

    number: int
    """Number from 0."""
    start: float
    end: float

    @property
    def name(self) -> str:
        """Unique name of the step."""
        return f"{self.number + 1}, {self.start:.2f} ms"

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True, eq=False)
class RunWalk:
    """Recorded epoch of a run."""

    name: str
    """Id of the run."""
    system: str
    parts: Parts
    epoch: int
    activities: tuple[Activity, ...]
    """Activities by worker, then by time."""
    messages: tuple[WalkMessage, ...]
    """Messages in the order of sending."""
    facts: Mapping[str, float]
    """``loss`` of the epoch, and ``gradients``, bytes of weight gradients that one worker sends."""

    @classmethod
    def from_run(cls, run: Run, epoch: int | None = None) -> RunWalk:
        """Read an epoch of a run.

        Args:
            run: a run with a timeline, on at least two workers.
            epoch: a recorded epoch; by default the one of median length.

        Raises:
            ValueError: if nothing or not that epoch was recorded, the run has one worker, or its partition is not
                found.
        """
        workers = run.config.workers
        if workers < 2:
            raise ValueError(
                f"a played epoch needs workers that exchange rows, got run {run.id} on {workers} worker(s); "
                "launch one with workers=2"
            )
        timeline = run.timeline
        epoch = recorded_epoch(timeline, epoch)
        rows = timeline[timeline["epoch"] == epoch]  # activities and transfers of the epoch
        rows = rows.assign(round=rows["round"] if "round" in rows.columns else 0)  # older runs have no rounds
        activity_rows = rows[rows["what"] != "transfer"]  # activities only
        records = run.records
        # record of each worker in this epoch
        records_by_rank = records[records["epoch"] == epoch].set_index("rank").to_dict("index")
        start_s = activity_rows["start_s"].min()  # milliseconds count from here
        activities = [
            list(
                _fill_gaps(
                    _merge_activities(_activities(activity_rows[activity_rows["rank"] == rank], start_s)),
                    records_by_rank.get(rank, {}),
                )
            )
            for rank in range(workers)
        ]
        # the next epoch has the bytes of rows sent now
        messages = _messages(rows, run.read_traffic(epochs=[epoch, epoch + 1]), epoch, start_s)
        every = run.config.system.partition.partition_every
        parts = run.parts(epoch // every if every else 0)
        _check_rows(parts, messages, run)  # the cut may have changed since the run
        first_record = records_by_rank.get(0, {})
        facts = {
            "loss": first_record.get("loss", float("nan")),
            "gradients": first_record.get("bytes_gradients", float("nan")),
        }
        name = str(run.summary.get("system", ""))
        return cls(run.id, name, parts, epoch, tuple(itertools.chain(*activities)), messages, facts)

    @property
    def milliseconds(self) -> float:
        """Time from the first recorded activity to the last worker's weight update."""
        # Activities are sorted by worker, so the last one of the tuple need not be the latest.
        return max(activity.end for activity in self.activities)

    @cached_property
    def steps(self) -> tuple[Moment, ...]:
        """Steps between changes: an activity begins, or a message is sent or arrives."""
        end = self.milliseconds
        times = {activity.start for activity in self.activities}  # an activity begins
        # a message is sent or arrives
        times |= {time for message in self.messages for time in (message.start, message.end) if 0 < time < end}
        distance = _SHORT_MS
        while len(bounds := _spaced(sorted(times), distance, end)) > _MAX_MOMENTS:
            distance *= 2  # merge more changes until the player has few enough steps
        return tuple(Moment(number, *span) for number, span in enumerate(itertools.pairwise([*bounds, end])))

    def activity(self, rank: int, time: float) -> Activity | None:
        """Return the activity of a worker at a time; ``None`` before its first and after its last."""
        activities = [activity for activity in self.activities if activity.rank == rank]
        past_activities = [activity for activity in activities if activity.start <= time]  # started by then
        return past_activities[-1] if past_activities and time < activities[-1].end else None

    def messages_in_transit(self, time: float) -> list[tuple[WalkMessage, float]]:
        """Return the messages in transit at a time, with the fraction of the way that each has covered."""
        return [(message, fraction) for message in self.messages if (fraction := message.progress(time)) is not None]

    def awaited_messages(self, activity: Activity) -> list[WalkMessage]:
        """Return the messages that a worker receives in an exchange."""
        # Messages of the next epoch are sent here, but not awaited.
        messages = [
            message
            for message in self.messages
            if message.receiver == activity.rank and message.place == activity.place
        ]
        return [message for message in messages if message.timing != "after"]

    @property
    def num_bytes(self) -> int:
        """Bytes of all rows that workers used in the epoch."""
        return sum(message.num_bytes for message in self.messages if message.timing != "after")

    def to_frame(self, step: Moment) -> DataFrame:
        """Return one line per worker: its activity, start and end, and the messages in transit to it."""
        import pandas as pd

        lines = []
        for rank in range(self.parts.workers):
            activity = self.activity(rank, step.middle)
            messages = [message for message, _ in self.messages_in_transit(step.middle) if message.receiver == rank]
            lines.append(
                {
                    "does": activity.kind if activity else "–",
                    "exchange": place_words(activity.place) if activity and activity.place else "–",
                    "since (ms)": activity.start if activity else float("nan"),
                    "until (ms)": activity.end if activity else float("nan"),
                    "rows under way to it": sum(message.num_rows for message in messages),
                    "bytes": sum(message.num_bytes for message in messages),
                }
            )
        return pd.DataFrame(lines, index=pd.Index([f"worker {rank}" for rank in range(len(lines))], name=step.name))


def _activities(rows: DataFrame, start_s: float) -> Iterator[Activity]:
    for row in rows.sort_values(["start_s", "end_s"], kind="stable").to_dict("records"):
        yield Activity(int(row["rank"]), row["what"], _place(row), *_times(row, start_s))


def _merge_activities(activities: Iterable[Activity]) -> list[Activity]:
    spans: list[Activity] = []
    for activity in activities:
        if spans and (spans[-1].kind, spans[-1].place) == (activity.kind, activity.place):  # same kind and exchange
            spans[-1] = spans[-1]._replace(end=activity.end)
        else:
            spans.append(activity)
    return spans


def _fill_gaps(activities: Sequence[Activity], record: Mapping[str, Any]) -> Iterator[Activity]:
    """Yield a worker's activities, those in the gaps between them, and at the end those with a known duration only.

    The gradient all-reduce comes after the last activity, or before messages that were postponed until then.
    """
    index = _first_postponed(activities)  # index of the first postponed message
    for number, activity in enumerate(activities):
        yield activity
        if number + 1 == len(activities):
            break
        next_activity = activities[number + 1]
        if next_activity.start - activity.end > _GAP_MS:
            # Unrecorded time between forward and backward is the loss, elsewhere dense layers.
            turn = (activity.place and activity.place.direction, next_activity.place and next_activity.place.direction)
            kind = "reduce" if number + 1 == index else "loss" if turn == ("forward", "backward") else UNRECORDED
            yield Activity(activity.rank, kind, None, activity.end, next_activity.start)
    end = activities[-1].end if activities else 0.0
    for kind in ("reduce", "optimizer") if index is None else ("optimizer",):  # durations without a recorded start
        ms = 1e3 * record.get(f"{kind}_s", 0.0)  # seconds -> ms
        if ms > 0:
            yield Activity(activities[-1].rank, kind, None, end, end + ms)
            end += ms


def _first_postponed(activities: Sequence[Activity]) -> int | None:
    """Return the index of the first activity after which rows are only encoded and posted; ``None`` if none is."""
    # indices of all other activities
    other_numbers = [number for number, activity in enumerate(activities) if activity.kind not in ("encode", "post")]
    first_number = other_numbers[-1] + 1 if other_numbers else 0
    return first_number if first_number < len(activities) else None


def _messages(timeline_rows: DataFrame, traffic: DataFrame, epoch: int, start_s: float) -> tuple[WalkMessage, ...]:
    """Join the recorded traffic with the times of posts and arrivals on the timeline."""
    arrivals = {  # (receiver, sender, exchange) -> start and end of the transfer
        (int(row["rank"]), int(row["peer"]), _place(row)): _times(row, start_s)
        for row in timeline_rows[timeline_rows["what"] == "transfer"].to_dict("records")
    }
    posts = {  # (sender, exchange) -> time of the post
        (int(row["rank"]), _place(row)): _times(row, start_s)[0]
        for row in timeline_rows[timeline_rows["what"] == "post"].to_dict("records")
    }
    messages, sent_keys = [], set()
    for message in _recorded_messages(traffic[traffic["epoch"] == epoch]):
        receiver, sender, place = message.receiver, message.sender, message.place
        # On a GPU the timeline has only the last arrival of an exchange, without its sender (peer -1).
        times = arrivals.get((receiver, sender, place), arrivals.get((receiver, -1, place)))
        if times is None:
            continue
        post_time = posts.get((sender, place))
        if post_time is not None and post_time <= times[1]:
            messages.append(replace(message, start=post_time, end=times[1]))
            sent_keys.add((sender, place))
        else:  # posted after this arrival: the rows that arrived were sent in the epoch before
            messages.append(replace(message, start=times[0], end=times[1], timing="before"))
    for message in _recorded_messages(traffic[traffic["epoch"] == epoch + 1]):
        key = (message.sender, message.place)
        if key in posts and key not in sent_keys:
            duration = message.end  # milliseconds, from the records of the next epoch
            messages.append(replace(message, start=posts[key], end=posts[key] + duration, timing="after"))
    return tuple(sorted(messages, key=lambda message: (message.start, message.sender, message.receiver)))


def _recorded_messages(traffic: DataFrame) -> Iterator[WalkMessage]:
    """Yield the messages of an epoch with rows and bytes; ``start`` is 0 and ``end`` the duration."""
    columns = ["layer", "direction", "round", "sender", "receiver"]
    for (layer, direction, number, sender, receiver), rows in traffic.groupby(columns, sort=False):
        kinds = rows.groupby("bits")["rows"].sum()  # rows by bit-width
        counts = tuple((int(bits), int(count)) for bits, count in kinds.items() if count)
        size = int(rows["payload_bytes"].sum() + rows["param_bytes"].sum())  # bytes on the wire without the header
        if counts:
            place, duration = ExchangeKey(int(layer), direction, int(number)), 1e3 * float(rows["seconds"].max())
            yield WalkMessage(place, int(sender), int(receiver), counts, size, 0.0, duration, "now")


def _place(row: Mapping[Any, Any]) -> ExchangeKey:
    return ExchangeKey(int(row["layer"]), row["direction"], int(row["round"]))


def _times(row: Mapping[Any, Any], start_s: float) -> tuple[float, float]:
    return float(1e3 * (row["start_s"] - start_s)), float(1e3 * (row["end_s"] - start_s))  # seconds -> ms


def _check_rows(parts: Parts, messages: Iterable[WalkMessage], run: Run) -> None:
    """Raise ValueError if a message has more rows than the partition's plan: then the run used another partition."""
    routes = {  # rows of each pair in the forward pass
        (route.peer, shard.rank): route.num_rows for shard in parts.shards for route in shard.plan("forward").receive
    }
    for message in messages:
        # Backward, the same rows are sent in the opposite direction.
        pair = (message.sender, message.receiver)
        max_rows = max(routes.get(pair, 0), routes.get(pair[::-1], 0))
        if message.num_rows > max_rows:
            raise ValueError(
                f"the partition of run {run.id} must have all rows that were sent, got {message.num_rows} from worker "
                f"{pair[0]} to worker {pair[1]} and {max_rows} in its cut; launch the run again"
            )


def _spaced(times: Sequence[float], distance: float, end: float) -> list[float]:
    """Return 0 and those times that are more than a distance after the one before and before the last."""
    spaced_times = [0.0]
    for time in times:
        if time - spaced_times[-1] > distance and end - time > distance:
            spaced_times.append(time)
    return spaced_times
