"""A sentence for every step of an epoch, with the bytes and numbers of that epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players.epoch_walk import WAYS, EpochPart, EpochWalk
from gnnqlab.message.exchange_key import ExchangeKey

__all__ = ["TITLES", "say_step"]

TITLES = {
    "start": "Before the epoch",
    "encode": "Rows are written",
    "post": "Bytes set out",
    "wait": "Bytes are waited for",
    "decode": "Rows are read",
    "central": "Central rows",
    "marginal": "Marginal rows",
    "loss": "The loss",
    "reduce": "Weight gradients are summed",
    "update": "All weights move",
}
"""Title of each kind of step."""


def say_step(walk: EpochWalk, step: EpochPart) -> str:
    """Return what happens in a step, in words, with the numbers of the epoch."""
    if step.place is None:
        return _WITHOUT_PLACE[step.what](walk)
    words = _WITH_PLACE[step.what](walk, step.place)
    way = [flight for flight, _ in walk.under_way(step.cursor)] if step.what in ("central", "marginal") else []
    if way:
        old = any(walk.is_old(flight.rows.place) for flight in way)
        where = "of messages have left and are not used yet" if old else "are under way"
        words += f" Meanwhile {_bytes(sum(flight.rows.num_bytes for flight in way))} {where}."
    return f"Layer {step.place.layer + 1}, {step.place.direction}. {words}"


def _start(walk: EpochWalk) -> str:
    facts, parts = walk.facts, walk.parts
    rows = sum(shard.halo.numel() for shard in parts.shards)
    return (
        f"{parts.graph.num_nodes} nodes on {parts.workers} workers, epoch {facts.epoch}: every worker has the same "
        f"{facts.num_parameters} weights, and copies of {rows} rows of others have to be filled in every layer. "
        f"{WAYS[walk.way].about}"
    )


def _encode(walk: EpochWalk, place: ExchangeKey) -> str:
    what = "rows" if place.direction == "forward" else "gradients of the copies"
    told = []
    for rows in walk.sent(place):
        if not rows.nodes:
            told.append(f"worker {rows.sender} sends nothing: none of its {rows.offered} rows has moved enough")
            continue
        bits = " and ".join(human_bits(width) for width in sorted(set(rows.bits)))
        home = f" ({rows.offered - len(rows.nodes)} stay home)" if rows.offered > len(rows.nodes) else ""
        told.append(
            f"worker {rows.sender} writes {what} of {_nodes(rows.nodes)}{home} for worker {rows.receiver}: "
            f"{len(rows.nodes)} × {rows.columns} numbers in {bits}, {_bytes(rows.num_bytes)}"
        )
    return _sentence("; ".join(told))


def _post(walk: EpochWalk, place: ExchangeKey) -> str:
    total = sum(rows.num_bytes for rows in walk.sent(place))
    if not total:
        return "Nothing sets out."
    if walk.is_old(place):
        return f"{_bytes(total)} set out, to be used in the next epoch."
    return f"{_bytes(total)} set out along the cut edges, a row once however many edges need it."


def _wait(walk: EpochWalk, place: ExchangeKey) -> str:
    if walk.is_old(place):
        return "The rows that are needed left in the epoch before: they are here, and nobody waits."
    if not any(rows.nodes for rows in walk.sent(place)):
        return "Nothing travels, and nobody waits."
    meanwhile = walk.way == "overlapped"
    return "What is still under way is waited for." if meanwhile else "Nothing else is done until the bytes are there."


def _decode(walk: EpochWalk, place: ExchangeKey) -> str:
    age = " They are one epoch old." if walk.is_old(place) else ""
    if place.direction == "backward":
        return f"The gradients are home: each is added to that of its node.{age}"
    kept = " What did not travel is as it was." if any(r.offered > len(r.nodes) for r in walk.sent(place)) else ""
    return f"The copies are filled with what came.{kept}{age}"


def _central(walk: EpochWalk, place: ExchangeKey) -> str:
    nodes = _by_worker(walk, "central")
    if place.direction == "backward":
        return "Every worker computes the gradients of its own rows, for which it needs no other."
    return f"Neighbours are summed where all of them are at home, so no message is needed: {nodes}."


def _marginal(walk: EpochWalk, place: ExchangeKey) -> str:
    if place.direction == "backward":
        return f"First the gradients of the copies, since they have to travel: {_by_worker(walk, 'halo')}."
    return f"Nodes with a neighbour elsewhere sum too, with the copies: {_by_worker(walk, 'marginal')}."


def _loss(walk: EpochWalk) -> str:
    shares = " + ".join(f"{share:.4f} of worker {rank}" for rank, share in enumerate(walk.facts.losses))
    return f"Each worker compares its training nodes with their labels: loss {walk.facts.loss:.4f} = {shares}."


def _reduce(walk: EpochWalk) -> str:
    facts = walk.facts
    lengths = " and ".join(f"{length:.4f}" for length in facts.gradients)
    return (
        f"Every worker has a gradient for each of the {facts.num_parameters} weights "
        f"({_bytes(4 * facts.num_parameters)}, always in 32 bits), of lengths {lengths}. All add theirs "
        f"up (all-reduce): the sum has length {facts.gradient:.4f}."
    )


def _update(walk: EpochWalk) -> str:
    facts = walk.facts
    return (
        f"Adam moves the weights by a step of length {facts.moved:.4f}, on every worker the same. The next epoch's "
        f"loss is {facts.next_loss:.4f}, this one's was {facts.loss:.4f}; {_bytes(walk.num_bytes)} of rows travelled."
    )


_WITHOUT_PLACE: dict[str, Callable[[EpochWalk], str]] = {
    "start": _start, "loss": _loss, "reduce": _reduce, "update": _update,
}  # fmt: skip
_WITH_PLACE: dict[str, Callable[[EpochWalk, ExchangeKey], str]] = {
    "encode": _encode, "post": _post, "wait": _wait, "decode": _decode, "central": _central, "marginal": _marginal,
}  # fmt: skip


def _by_worker(walk: EpochWalk, kind: str) -> str:
    all_of = [walk.nodes(rank, kind) for rank in range(walk.parts.workers)]
    return "; ".join(f"{_nodes(nodes)} on worker {rank}" for rank, nodes in enumerate(all_of) if nodes)


def _nodes(nodes: Sequence[int]) -> str:
    *most, last = map(str, nodes)
    return f"node {last}" if not most else f"nodes {', '.join(most)} and {last}"


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
