"""Descriptions of the steps of an epoch, with the bytes and numbers of that epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players.epoch_walk import WAYS, EpochStep, EpochWalk
from gnnqlab.message.exchange_key import ExchangeKey

__all__ = ["TITLES", "compare_length", "say_step"]

TITLES = {
    "start": "Before the epoch",
    "encode": "Rows are encoded",
    "post": "Messages are sent",
    "wait": "Waiting for messages",
    "decode": "Rows are decoded",
    "central": "Central nodes",
    "marginal": "Marginal nodes",
    "loss": "The loss",
    "reduce": "All-reduce of weight gradients",
    "update": "Weight update",
}
"""Kind of step -> title."""


def say_step(walk: EpochWalk, step: EpochStep) -> str:
    """Describe a step in words, with the numbers of the epoch."""
    if step.place is None:
        return _WITHOUT_PLACE[step.activity](walk)
    words = _WITH_PLACE[step.activity](walk, step.place)
    # messages in transit while the worker computes
    way = (
        [flight for flight, _ in walk.messages_in_transit(step.cursor)]
        if step.activity in ("central", "marginal")
        else []
    )
    if way:
        is_stale = any(walk.is_stale(flight.rows.place) for flight in way)  # stale rows are used one epoch later
        transit_text = "of messages are in transit, for the next epoch" if is_stale else "are in transit"
        words += f" Meanwhile {_bytes(sum(flight.rows.num_bytes for flight in way))} {transit_text}."
    return f"Layer {step.place.layer + 1}, {step.place.direction}. {words}"


def compare_length(walk: EpochWalk) -> str:
    """Compare the modelled length of the epoch with Vanilla's: ``18 % sooner``; empty for Vanilla itself."""
    if walk.vanilla is None or walk.way == "vanilla":
        return ""
    share = 1 - walk.length / walk.vanilla.length  # of Vanilla's time
    return f"{abs(share):.0%}".replace("%", "\u00a0% ") + ("sooner" if share >= 0 else "later")


def _start(walk: EpochWalk) -> str:
    facts, parts = walk.facts, walk.parts
    rows = sum(shard.halo.numel() for shard in parts.shards)  # halo rows of all workers
    return (
        f"{parts.graph.num_nodes} nodes on {parts.workers} workers, epoch {facts.epoch}: every worker has the same "
        f"{facts.num_parameters} weights, and {rows} halo rows must be received in every layer. "
        f"{WAYS[walk.way].about}"
    )


def _encode(walk: EpochWalk, place: ExchangeKey) -> str:
    noun = "rows" if place.direction == "forward" else "gradients of the halo copies"
    clauses = []
    # A message may be empty if a cache skips all of its rows.
    for rows in walk.messages_of(place):
        if not rows.nodes:
            clauses.append(f"worker {rows.sender} sends nothing: none of its {rows.offered} rows has changed enough")
            continue
        bits = " and ".join(human_bits(width) for width in sorted(set(rows.bits)))
        skipped_text = f" ({rows.offered - len(rows.nodes)} skipped)" if rows.offered > len(rows.nodes) else ""
        clauses.append(
            f"worker {rows.sender} encodes {noun} of {_nodes(rows.nodes)}{skipped_text} for worker {rows.receiver}: "
            f"{len(rows.nodes)} × {rows.columns} elements in {bits}, {_bytes(rows.num_bytes)}"
        )
    return _sentence("; ".join(clauses))


def _post(walk: EpochWalk, place: ExchangeKey) -> str:
    total = sum(rows.num_bytes for rows in walk.messages_of(place))  # bytes of all messages of the exchange
    if not total:
        return "Nothing is sent."
    if walk.is_stale(place):
        return f"{_bytes(total)} are sent, to be used in the next epoch."
    return f"{_bytes(total)} are sent along the cut edges, each row once per receiver, for any number of edges."


