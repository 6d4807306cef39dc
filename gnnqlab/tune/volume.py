"""Message volume of one epoch, from the layouts that sampler, cache and codec would send.

Letters: P workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gnnqlab.bits.policy_prediction import Place, Widths
from gnnqlab.bits.row import EXACT
from gnnqlab.message.caches.cache import Cache
from gnnqlab.message.codecs.codec import Float32
from gnnqlab.message.direction import of_direction
from gnnqlab.message.samplers import Sampler
from gnnqlab.systems.system import System
from gnnqlab.tune.offline_assigner import OfflineAssigner, to_codec_bits
from gnnqlab.tune.traced import TracedMessage

__all__ = ["Volume", "cached_share", "shared_bytes", "volume"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Volume:
    """Bytes and rows of one epoch, all layers and both directions."""

    payload: dict[Place, Array]
    """Place -> bytes from worker to worker, ``(P, P)``; expected values need not be whole numbers."""
    params: dict[Place, Array]
    """Place -> bytes of quantization parameters from worker to worker, ``(P, P)``."""
    rows: dict[int, float]
    """Bit-width -> rows."""
    share: float
    """Rows that are sent, relative to a full exchange."""
    exact: float
    """Elements that are sent as float32, relative to all that are sent; 1 if there are none."""
    shared: float
    """Bytes for state of the codec, such as bases, by all workers."""
    rounds: dict[Place, dict[int, Array]]
    """Place -> round -> bytes with quantization parameters from worker to worker, ``(P, P)``."""
    assumes: tuple[str, ...] = ()
    """Assumptions about facts that only a training can show, as text."""

    @property
    def sent_bytes(self) -> dict[Place, Array]:
        """Place -> bytes with quantization parameters from worker to worker, ``(P, P)``."""
        return {place: self.payload[place] + self.params[place] for place in self.payload}

    @property
    def payload_bytes(self) -> float:
        return float(sum(sent_bytes.sum() for sent_bytes in self.payload.values()))

    @property
    def param_bytes(self) -> float:
        return float(sum(sent_bytes.sum() for sent_bytes in self.params.values()))


def volume(assigner: OfflineAssigner, system: System, widths: Widths, epoch: int | None, *, hosts: int = 1) -> Volume:
    """Return the volume of all messages in one epoch.

    Args:
        assigner: offline assigner of the trace with the messages.
        system: its sampler chooses rows, its cache gives the expected share of changed rows, its codec their bytes.
        widths: bit-width of every row, sent or not.
        epoch: for the sample; ``None``: the expected share of the rows.
        hosts: number of hosts, for an exchange that sends rows once to each other host.

    Raises:
        ValueError: if the cache has no expected share.
    """
    sent_shares = {way: cached_share(system.cache, way, epoch) for way in ("forward", "backward")}
    workers = assigner.trace.workers
    payload = {place: np.zeros((workers, workers)) for place in widths}
    params = {place: np.zeros((workers, workers)) for place in widths}
    rounds: dict[Place, dict[int, Array]] = {place: {0: np.zeros((workers, workers))} for place in widths}
    rows: dict[int, float] = {}
    sent_rows = num_rows = elements = exact_elements = 0.0
    for place, parts in widths.items():
        messages = assigner.messages(place)
        ids = {(message.sender, message.receiver): message.ids for message in messages}
        relayed = system.exchange.relayed_rows(ids, workers, hosts) if place[1] == "forward" else {}
        for message, bits in zip(messages, parts, strict=True):
            sample, share = _sample(system.sampler, message, bits, assigner.trace.seed, epoch)
            share *= 1.0 if message.exact else sent_shares[message.direction]  # exact rows are never cached
            # Bytes from the layout of the sampled rows, times the expected share that a cache sends.
            codec = Float32() if message.exact else of_direction(system.codec, message.direction)
            layout = codec.layout(to_codec_bits(sample), sample.numel(), message.columns)
            ends = message.sender, message.receiver
            # Sequential attention sends the same rows more than once: that adds bytes, but no further rows.
            row_share, share = share, share * _fetches(system, message, assigner.trace.attention_layers)
            for pair, pair_rows in relayed.get(ends, {ends: message.num_rows}).items():
                part = pair_rows / message.num_rows if message.num_rows else 0.0
                payload[place][pair] += share * layout.payload_bytes * part
                params[place][pair] += share * layout.param_bytes * part
                round_ = message.round + (pair != ends)  # rows are passed on after the first transfer
                rounds[place].setdefault(round_, np.zeros((workers, workers)))[pair] += share * layout.num_bytes * part
            for width_share in layout.shares:
                rows[width_share.bits] = rows.get(width_share.bits, 0.0) + share * width_share.rows
            sent_rows, num_rows = sent_rows + row_share * sample.numel(), num_rows + message.num_rows
            # Shares for the timing: of rows for coding, of elements for float32.
            elements += share * sample.numel() * message.columns
            exact_elements += share * layout.rows_of(EXACT) * message.columns
    weight = assigner.trace.row_weight
    return Volume(
        payload={place: weight * amount for place, amount in payload.items()},
        params={place: weight * amount for place, amount in params.items()},
        rounds={place: {key: weight * each for key, each in amounts.items()} for place, amounts in rounds.items()},
        rows=dict(sorted((width, weight * count) for width, count in rows.items() if count)),
        share=sent_rows / num_rows if num_rows else 1.0,
        exact=exact_elements / elements if elements else 1.0,
        shared=shared_bytes(
            system,
            # D of each exchange key with codes; rows that are sent exactly have none
            [
                (place[1], columns)
                for place in widths
                for _, columns in {(each.round, each.columns) for each in assigner.messages(place) if not each.exact}
            ],
            workers,
            epoch,
        ),
        assumes=_assumptions(system, epoch, min(sent_shares.values())),
    )


def shared_bytes(system: System, columns: Sequence[tuple[str, int]], workers: int, epoch: int | None) -> float:
    """Return the bytes that all workers send in an epoch for state of a system's codec, not for messages.

    Args:
        system: with codec and bit policy.
        columns: direction and D of each exchange key.
        workers: P.
        epoch: number of the epoch; ``None``: a mean over typical epochs.
    """
    forward, backward = (of_direction(system.codec, way) for way in ("forward", "backward"))
    if forward is backward:  # one codec has one refresh of all keys, for the widths of both directions
        return float(forward.shared_bytes([count for _, count in columns], system.bits.choices, workers, epoch))
    return sum(
        float(codec.shared_bytes(
            [count for of, count in columns if of == way], of_direction(system.bits, way).choices, workers, epoch
        ))
        for way, codec in (("forward", forward), ("backward", backward))
    )  # fmt: skip


def cached_share(cache: Cache, direction: str, epoch: int | None) -> float:
    """Return the share of a direction's rows that a cache expects to send in an epoch."""
    return float(cache.share(direction, epoch))


