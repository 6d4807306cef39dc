"""Descriptions of the steps of a run's epoch: activities of workers, awaited messages, messages in transit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players.run_walk import Activity, Moment, RunWalk, WalkMessage, place_words
from gnnqlab.units import human_bytes

__all__ = ["run_title", "say_message", "say_run_step"]

# Kind of activity -> words, in the forward and in the backward pass.
_FORWARD = {
    "post": "sending rows",
    "central": "aggregating central nodes, which need no message",
    "marginal": "aggregating marginal nodes, with the halo copies",
}
_BACKWARD = {
    "post": "sending gradients to their owners",
    "central": "computing gradients of own rows",
    "marginal": "computing gradients of halo copies, which must be sent",
}
# Activities without an exchange.
_WITHOUT_PLACE = {
    "between": "between two exchanges, in dense layers",
    "loss": "computing the loss, and starting the backward pass",
    "optimizer": "updating the weights",
}
_NAMED = 4
"""Largest number of messages listed in a description."""


def run_title(walk: RunWalk, step: Moment) -> str:
    """Return a step's number, time and exchanges."""
    activities = [walk.activity(rank, step.middle) for rank in range(walk.parts.workers)]
    # distinct exchanges in the order of workers
    places = list(dict.fromkeys(place_words(activity.place) for activity in activities if activity and activity.place))
    if not places:
        kinds = sorted({activity.kind for activity in activities if activity and activity.place is None})
        places = [_TITLES.get(kind, kind) for kind in kinds]
    return f"{step.number + 1} · {step.start:.2f} ms · {' | '.join(places[:2])}"


_TITLES = {"between": "dense layers", "loss": "the loss", "reduce": "all-reduce of weight gradients"}


def say_run_step(walk: RunWalk, step: Moment) -> str:
    """Describe a step in words, with the numbers of the run."""
    time = step.middle
    ranks_by_words: dict[str, list[int]] = defaultdict(list)  # workers with the same activity share a sentence
    for rank in range(walk.parts.workers):
        activity = walk.activity(rank, time)
        ranks_by_words[_say(walk, activity, rank, time)].append(rank)
    sentences = [
        f"{_workers(ranks)} {'is' if len(ranks) == 1 else 'are'} {words}." for words, ranks in ranks_by_words.items()
    ]
    way = walk.messages_in_transit(time)
    if way:
        size = human_bytes(sum(message.num_bytes for message, _ in way))
        descriptions = "; ".join(say_message(message) for message, _ in way[:_NAMED])
        rest_text = f"; and {len(way) - _NAMED} more" if len(way) > _NAMED else ""
        sentences.append(f"In transit, {size}: {descriptions}{rest_text}.")
    time_text = f"{step.start:.2f} to {step.end:.2f} ms of {walk.milliseconds:.1f} in epoch {walk.epoch}."
    return " ".join([time_text, *sentences])


def say_message(message: WalkMessage) -> str:
    """Describe a message: number of rows, bit-widths, layer, sender and receiver."""
    kinds = [f"{count:,} in {human_bits(bits)}" for bits, count in message.rows]
    noun = "row" if message.place.direction == "forward" else "gradient"
    rows = f"{message.num_rows:,} {noun}{'s' * (message.num_rows > 1)}"
    detail = f"{rows} in {kinds[0].partition(' in ')[2]}" if len(kinds) == 1 else f"{rows} ({', '.join(kinds)})"
    timing_text = {"before": ", sent an epoch ago", "after": ", for the next epoch", "now": ""}[message.timing]
    return f"{detail}, layer {message.place.layer + 1}, from {message.sender} to {message.receiver}{timing_text}"


def _say(walk: RunWalk, activity: Activity | None, rank: int, time: float) -> str:
    if activity is None:
        return "before its first exchange" if time < walk.milliseconds / 2 else "done"
    if activity.place is None:
        if activity.kind == "reduce":
            size = walk.facts["gradients"]
            size_text = f" ({human_bytes(size)})" if size == size else ""  # NaN if the bytes were not recorded
            return f"summing weight gradients with all others{size_text}"
        return _WITHOUT_PLACE.get(activity.kind, activity.kind)
    forward = activity.place.direction == "forward"
    rows = "rows" if forward else "gradients"
    if activity.kind == "encode":
        num_sent = sum(  # messages of the epoch before are received, not sent
            m.num_rows for m in walk.messages if (m.sender, m.place) == (rank, activity.place) and m.timing != "before"
        )
        words = f"encoding {num_sent:,} {rows} {'that others need' if forward else 'of halo copies'}"
    elif activity.kind == "decode":
        num_received = sum(message.num_rows for message in walk.awaited_messages(activity))
        words = f"decoding {num_received:,} halo rows" if forward else f"adding {num_received:,} received gradients"
    elif activity.kind == "wait":
        words = _say_wait(walk.awaited_messages(activity), rows, time)
    else:
        words = (_FORWARD if forward else _BACKWARD).get(activity.kind, activity.kind)
    return f"{words} ({place_words(activity.place)})"


def _say_wait(messages: Sequence[WalkMessage], rows: str, time: float) -> str:
    late_messages = [message for message in messages if message.end > time]  # not yet arrived
    if late_messages:
        senders = sorted({message.sender for message in late_messages})
        return (
            f"waiting for {sum(message.num_rows for message in late_messages):,} {rows} of {_workers(senders).lower()}"
        )
    if any(message.timing == "before" for message in messages):
        return f"not waiting: the {rows} were sent an epoch ago and have arrived"
    return f"at the end of its wait: all {rows} have arrived"


def _workers(ranks: Sequence[int]) -> str:
    *other_ranks, last_rank = map(str, ranks)
    return f"Workers {', '.join(other_ranks)} and {last_rank}" if other_ranks else f"Worker {last_rank}"
