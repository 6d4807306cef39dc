"""What training's own messages took, as samples for the cost model ``seconds = θ · bytes + γ`` of each pair.

A message is on the wire from the moment when *both* ends have posted until it has wholly come. A receiver that was
early has waited for a late sender, not for the wire, so its waiting does not count: the sender's post is taken from
the sender's own clock.

With everything posted at once, the messages of one sender share its link, those for one receiver share that one's, and
each of them seems to take as long as all of them together. So they do take that long *together*: a message is charged
its share, by bytes, of the time until the last of them had come, at the end that has more to do by what is known of the
links; the other end was waiting for it. The shares at a busy end add up to what it was busy for, which is what
``theory.cost.all_at_once_s`` sums. With two workers a share is the whole.

Letters: P workers, E epochs since samples were last taken.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from gnnqlab.theory.cost import LinkCost

__all__ = ["LinkSample", "Transfers", "Witnessed", "clock_offsets", "machine", "refreshed", "samples"]

Place = tuple[int, str]
"""(layer, direction)."""
Array = NDArray[np.float64]

_ROUND_TRIPS = 8
_KEEP = 0.05
"""What earlier timings still count when training's own transfers refresh the cost model: little, because relative
errors are fitted, so that the small seconds of a quiet link would outvote those of a busy one; but not nothing, because
messages of training may all be of one size, and a line needs two."""


class _Sized(Protocol):
    @property
    def num_bytes(self) -> int: ...


class LinkSample(Protocol):
    """One message as its receiver saw it; ``message.incoming.LinkSample`` is one."""

    @property
    def layer(self) -> int: ...
    @property
    def direction(self) -> str: ...
    @property
    def sender(self) -> int: ...
    @property
    def layout(self) -> _Sized: ...
    @property
    def seconds(self) -> float: ...
    @property
    def posted(self) -> float: ...


@dataclass(frozen=True, eq=False)
class Witnessed:
    """What one worker saw of the exchanges since samples were last taken; plain arrays, to be shared."""

    posted: dict[Place, Array] = field(default_factory=dict)
    """When this worker posted each exchange, ``(E,)``, by its own clock."""
    came: dict[tuple[Place, int], Array] = field(default_factory=dict)
    """(place, sender) -> bytes of its messages, and when each had come, ``(E, 2)``; 0 bytes: there was none."""


class Transfers:
    """Collects the arrivals of one worker, epoch by epoch.

    Args:
        most: epochs to keep at most; the oldest are forgotten.
    """

    def __init__(self, most: int = 100) -> None:
        self._most = most
        self._posted: dict[Place, list[float]] = defaultdict(list)
        self._came: dict[tuple[Place, int], list[tuple[float, float]]] = defaultdict(list)

    def observe(self, arrivals: Iterable[LinkSample]) -> None:
        """Take what one epoch brought, evaluation left out."""
        seen = set()
        for one in arrivals:
            place = (one.layer, one.direction)
            if place not in seen:
                seen.add(place)
                self._posted[place].append(one.posted)
            size = float(one.layout.num_bytes) if one.seconds > 0 else 0.0
            self._came[place, one.sender].append((size, one.posted + one.seconds))

    def take(self) -> Witnessed:
        """Return what was seen, and begin anew."""
        taken = Witnessed(
            {place: np.array(times[-self._most :]) for place, times in self._posted.items()},
            {key: np.array(messages[-self._most :]) for key, messages in self._came.items()},
        )
        self._posted.clear()
        self._came.clear()
        return taken


def samples(
    witnessed: Sequence[Witnessed],
    offsets_s: Sequence[float] | None = None,
    *,
    theta_s_per_byte: Array | None = None,
) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """Return (sender, receiver) -> ``(bytes, seconds)`` of training's messages, as the cost model takes them.

    Args:
        witnessed: what each worker saw, in rank order.
        offsets_s: what to add to each worker's clock, ``(P,)``; nothing on one machine.
        theta_s_per_byte: what is known of every pair, ``(P, P)``; all alike by default.

    Example:
        >>> posted = {(0, "forward"): np.array([1.0])}
        >>> early = Witnessed(posted, {((0, "forward"), 1): np.array([[100.0, 4.0]])})
        >>> late = Witnessed({(0, "forward"): np.array([3.0])}, {((0, "forward"), 0): np.array([[50.0, 3.5]])})
        >>> samples([early, late])  # worker 0 came two seconds too early, which is nothing that the wire took
        {(0, 1): [(50, 0.5)], (1, 0): [(100, 1.0)]}
    """
    workers = len(witnessed)
    offsets = np.zeros(workers) if offsets_s is None else np.asarray(offsets_s, dtype=np.float64)
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    places = sorted({place for one in witnessed for place in one.posted})
    for place in places:
        if any(place not in one.posted for one in witnessed):
            continue
        epochs = min(one.posted[place].size for one in witnessed)
        posted = np.stack(
            [one.posted[place][-epochs:] + offset for one, offset in zip(witnessed, offsets, strict=True)]
        )
        sizes, took = _exchanges(place, epochs, witnessed, posted, offsets)
        charged = _charged(sizes, took, np.ones((workers, workers)) if theta_s_per_byte is None else theta_s_per_byte)
        for sender in range(workers):
            for receiver, seen in enumerate(witnessed):
                if (place, sender) in seen.came:
                    size, seconds = sizes[sender, receiver], charged[sender, receiver]
                    good = (size > 0) & (seconds > 0)
                    pairs = zip(size[good].astype(int).tolist(), seconds[good].tolist(), strict=True)
                    found.setdefault((sender, receiver), []).extend(pairs)
    return found


def _exchanges(
    place: Place, epochs: int, witnessed: Sequence[Witnessed], posted: Array, offsets: Array
) -> tuple[Array, Array]:
    """Return bytes, and seconds from the later post to the arrival, of every message of a place, ``(P, P, E)``."""
    workers = len(witnessed)
    sizes, took = np.zeros((workers, workers, epochs)), np.zeros((workers, workers, epochs))
    for receiver, seen in enumerate(witnessed):
        for sender in range(workers):
            if (place, sender) in seen.came:
                size, came = seen.came[place, sender][-epochs:].T
                waited = came + offsets[receiver] - np.maximum(posted[receiver], posted[sender])
                sizes[sender, receiver], took[sender, receiver] = size, np.where(size > 0, waited, 0.0)
    return sizes, took


def _charged(sizes: Array, took: Array, theta_s_per_byte: Array) -> Array:
    """Return the share of each message in what the busier of its ends was busy for, ``(P, P, E)``.

    It is never more than the message itself took: a quick sender does not become slow by another one's message.
    """
    shares, load = [], []
    for other_ends in (1, 0):  # of a sender its receivers, and the other way round
        through = sizes.sum(axis=other_ends, keepdims=True)
        together = took.max(axis=other_ends, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares.append(together * sizes / through)
        load.append((theta_s_per_byte[:, :, None] * sizes).sum(axis=other_ends, keepdims=True))
    return np.minimum(np.where(load[0] >= load[1], *shares), took)


def refreshed(
    cost: LinkCost, taken: Mapping[tuple[int, int], Sequence[tuple[int, float]]]
) -> tuple[LinkCost, NDArray[np.bool_]]:
    """Fit the cost model again with training's own transfers.

    A pair keeps its line where the new one would explain the transfers worse than their mean does (R² < 0): on a busy
    machine they may tell of waiting for a processor, and nothing of the link. What was seen still enters the next fit.

    Args:
        cost: the model so far.
        taken: (sender, receiver) -> ``(bytes, seconds)``, see :func:`samples`.

    Returns:
        The model, and which pairs have a new line, ``(P, P)``.
    """
    fresh = cost.updated(taken, keep=_KEEP)
    changed: NDArray[np.bool_] = (fresh.moments != cost.moments).any(axis=(2, 3)) & (fresh.r_squared >= 0)
    merged = {
        name: np.where(changed, getattr(fresh, name), getattr(cost, name))
        for name in ("theta_s_per_byte", "gamma_s", "r_squared")
    }
    return replace(fresh, **merged), changed


def machine() -> str:
    """Name what a monotonic clock is good for: this boot of this machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def clock_offsets(
    rank: int, machines: Sequence[str], group: dist.ProcessGroup | None = None, *, seconds: float = 0.0
) -> list[float]:
    """Return what to add to each worker's clock to get rank 0's; every worker must call this together.

    Workers of one machine share a clock. For another machine the quickest of several round trips to one of its
    workers counts: its clock is read half a round trip after the question.

    Args:
        rank: this worker.
        machines: the machine of each worker, ``(P,)``.
        group: process group of the round trips.
        seconds: added to this worker's clock, to try it out.
    """
    first = {name: machines.index(name) for name in reversed(machines)}
    found = torch.zeros(len(machines), dtype=torch.float64)
    for peer in sorted(set(first.values()) - {0}):
        question, answer = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        quickest = float("inf")
        for _ in range(_ROUND_TRIPS):
            if rank == 0:
                asked = time.perf_counter() + seconds
                dist.send(question, peer, group=group)
                dist.recv(answer, peer, group=group)
                round_trip = time.perf_counter() + seconds - asked
                if round_trip < quickest:
                    quickest, found[peer] = round_trip, asked + round_trip / 2 - float(answer)
            elif rank == peer:
                dist.recv(question, 0, group=group)
                answer[0] = time.perf_counter() + seconds
                dist.send(answer, 0, group=group)
    if len(first) > 1:
        dist.broadcast(found, 0, group=group)
    return [float(found[first[name]]) for name in machines]