def _wait(walk: EpochWalk, place: ExchangeKey) -> str:
    if walk.is_stale(place):
        return "The rows needed now were sent in the epoch before and have arrived: no worker waits."
    if not any(rows.nodes for rows in walk.messages_of(place)):
        return "Nothing is sent, and no worker waits."
    is_overlapped = walk.way == "overlapped"
    return (
        "Workers wait for the messages still in transit."
        if is_overlapped
        else "Workers are idle until messages arrive."
    )


def _decode(walk: EpochWalk, place: ExchangeKey) -> str:
    age = " They are one epoch old." if walk.is_stale(place) else ""
    if place.direction == "backward":
        return f"The gradients are back at their owners: each is added to that of its node.{age}"
    cache_text = (
        " Skipped rows keep the cached copy." if any(r.offered > len(r.nodes) for r in walk.messages_of(place)) else ""
    )
    return f"The halo copies are filled with the decoded rows.{cache_text}{age}"


def _central(walk: EpochWalk, place: ExchangeKey) -> str:
    nodes = _by_worker(walk, "central")
    if place.direction == "backward":
        return "Every worker computes the gradients of its own rows, which need no message."
    return f"Nodes whose neighbours are all on their worker are aggregated, without any message: {nodes}."


def _marginal(walk: EpochWalk, place: ExchangeKey) -> str:
    if place.direction == "backward":
        return f"The gradients of the halo copies come first, since they must be sent: {_by_worker(walk, 'halo')}."
    return f"Nodes with a remote neighbour are aggregated, with the halo copies: {_by_worker(walk, 'marginal')}."


def _loss(walk: EpochWalk) -> str:
    # shares of the loss add up
    shares = " + ".join(f"{share:.4f} of worker {rank}" for rank, share in enumerate(walk.facts.losses))
    return f"Each worker compares its training nodes with their labels: loss {walk.facts.loss:.4f} = {shares}."


def _reduce(walk: EpochWalk) -> str:
    facts = walk.facts
    lengths = " and ".join(f"{length:.4f}" for length in facts.gradients)
    return (
        f"Every worker has a gradient for each of the {facts.num_parameters} weights "
        # float32: four bytes per weight
        f"({_bytes(4 * facts.num_parameters)}, always in 32 bits), of norms {lengths}. An all-reduce sums "
        f"them: the sum has norm {facts.gradient:.4f}. Every way takes as long for it, so it is drawn short."
    )


def _update(walk: EpochWalk) -> str:
    facts = walk.facts
    return (
        f"Adam updates the weights by a step of norm {facts.update_norm:.4f}, identical on every worker. The next "
        f"epoch's loss is {facts.next_loss:.4f}, this one's was {facts.loss:.4f}; {_bytes(walk.num_bytes)} of "
        f"rows were sent. In the model the epoch takes {_microseconds(walk)}."
    )


# Steps of the whole epoch, and steps of one exchange.
_WITHOUT_PLACE: dict[str, Callable[[EpochWalk], str]] = {
    "start": _start, "loss": _loss, "reduce": _reduce, "update": _update,
}  # fmt: skip
_WITH_PLACE: dict[str, Callable[[EpochWalk, ExchangeKey], str]] = {
    "encode": _encode, "post": _post, "wait": _wait, "decode": _decode, "central": _central, "marginal": _marginal,
}  # fmt: skip


def _microseconds(walk: EpochWalk) -> str:
    comparison = compare_length(walk)
    return f"{walk.length:.0f} µs" + (f", {comparison} than Vanilla" if comparison else "")


def _by_worker(walk: EpochWalk, kind: str) -> str:
    nodes_by_rank = [walk.nodes(rank, kind) for rank in range(walk.parts.workers)]
    return "; ".join(f"{_nodes(nodes)} on worker {rank}" for rank, nodes in enumerate(nodes_by_rank) if nodes)


def _nodes(nodes: Sequence[int]) -> str:
    *other_nodes, last_node = map(str, nodes)
    return f"node {last_node}" if not other_nodes else f"nodes {', '.join(other_nodes)} and {last_node}"


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
