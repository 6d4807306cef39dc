"""One assignment of widths, worked out by all workers together: traces in, widths out (AdaQP section 4, Fig. 6).

Each worker weighs the rows that it sent (β from what its codec noted of them) and sorts them into groups; all workers
share the sums, each solves its part of the problems, and the senders tell their receivers the widths of their rows.
That goes over a process group of its own, so that its messages never stand in the queue of training's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.bits.assigner.assemble import Message, assemble
from gnnqlab.bits.assigner.groups import Groups, group, use_of_halo
from gnnqlab.bits.assigner.link_samples import Place, Witnessed, clock_offsets, machine, refreshed, samples
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.bits.row import ParamBytes, row_bytes
from gnnqlab.bits.variance import Weighed
from gnnqlab.partition.shard import Shard
from gnnqlab.theory.cost import LinkCost

__all__ = ["JointAssignment", "Key", "Trace", "Weighing", "largest_sent", "traces_of"]

Key = tuple[int, str, int, int]
"""(layer, direction, sender, receiver)."""
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Trace:
    """What one channel sent in the epoch that is weighed."""

    place: Place
    columns: int
    spreads: dict[int, Tensor]
    """Receiver -> what encoding noted of each row, in plan order."""


@dataclass(frozen=True, eq=False)
class _Summary:
    """What the others need to know of one message: sums, no rows."""

    key: Key
    columns: int
    rows: np.ndarray
    beta: np.ndarray
    totals: np.ndarray
    """Sums over all rows, of β first; the codec says what of the others."""


@dataclass(frozen=True, eq=False)
class _Solved:
    """One problem's solution: widths of every message's groups, and what was found out on the way."""

    widths: dict[Key, np.ndarray]
    figures: dict[str, Any]


class _Channel(Protocol):
    """One layer and direction of an exchange, as far as an assignment looks at it."""

    layer: int
    direction: str
    spreads: dict[int, Tensor]

    @property
    def columns(self) -> int: ...


class _Exchange(Protocol):
    adjacencies: dict[int, Any]

    @property
    def channels(self) -> Sequence[_Channel]: ...


def traces_of(channels: Sequence[_Channel], direction: str | None = None) -> list[Trace]:
    """Return what channels sent last, of one direction or of both."""
    return [
        Trace((channel.layer, channel.direction), channel.columns, dict(channel.spreads))
        for channel in channels
        if direction in (None, channel.direction)
    ]


def largest_sent(traces: Sequence[Trace], width: int, param_bytes: ParamBytes) -> int:
    """Return the bytes of the largest message in traces, with every row in one ``width``; 0 if there is none."""
    sent = (
        len(spreads) * row_bytes(width, trace.columns, param_bytes)
        for trace in traces
        for spreads in trace.spreads.values()
    )
    return max(sent, default=0)


class Weighing(Protocol):
    """The settings that an assignment is worked out by."""

    @property
    def among(self) -> tuple[int, ...]: ...
    @property
    def lam(self) -> float: ...
    @property
    def group_size(self) -> int: ...
    @property
    def as_released(self) -> bool: ...


class JointAssignment:
    """Works assignments out, on one worker together with its peers.

    Args:
        shard: this worker's share.
        exchange: its channels, whose traces are weighed.
        codec: of the rows: it has their variance and what their parameters take.
        ring: whether rounds of a ring are priced, or everything posted at once.
        direction: ``forward`` or ``backward`` where the rows of the other one are somebody else's; ``None``: both.
    """

    def __init__(
        self, shard: Shard, exchange: _Exchange, *, codec: Weighed, ring: bool, direction: str | None = None
    ) -> None:
        self.cost: LinkCost | None = None
        """θ, γ and R² of every pair, once they have been timed."""
        self._shard, self._exchange = shard, exchange
        self._codec = codec
        self._transport = "ring" if ring else "direct"
        self._direction = direction
        self._group = dist.new_group(backend="gloo")
        self._use: dict[int, list[Tensor]] = {}
        if shard.workers > 2 and not ring:
            import scipy.optimize  # noqa: F401  # here, not beside an epoch: the solver of both ends needs it

    def traces(self) -> list[Trace]:
        """Return what the channels sent last; the next epoch changes it."""
        return traces_of(self._exchange.channels, self._direction)

    def largest_bytes(self, width: int) -> int:
        """Return the bytes of the largest message of all workers, with every row in one ``width``; all ask together."""
        return max(self._gather(largest_sent(self.traces(), width, self._codec.param_bytes)))

    def price(self, timed: dict[int, list[tuple[int, float]]]) -> None:
        """Fit the cost model to what this worker and the others have timed: sender -> ``(bytes, seconds)``."""
        gathered = self._gather(timed)
        seen = {
            (sender, receiver): taken
            for receiver, all_taken in enumerate(gathered)
            for sender, taken in all_taken.items()
        }
        self.cost = LinkCost.measured(self._shard.workers, seen)

    def work_out(
        self, traces: list[Trace], settings: Weighing, witnessed: Witnessed
    ) -> tuple[dict[Key, Tensor], dict[str, Any]]:
        """Return the widths of the rows that this worker sends and receives, and what is written about them.

        Args:
            traces: of an epoch.
            settings: what is weighed, and how.
            witnessed: what training's messages took since the last time.
        """
        begun = time.thread_time()
        groups, mine = self._weigh(traces, settings)
        gathered = self._gather((mine, witnessed, machine()))
        summaries = {one.key: one for summaries, _, _ in gathered for one in summaries}
        links = self._refresh([seen for _, seen, _ in gathered], [name for _, _, name in gathered])
        solved = self._solve_all(summaries, settings)
        chosen = {key: widths for one in solved for key, widths in one.widths.items()}
        table = self._exchanged(groups, chosen, summaries)
        cpu_s = round(time.thread_time() - begun, 6)  # taken from training where cores are scarce
        return table, {"problems": [one.figures for one in solved], "links": links, "cpu_s": cpu_s}

    def _weigh(self, traces: list[Trace], settings: Weighing) -> tuple[dict[Key, Groups], list[_Summary]]:
        """Group the rows of every message this worker sent in the epoch that was traced."""
        groups, summaries = {}, []
        for trace in sorted(traces, key=lambda trace: trace.place):
            layer, direction = trace.place
            use = self._use_of(trace.place, settings)  # all workers take part, also one that sends nothing
            variance = self._codec.row_variance(trace.columns)
            for receiver, spreads in trace.spreads.items():
                if not spreads.numel():
                    continue
                key = (layer, direction, self._shard.rank, receiver)
                weights = torch.ones(len(spreads), dtype=torch.float64) if use is None else use[receiver]
                betas = variance.betas(weights, spreads.cpu())
                groups[key] = group(betas[0], settings.group_size)
                rows, sums = groups[key].rows.numpy(), groups[key].beta.numpy()
                summaries.append(_Summary(key, trace.columns, rows, sums, betas.sum(1).numpy()))
        return groups, summaries

    def _use_of(self, place: Place, settings: Weighing) -> list[Tensor] | None:
        """Return c_k of the rows sent to each peer: the peer's Σα² forward; ``None``, that is 1, backward."""
        layer, direction = place
        if direction == "backward" or layer not in self._exchange.adjacencies:
            return None
        if layer not in self._use:
            alpha = self._exchange.adjacencies[layer].weights
            assert alpha is not None
            mine = use_of_halo(self._shard, alpha.cpu(), as_released=settings.as_released)
            plan = self._shard.plan("forward")
            self._use[layer] = self._trade(list(mine.split(plan.received_rows.tolist())), plan.sent_rows.tolist())
        return self._use[layer]

    def _refresh(self, witnessed: list[Witnessed], machines: list[str]) -> list[dict[str, Any]]:
        """Fit the cost model again with what training's messages took; return it as one row a pair."""
        assert self.cost is not None
        offsets_s = clock_offsets(self._shard.rank, machines, self._group)
        taken = samples(witnessed, offsets_s, theta_s_per_byte=self.cost.theta_s_per_byte)
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

    def _solve_all(self, summaries: Mapping[Key, _Summary], settings: Weighing) -> list[_Solved]:
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

    def _solve(self, place: Place, messages: list[_Summary], settings: Weighing) -> _Solved:
        assert self.cost is not None
        begun = time.perf_counter()
        variance = self._codec.row_variance(messages[0].columns)
        totals = np.sum([one.totals for one in messages], axis=0)
        problem = assemble(
            [Message(one.key[2], one.key[3], one.rows, one.beta) for one in messages],
            self.cost,
            columns=messages[0].columns,
            lam=settings.lam,
            widths=settings.among,
            param_bytes=self._codec.param_bytes,
            transport=self._transport,
            width_shares=tuple(variance.relative(width, totals) for width in settings.among),
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