def _fetches(system: System, message: TracedMessage, attention_layers: frozenset[int]) -> int:
    """Return the number of times that a message is sent in an epoch."""
    # SAR fetches rows of attention again in the backward pass.
    is_fetched_again = message.direction == "forward" and message.layer in attention_layers
    return system.schedule.attention_fetches if is_fetched_again else 1


def _sample(
    sampler: Sampler, message: TracedMessage, bits: Tensor, seed: int, epoch: int | None
) -> tuple[Tensor, float]:
    """Return the bit-widths of the rows to lay out, and the expected share of them that is sent."""
    if sampler.p >= 1.0:
        return bits, 1.0
    if epoch is None:
        # 1 / rescale is the exact probability, p rounded to the steps of the 16-bit draw.
        return bits, 1.0 / sampler.rescale if sampler.rescale else 0.0
    # The sample of a run in this epoch: it follows from the seed.
    return bits[sampler.sampled_positions(message.ids, holder=message.holder, seed=seed, epoch=epoch)], 1.0


def _assumptions(system: System, epoch: int | None, sent_share: float) -> tuple[str, ...]:
    assumptions = []
    if system.sampler.p == 0.0:
        assumptions.append("no rows in training, whose hidden edges are not in the noise")
    elif system.sampler.p < 1.0:
        if epoch is None:
            assumptions.append(f"the expected share of the rows, {system.sampler.p:g}")
        assumptions.append("no noise but that of rounding, as if every row were sent")
    if sent_share != 1.0:
        assumptions.append(f"{sent_share:.3g} of the rows changed enough to be sent")
    if system.partition.partition_every:
        assumptions.append("no seconds for changes of the partition")
    if assumption := system.cache.assumes:
        assumptions.append(assumption)
    return tuple(assumptions)
