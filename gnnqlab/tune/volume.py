"""What travels in one epoch: the layouts that would be sent, asked of sampler, cache and codec.

Letters: P workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gnnqlab.bits.policy_preview import Place, Widths
from gnnqlab.bits.row import EXACT
from gnnqlab.message.caches.cache import Cache
from gnnqlab.message.codecs.codec import Float32
from gnnqlab.message.direction import of_direction
from gnnqlab.message.sampler import Sampler
from gnnqlab.systems.system import System
from gnnqlab.tune.offline_assigner import OfflineAssigner, as_asked
from gnnqlab.tune.traced import TracedMessage

__all__ = ["Volume", "cached_share", "volume"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Volume:
    """The messages of one epoch, all layers and both directions."""

    payload: dict[Place, Array]
    """Place -> bytes from worker to worker, ``(P, P)``; expected ones are no whole numbers."""
    params: dict[Place, Array]
    rows: dict[int, float]
    """Bit-width -> rows."""
    share: float
    """Rows that travel over those of a full exchange."""
    exact: float
    """Elements that travel as float32 over all that travel; 1 of none."""
    rounds: dict[Place, dict[int, Array]]
    """Place -> round -> payload and parameters from worker to worker, ``(P, P)``."""
    assumes: tuple[str, ...] = ()
    """What nobody can know before the training, in words."""

    @property
    def sent(self) -> dict[Place, Array]:
        """Place -> payload and parameters from worker to worker, ``(P, P)``."""
        return {place: self.payload[place] + self.params[place] for place in self.payload}

    @property
    def payload_bytes(self) -> float:
        return float(sum(sent.sum() for sent in self.payload.values()))

    @property
    def param_bytes(self) -> float:
        return float(sum(sent.sum() for sent in self.params.values()))


def volume(desk: OfflineAssigner, system: System, widths: Widths, epoch: int | None) -> Volume:
    """Return what the workers send each other in one epoch.

    Args:
        desk: of the trace whose messages they are.
        system: its sampler says which rows travel, its cache how many of them changed, its codec what they take.
        widths: of every row, whether it travels or not.
        epoch: whose sample; ``None``: the expected share of the rows.

    Raises:
        ValueError: if the cache cannot say what it expects.
    """
    cached = {way: cached_share(system.cache, way, epoch) for way in ("forward", "backward")}
    workers = desk.trace.workers
    payload = {place: np.zeros((workers, workers)) for place in widths}
    params = {place: np.zeros((workers, workers)) for place in widths}
    rounds: dict[Place, dict[int, Array]] = {place: {0: np.zeros((workers, workers))} for place in widths}
    rows: dict[int, float] = {}
    travelling = whole = elements = exact = 0.0
    for place, parts in widths.items():
        for message, bits in zip(desk.messages(place), parts, strict=True):
            kept, share = _sampled(system.sampler, message, bits, desk.trace.seed, epoch)
            share *= 1.0 if message.exact else cached[message.direction]
            codec = Float32() if message.exact else of_direction(system.codec, message.direction)
            layout = codec.layout(as_asked(kept), kept.numel(), message.columns)
            ends = message.sender, message.receiver
            kept_share, share = share, share * _fetches(system, message, desk.trace.attends)
            payload[place][ends] += share * layout.payload_bytes
            params[place][ends] += share * layout.param_bytes
            sent = rounds[place].setdefault(message.round, np.zeros((workers, workers)))
            sent[ends] += share * layout.num_bytes
            for each in layout.shares:
                rows[each.bits] = rows.get(each.bits, 0.0) + share * each.rows
            travelling, whole = travelling + kept_share * kept.numel(), whole + message.num_rows
            elements += share * kept.numel() * message.columns
            exact += share * layout.rows_of(EXACT) * message.columns
    return Volume(
        payload=payload,
        params=params,
        rounds=rounds,
        rows=dict(sorted((width, count) for width, count in rows.items() if count)),
        share=travelling / whole if whole else 1.0,
        exact=exact / elements if elements else 1.0,
        assumes=_assumed(system, epoch, min(cached.values())),
    )


def cached_share(cache: Cache, direction: str, epoch: int | None) -> float:
    """Return the share of rows of a direction that a cache expects to travel in an epoch."""
    return float(cache.share(direction, epoch))


def _fetches(system: System, message: TracedMessage, attends: frozenset[int]) -> int:
    """Return how often the rows of a message travel in an epoch."""
    again = message.direction == "forward" and message.layer in attends
    return system.schedule.attention_fetches if again else 1


def _sampled(
    sampler: Sampler, message: TracedMessage, bits: Tensor, seed: int, epoch: int | None
) -> tuple[Tensor, float]:
    """Return the widths of the rows to lay out, and what share of them is expected to travel."""
    if sampler.p >= 1.0:
        return bits, 1.0
    if epoch is None:
        return bits, 1.0 / sampler.rescale if sampler.rescale else 0.0
    return bits[sampler.kept(message.ids, holder=message.holder, seed=seed, epoch=epoch)], 1.0


def _assumed(system: System, epoch: int | None, cached: float) -> tuple[str, ...]:
    found = []
    if system.sampler.p < 1.0:
        if epoch is None:
            found.append(f"the expected share of the rows, {system.sampler.p:g}")
        found.append("no noise but that of rounding, as if every row travelled")
    if cached != 1.0:
        found.append(f"{cached:.3g} of the rows changed enough to travel")
    if assumed := system.cache.assumes:
        found.append(assumed)
    return tuple(found)
