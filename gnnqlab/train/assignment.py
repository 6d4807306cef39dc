"""The assigner at work: traces in, widths out, while training goes on (AdaQP section 4, Fig. 6).

After an assigning epoch a thread of each worker weighs the rows that were sent (β from traced ranges) and sorts them
into groups; all workers share the sums, each solves its part of the problems, and the senders tell their receivers
the widths of their rows. All of that runs beside the next epoch, over a process group of its own, so that its
messages never stand in the queue of training's. Between the same two epochs all put the widths in force.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.bits.assigned import Assigned, AssignedWidths
from gnnqlab.bits.groups import Groups, beta, group, use_of_halo
from gnnqlab.bits.problem import Message, assemble
from gnnqlab.bits.solver import solve
from gnnqlab.exchange.halo import HaloExchange
from gnnqlab.message.channel import Arrival, Phases, no_phases
from gnnqlab.message.links import time_transfers
from gnnqlab.message.transport import Transport
from gnnqlab.partition.shard import Shard
from gnnqlab.theory.cost import LinkCost
from gnnqlab.train.transfers import Place, Transfers, Witnessed, clock_offsets, machine, refreshed, samples

__all__ = ["Assigner"]

Key = tuple[int, str, int, int]
"""(layer, direction, sender, receiver)."""
T = TypeVar("T")

_COST = ("theta_s_per_byte", "gamma_s", "r_squared", "moments")
"""The arrays of a cost model."""


@dataclass(frozen=True, eq=False)
class _Trace:
    """What one channel sent in the epoch that is weighed."""

    place: Place
    columns: int
    ranges: dict[int, Tensor]
    """Receiver -> range of each row, in plan order."""


@dataclass(frozen=True, eq=False)
class _Summary:
    """What the others need to know of one message: sums, no rows."""

    key: Key
    columns: int
    rows: np.ndarray
    beta: np.ndarray


@dataclass(frozen=True, eq=False)
class _Solved:
    """One problem's solution: widths of every message's groups, and what was found out on the way."""

    widths: dict[Key, np.ndarray]
    figures: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Kept:
    """What of an assigner has to survive it."""

    facts: dict[str, Any]
    table: dict[Key, Tensor]
    pending: dict[Key, Tensor]
    cost: dict[str, Tensor]


class Assigner:
    """Assigns widths to the rows that one worker sends, together with its peers.

    Args:
        widths: the assignment in force, and the settings.
        shard: this worker's share.
        exchange: its channels, whose traces are weighed.
        bytes_per_parameter: bytes of a zero-point, and of a scale.
        transport: name of the transport of training's messages.
        wire: moves the messages that are timed before the first assignment; by default ``Direct``.
        phases: the epoch's clock, told when this worker waits for others.
    """

    def __init__(
        self,
        widths: AssignedWidths,
        shard: Shard,
        exchange: HaloExchange,
        *,
        bytes_per_parameter: int,
        transport: str,
        wire: Transport | None = None,
        phases: Phases = no_phases,
    ) -> None:
        self.widths = widths
        """The assignment in force."""
        self.cost: LinkCost | None = None
        """θ, γ and R² of every pair, once they have been timed."""
        self.history: list[dict[str, Any]] = []
        """One entry for every assignment that was put in force; whoever reads it clears it."""
        self._shard, self._exchange, self._phases = shard, exchange, phases
        self._wire = wire
        self._bytes_per_parameter = bytes_per_parameter
        self._transport = "ring" if transport == "ring" else "direct"
        # Others are seen to arrive when somebody waits for them, and computing would count as transfer.
        self._timed_by_training = transport == "direct" and dist.get_backend() == "gloo"
        self._transfers = Transfers()
        self._group = dist.new_group(backend="gloo")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assigner")
        self._use: dict[int, list[Tensor]] = {}
        self._pending: Future[tuple[dict[Key, Tensor], dict[str, Any]]] | None = None

    def observe(self, arrivals: Iterable[Arrival]) -> None:
        """Take what an epoch's messages took, to refresh the cost model with."""
        if self._timed_by_training:
            self._transfers.observe(arrivals)

    def after_epoch(self, epoch: int) -> None:
        """Install what was solved beside this epoch, and start an assignment where one is due."""
        if self._pending is not None:
            self._install(epoch)
        if self.widths.assigns_after(epoch):
            self.widths.asked = False
            self._begin(epoch)
            if self.widths.settings.when == "blocking":
                self._install(epoch)

    @property
    def rank(self) -> int:
        return self._shard.rank

    @property
    def workers(self) -> int:
        return self._shard.workers

    def state(self) -> _Kept:
        """Return what an assigner needs to go on; an assignment that is under way is waited for."""
        table, entry = ({}, None) if self._pending is None else self._pending.result()
        cost = {} if self.cost is None else {name: torch.from_numpy(getattr(self.cost, name)) for name in _COST}
        facts = {"asked": self.widths.asked, "installed": self.widths.round(0), "pending": entry}
        return _Kept(facts, self.widths.table, table, cost)

    def load(
        self, facts: dict[str, Any], table: dict[Key, Tensor], pending: dict[Key, Tensor], cost: dict[str, Tensor]
    ) -> None:
        """Go on as the assigner did whose state it is; tables may hold messages of other workers too."""
        own = {key: rows for key, rows in table.items() if self.rank in key[2:]}
        self.widths.reinstall(own, facts["installed"])
        self.widths.asked = facts["asked"]
        if facts["pending"] is not None:
            self._pending = Future()
            self._pending.set_result(({k: rows for k, rows in pending.items() if self.rank in k[2:]}, facts["pending"]))
        if cost:
            self.cost = LinkCost(**{name: cost[name].numpy() for name in _COST})

    def close(self) -> None:
        """Return when nothing is under way any more; an assignment that is not in force yet is dropped."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None
        self._thread.shutdown()

    def _begin(self, epoch: int) -> None:
        if self.cost is None:
            with self._phases("wait"):
                self.cost = self._time_links()
        traces = [
            _Trace((channel.layer, channel.direction), channel.columns, dict(channel.ranges))
            for channel in self._exchange.channels
        ]
        self._pending = self._thread.submit(
            self._assign, epoch, traces, self.widths.settings, self.widths.version, self._transfers.take()
        )

    def _install(self, epoch: int) -> None:
        assert self._pending is not None
        with self._phases("wait"):
            table, entry = self._pending.result()
        self._pending = None
        self.widths.install(table)
        self.history.append({**entry, "from_epoch": epoch + 1})

    def _time_links(self) -> LinkCost:
        rank, workers = self._shard.rank, self._shard.workers
        gathered = self._gather(time_transfers(rank, workers, transport=self._wire))
        timed = {
            (sender, receiver): seen for receiver, all_seen in enumerate(gathered) for sender, seen in all_seen.items()
        }
        return LinkCost.measured(workers, timed)

    # -- beside the epoch -----------------------------------------------------------------------------------------

    def _assign(
        self, epoch: int, traces: list[_Trace], settings: Assigned, version: int, witnessed: Witnessed
    ) -> tuple[dict[Key, Tensor], dict[str, Any]]:
        """Return the widths of the rows that this worker sends and receives, and what is written about them."""
        begun = time.thread_time()
        groups, mine = self._weigh(traces, settings)
        gathered = self._gather((mine, witnessed, machine()))
        summaries = {one.key: one for summaries, _, _ in gathered for one in summaries}
        links = self._refresh([seen for _, seen, _ in gathered], [name for _, _, name in gathered])
        solved = self._solve_all(summaries, settings)
        chosen = {key: widths for one in solved for key, widths in one.widths.items()}
        table = self._exchanged(groups, chosen, summaries)
        entry = {
            "epoch": epoch,
            "version": version,
            "settings": {name: getattr(settings, name) for name in settings.steerable},
            "problems": [one.figures for one in solved],
            "links": links,
            "cpu_s": round(time.thread_time() - begun, 6),  # taken from training where cores are scarce
        }
        return table, entry

    def _weigh(self, traces: list[_Trace], settings: Assigned) -> tuple[dict[Key, Groups], list[_Summary]]:
        """Group the rows of every message this worker sent in the epoch that was traced."""
        groups, summaries = {}, []
        for trace in sorted(traces, key=lambda trace: trace.place):
            layer, direction = trace.place
            use = self._use_of(trace.place, settings)  # all workers take part, also one that sends nothing
            for receiver, ranges in trace.ranges.items():
                if not ranges.numel():
                    continue
                key = (layer, direction, self._shard.rank, receiver)
                weights = torch.ones(len(ranges), dtype=torch.float64) if use is None else use[receiver]
                groups[key] = group(beta(weights, ranges.cpu(), trace.columns), settings.group_size)
                rows, sums = groups[key].rows.numpy(), groups[key].beta.numpy()
                summaries.append(_Summary(key, trace.columns, rows, sums))
        return groups, summaries

    def _use_of(self, place: Place, settings: Assigned) -> list[Tensor] | None:
        """Return c_k of the rows sent to each peer: the peer's Σα² forward; ``None``, that is 1, backward."""
        layer, direction = place
        if direction == "backward" or layer not in self._exchange.adjacencies:
            return None
        if layer not in self._use:
            alpha = self._exchange.adjacencies[layer].weights
            assert alpha is not None
            mine = use_of_halo(self._shard, alpha.cpu(), as_released=settings.as_released)
            self._use[layer] = self._trade(
                list(mine.split(self._shard.halo_splits.tolist())), self._shard.boundary_splits.tolist()
            )
        return self._use[layer]

    def _refresh(self, witnessed: list[Witnessed], machines: list[str]) -> list[dict[str, Any]]:
        """Fit the cost model again with what training's messages took; return it as one row a pair."""
        assert self.cost is not None
        taken = samples(witnessed, clock_offsets(self.rank, machines, self._group))
        cost, changed = refreshed(self.cost, taken)
        self.cost = cost
        return [
            {
                "sender": sender,
                "receiver": receiver,
                "theta_s_per_byte": float(cost.theta_s_per_byte[sender, receiver]),
                "gamma_s": float(cost.gamma_s[sender, receiver]),
                "r_squared": float(cost.r_squared[sender, receiver]),
                "transfers": len(taken.get((sender, receiver), ())),
                "refreshed": bool(changed[sender, receiver]),
            }
            for sender in range(cost.workers)
            for receiver in range(cost.workers)
            if sender != receiver
        ]

    def _solve_all(self, summaries: Mapping[Key, _Summary], settings: Assigned) -> list[_Solved]:
        """Solve every problem, each on one worker; return all solutions, the same on every worker."""
        places = sorted({key[:2] for key in summaries})
        mine = {}
        for index, place in enumerate(places):
            if index % self._shard.workers == self._shard.rank:
                here = [one for key, one in sorted(summaries.items()) if key[:2] == place]
                mine[place] = self._solve(place, here, settings)
        solved: dict[Place, _Solved] = {}
        for part in self._gather(mine):
            solved |= part
        return [solved[place] for place in places]

    def _solve(self, place: Place, messages: list[_Summary], settings: Assigned) -> _Solved:
        assert self.cost is not None
        begun = time.perf_counter()
        problem = assemble(
            [Message(one.key[2], one.key[3], one.rows, one.beta) for one in messages],
            self.cost,
            columns=messages[0].columns,
            lam=settings.lam,
            widths=settings.among,
            bytes_per_parameter=self._bytes_per_parameter,
            transport=self._transport,
        )
        solution = solve(problem)
        ends = np.cumsum([one.rows.size for one in messages])[:-1]
        parts = np.split(solution.widths, ends)
        figures = {
            "layer": place[0],
            "direction": place[1],
            "rows": {int(width): int(problem.group_rows[solution.widths == width].sum()) for width in settings.among},
            "variance": solution.variance,
            "predicted_s": solution.seconds,
            "gap": solution.gap,
            "solve_s": round(time.perf_counter() - begun, 6),
        }
        return _Solved({one.key: widths for one, widths in zip(messages, parts, strict=True)}, figures)

    def _exchanged(
        self, groups: Mapping[Key, Groups], chosen: Mapping[Key, np.ndarray], summaries: Mapping[Key, _Summary]
    ) -> dict[Key, Tensor]:
        """Return the widths of the rows this worker sends, and, told by their senders, of those it receives."""
        rank, workers = self._shard.rank, self._shard.workers
        table = {key: groups[key].widths(torch.from_numpy(chosen[key])) for key in sorted(groups)}
        nothing = torch.empty(0, dtype=torch.uint8)
        leaving = [[table[key] for key in sorted(groups) if key[3] == peer] for peer in range(workers)]
        coming = {
            peer: [key for key in sorted(summaries) if key[2] == peer and key[3] == rank] for peer in range(workers)
        }
        lengths = {key: int(summaries[key].rows.sum()) for keys in coming.values() for key in keys}
        send = [torch.cat([nothing, *parts]) for parts in leaving]
        received = self._trade(send, [sum(lengths[key] for key in coming[peer]) for peer in range(workers)])
        for peer, keys in coming.items():
            table |= dict(zip(keys, received[peer].split([lengths[key] for key in keys]), strict=True))
        return table

    def _gather(self, mine: T) -> list[T]:
        """Return what every worker holds, in rank order."""
        shared: list[Any] = [None] * self._shard.workers
        dist.all_gather_object(shared, mine, group=self._group)
        return shared

    def _trade(self, send: list[Tensor], expected: list[int]) -> list[Tensor]:
        """Send one vector to every worker and return the one from each, of the given lengths."""
        joined = torch.cat(send)
        received = joined.new_empty(sum(expected))
        dist.all_to_all_single(received, joined, expected, [len(part) for part in send], group=self._group)
        return list(received.split(expected))
