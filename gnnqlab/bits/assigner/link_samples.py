"""Transfer times of training's own messages, as samples for the cost model ``seconds = θ · bytes + γ`` of each pair.

A message is on the wire from the moment when *both* ends have posted until it is complete. A receiver that posts early
waits for a late sender, not for the wire, so this wait does not count: the time of the sender's post comes from the
sender's clock.

If everything is posted at once, the messages of one sender share its link, those to one receiver share the receiver's,
and each seems to take as long as all of them together. So a message is charged its share, by bytes, of the time until
the last of them is complete, at the end with more work according to the current cost model; the other end was waiting.
The shares at a busy end sum to its busy time, which is what ``theory.cost.all_at_once_s`` computes. With two workers a
message is charged its full time.

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
"""Weight of earlier timings when training's own transfers refresh the cost model. Small, because relative errors are
fitted, so that the short times of an idle link would outweigh those of a busy one; not zero, because all messages of a
training may have one size, and a line needs two."""


class _Sized(Protocol):
    @property
    def num_bytes(self) -> int: ...


class LinkSample(Protocol):
    """One message as recorded by its receiver, such as ``message.incoming.LinkSample``."""

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
    """Exchanges that one worker recorded since samples were last taken; plain arrays, gathered by all workers."""

    posted: dict[Place, Array] = field(default_factory=dict)
    """Time at which this worker posted each exchange, by its own clock, ``(E,)``."""
    completions: dict[tuple[Place, int], Array] = field(default_factory=dict)
    """(place, sender) -> bytes and time of completion of its messages, ``(E, 2)``; 0 bytes: no message."""


class Transfers:
    """Recorder of one worker's arrivals, epoch by epoch.

    Args:
        most: limit of epochs; the oldest are dropped.
    """

    def __init__(self, most: int = 100) -> None:
        self._most = most
        self._posted: dict[Place, list[float]] = defaultdict(list)
        self._completed: dict[tuple[Place, int], list[tuple[float, float]]] = defaultdict(list)

    def observe(self, arrivals: Iterable[LinkSample]) -> None:
        """Record the arrivals of one training epoch, without evaluation."""
        places = set()
        for arrival in arrivals:
            place = (arrival.layer, arrival.direction)
            if place not in places:
                places.add(place)
                self._posted[place].append(arrival.posted)
            # An entry for every epoch, also without bytes, so that epochs of all workers stay aligned.
            size = float(arrival.layout.num_bytes) if arrival.seconds > 0 else 0.0
            self._completed[place, arrival.sender].append((size, arrival.posted + arrival.seconds))

    def take(self) -> Witnessed:
        """Return the records and clear them."""
        records = Witnessed(
            {place: np.array(times[-self._most :]) for place, times in self._posted.items()},
            {key: np.array(messages[-self._most :]) for key, messages in self._completed.items()},
        )
        self._posted.clear()
        self._completed.clear()
        return records


def samples(
    witnessed: Sequence[Witnessed],
    offsets_s: Sequence[float] | None = None,
    *,
    theta_s_per_byte: Array | None = None,
) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """Convert records to samples for the cost model: (sender, receiver) -> ``(bytes, seconds)``.

    Args:
        witnessed: records of each worker, in rank order.
        offsets_s: seconds to add to each worker's clock, ``(P,)``; 0 by default, for one machine.
        theta_s_per_byte: current θ of every pair, ``(P, P)``; equal by default.

    Example:
        >>> posted = {(0, "forward"): np.array([1.0])}
        >>> early = Witnessed(posted, {((0, "forward"), 1): np.array([[100.0, 4.0]])})
        >>> late = Witnessed({(0, "forward"): np.array([3.0])}, {((0, "forward"), 0): np.array([[50.0, 3.5]])})
        >>> samples([early, late])  # worker 0 posted two seconds early, which is not time on the wire
        {(0, 1): [(50, 0.5)], (1, 0): [(100, 1.0)]}
    """
    workers = len(witnessed)
    offsets = np.zeros(workers) if offsets_s is None else np.asarray(offsets_s, dtype=np.float64)
    samples_by_pair: dict[tuple[int, int], list[tuple[int, float]]] = {}
    places = sorted({place for records in witnessed for place in records.posted})
    for place in places:
        if any(place not in records.posted for records in witnessed):
            continue
        # Workers may have recorded different numbers of epochs; the last ones are common to all.
        epochs = min(records.posted[place].size for records in witnessed)
        post_times = np.stack(  # (P, E), by the clock of rank 0
            [records.posted[place][-epochs:] + offset for records, offset in zip(witnessed, offsets, strict=True)]
        )
        sizes, times = _exchanges(place, epochs, witnessed, post_times, offsets)  # (P, P, E) each
        shares = _shares(sizes, times, np.ones((workers, workers)) if theta_s_per_byte is None else theta_s_per_byte)
        for sender in range(workers):
            for receiver, record in enumerate(witnessed):
                if (place, sender) in record.completions:
                    size, seconds = sizes[sender, receiver], shares[sender, receiver]
                    is_valid = (size > 0) & (seconds > 0)  # clocks are aligned to some error: drop negative times
                    pairs = zip(size[is_valid].astype(int).tolist(), seconds[is_valid].tolist(), strict=True)
                    samples_by_pair.setdefault((sender, receiver), []).extend(pairs)
    return samples_by_pair


def _exchanges(
    place: Place, epochs: int, worker_records: Sequence[Witnessed], post_times: Array, offsets: Array
) -> tuple[Array, Array]:
    """Return bytes, and seconds from the later post to completion, of every message of a place, ``(P, P, E)``."""
    workers = len(worker_records)
    sizes, times = np.zeros((workers, workers, epochs)), np.zeros((workers, workers, epochs))
    for receiver, record in enumerate(worker_records):
        for sender in range(workers):
            if (place, sender) in record.completions:
                size, completion_times = record.completions[place, sender][-epochs:].T  # (E, 2) -> two of (E,)
                # From the later of both posts; all times by the clock of rank 0.
                wire_s = completion_times + offsets[receiver] - np.maximum(post_times[receiver], post_times[sender])
                sizes[sender, receiver], times[sender, receiver] = size, np.where(size > 0, wire_s, 0.0)
    return sizes, times


def _shares(sizes: Array, times: Array, theta_s_per_byte: Array) -> Array:
    """Return the share of each message in the busy time of the busier of its ends, ``(P, P, E)``.

    At most the time of the message itself: the message of another sender must not make a fast sender seem slow.
    """
    shares, load = [], []
    for other_ends in (1, 0):  # sum over the receivers of each sender, then over the senders of each receiver
        end_bytes = sizes.sum(axis=other_ends, keepdims=True)  # (P, P, E) -> bytes of each end
        busy_s = times.max(axis=other_ends, keepdims=True)
        # An end without bytes gives NaN, which the caller drops with its messages of size 0.
        with np.errstate(invalid="ignore", divide="ignore"):
            shares.append(busy_s * sizes / end_bytes)
        load.append((theta_s_per_byte[:, :, None] * sizes).sum(axis=other_ends, keepdims=True))
    return np.minimum(np.where(load[0] >= load[1], *shares), times)


def refreshed(
    cost: LinkCost, taken: Mapping[tuple[int, int], Sequence[tuple[int, float]]]
) -> tuple[LinkCost, NDArray[np.bool_]]:
    """Refit the cost model with training's own transfers.

    A pair keeps its line if the new one would explain the transfers worse than their mean does (R² < 0): on a busy
    machine they may measure the wait for a processor, not the link. The transfers still enter the next fit.

    Args:
        cost: the current model.
        taken: (sender, receiver) -> ``(bytes, seconds)``, see :func:`samples`.

    Returns:
        The model, and a mask of pairs with a new line, ``(P, P)``.
    """
    fresh_cost = cost.updated(taken, keep=_KEEP)
    is_changed: NDArray[np.bool_] = (fresh_cost.moments != cost.moments).any(axis=(2, 3)) & (fresh_cost.r_squared >= 0)
    merged_values = {
        name: np.where(is_changed, getattr(fresh_cost, name), getattr(cost, name))
        for name in ("theta_s_per_byte", "gamma_s", "r_squared")
    }
    return replace(fresh_cost, **merged_values), is_changed


def machine() -> str:
    """Return the boot id of this machine: processes with the same id share a monotonic clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # Without a boot id (not Linux) all workers count as one machine.
    except OSError:
        return ""


def clock_offsets(
    rank: int, machines: Sequence[str], group: dist.ProcessGroup | None = None, *, seconds: float = 0.0
) -> list[float]:
    """Return the offset from each worker's clock to that of rank 0; a collective call.

    Workers of one machine share a clock. For another machine the fastest of several round trips to one of its
    workers counts: its clock is assumed to be read in the middle of the round trip.

    Args:
        rank: this worker.
        machines: the machine of each worker, ``(P,)``.
        group: process group of the round trips.
        seconds: added to this worker's clock, for tests.
    """
    first_ranks = {name: machines.index(name) for name in reversed(machines)}  # lowest rank of each machine
    offsets = torch.zeros(len(machines), dtype=torch.float64)
    for peer in sorted(set(first_ranks.values()) - {0}):
        ping, pong = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        fastest_s = float("inf")
        for _ in range(_ROUND_TRIPS):
            if rank == 0:
                start = time.perf_counter() + seconds
                dist.send(ping, peer, group=group)
                dist.recv(pong, peer, group=group)
                round_trip = time.perf_counter() + seconds - start
                # The fastest round trip has waited least, so its middle is the best estimate.
                if round_trip < fastest_s:
                    fastest_s, offsets[peer] = round_trip, start + round_trip / 2 - float(pong)
            elif rank == peer:
                dist.recv(ping, 0, group=group)
                pong[0] = time.perf_counter() + seconds
                dist.send(pong, 0, group=group)
    if len(first_ranks) > 1:
        dist.broadcast(offsets, 0, group=group)
    return [float(offsets[first_ranks[name]]) for name in machines]
