"""One assignment of bit-widths, computed by all workers together from traced statistics (AdaQP section 4, Fig. 6).

Each worker computes β of the rows that it sent, from the statistics of its codec, and sorts them into groups. All
workers share the sums, each solves a part of the problems, and senders send the bit-widths to their receivers. A
separate process group carries this traffic, so that it is never queued among the messages of training.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.bits.assigner.assemble import MessageGroups, assemble
from gnnqlab.bits.assigner.groups import Groups, group, use_of_halo
from gnnqlab.bits.assigner.link_samples import Place, Witnessed, clock_offsets, machine, refreshed, samples
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.bits.row import ParamBytes, row_bytes
from gnnqlab.bits.variance import Weighed
from gnnqlab.partition.shard import Shard
from gnnqlab.plain_values import all_gather_values
from gnnqlab.theory.cost import LinkCost

__all__ = ["JointAssignment", "Key", "ChannelTrace", "Weighing", "largest_sent", "traces_of"]

Key = tuple[int, str, int, int]
"""(layer, direction, sender, receiver)."""
T = TypeVar("T")


def _fields(record: _Summary | _Solved | Witnessed) -> tuple[Any, ...]:
    """Return the fields of a record as a plain value, which is sent and makes the same record on the receiver."""
    return tuple(getattr(record, field.name) for field in fields(record))


@dataclass(frozen=True, eq=False)
class ChannelTrace:
    """Statistics of the rows that one channel sent in the traced epoch."""

    place: Place
    columns: int
    spreads: dict[int, Tensor]
    """Receiver -> statistics of each row from encoding, in plan order."""


@dataclass(frozen=True, eq=False)
class _Summary:
    """Sums of one message that all workers need; no rows."""

    key: Key
    columns: int
    rows: np.ndarray
    beta: np.ndarray
    totals: np.ndarray
    """Sums over all rows of each line of ``RowVariance.betas``, β first, ``(K,)``."""


@dataclass(frozen=True, eq=False)
class _Solved:
    """Solution of one problem: bit-widths of every message's groups, and figures for the record."""

    widths: dict[Key, np.ndarray]
    figures: dict[str, Any]


class _Channel(Protocol):
    """Parts of a channel (one layer and direction of an exchange) that an assignment reads."""

    layer: int
    direction: str
    spreads: dict[int, Tensor]

    @property
    def columns(self) -> int: ...


class _Exchange(Protocol):
    adjacencies: dict[int, Any]

    @property
    def channels(self) -> Sequence[_Channel]: ...


def traces_of(channels: Sequence[_Channel], direction: str | None = None) -> list[ChannelTrace]:
    """Collect the statistics of the last messages of channels, of one direction or of both."""
    return [
        ChannelTrace((channel.layer, channel.direction), channel.columns, dict(channel.spreads))
        for channel in channels
        if direction in (None, channel.direction)
    ]


def largest_sent(traces: Sequence[ChannelTrace], width: int, param_bytes: ParamBytes) -> int:
    """Return the bytes of the largest message in traces, with every row at bit-width ``width``; 0 without messages."""
    message_bytes = (
        len(spreads) * row_bytes(width, trace.columns, param_bytes)
        for trace in traces
        for spreads in trace.spreads.values()
    )
    return max(message_bytes, default=0)


class Weighing(Protocol):
    """Settings of an assignment."""

    @property
    def bit_widths(self) -> tuple[int, ...]: ...
    @property
    def lam(self) -> float: ...
    @property
    def group_size(self) -> int: ...
    @property
    def as_released(self) -> bool: ...


class JointAssignment:
    """Solver of assignments on one worker, together with its peers.

    Args:
        shard: this worker's share of the graph.
        exchange: its channels have the traced statistics.
        codec: of the rows: gives their variance and the bytes of their quantization parameters.
        ring: True if the cost model has the rounds of a ring, False if everything is posted at once.
        direction: ``forward`` or ``backward`` if another policy assigns the other direction; ``None``: both.
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
        self._group = dist.new_group(backend="gloo")  # collective; gloo, because bit-widths are CPU tensors
        self._use: dict[int, list[Tensor]] = {}
        if shard.workers > 2 and not ring:
            import scipy.optimize  # noqa: F401  # for the solver of both ends: a slow import, not during an epoch

    def traces(self) -> list[ChannelTrace]:
        """Collect the statistics of the channels' last messages; the next epoch replaces them."""
        return traces_of(self._exchange.channels, self._direction)

    def largest_bytes(self, width: int) -> int:
        """Return the bytes of the largest message of all workers, with every row at ``width`` bits; collective."""
        return max(self._gather(largest_sent(self.traces(), width, self._codec.param_bytes)))

    def price(self, timed: dict[int, list[tuple[int, float]]]) -> None:
        """Fit the cost model to the timings of all workers; of this one: sender -> ``(bytes, seconds)``; collective."""
        worker_timings = self._gather(timed)
        by_pair = {
            (sender, receiver): timings
            for receiver, by_sender in enumerate(worker_timings)
            for sender, timings in by_sender.items()
        }
        self.cost = LinkCost.measured(self._shard.workers, by_pair)

    def work_out(
        self, traces: list[ChannelTrace], settings: Weighing, witnessed: Witnessed
    ) -> tuple[dict[Key, Tensor], dict[str, Any]]:
        """Compute the bit-widths of the rows that this worker sends and receives, and figures for the record.

        A collective call: all workers make it, in the same order.

        Args:
            traces: statistics of one epoch.
            settings: of the assignment.
            witnessed: transfer times of training's messages since the last assignment.
        """
        start_s = time.thread_time()  # processor time of this thread, without waiting for peers
        groups, own_summaries = self._weigh(traces, settings)
        # Exchange sums, timings and machines in one collective, because each one waits for the slowest worker.
        summary_fields = [_fields(summary) for summary in own_summaries]
        worker_facts = self._gather((summary_fields, *_fields(witnessed), machine()))
        summaries = {fields[0]: _Summary(*fields) for facts in worker_facts for fields in facts[0]}
        # Refit and solve from the same inputs on all workers, so that all have the same cost model and solution.
        records = [Witnessed(*record) for _, *record, _ in worker_facts]
        links = self._refresh(records, [name for *_, name in worker_facts])
        solutions = self._solve_all(summaries, settings)
        chosen_widths = {key: widths for solution in solutions for key, widths in solution.widths.items()}
        # Only senders have the order of their rows, so they send the bit-width of every row.
        table = self._exchanged(groups, chosen_widths, summaries)
        cpu_s = round(time.thread_time() - start_s, 6)  # on few cores this time is lost to training
        return table, {"problems": [solution.figures for solution in solutions], "links": links, "cpu_s": cpu_s}

    def _weigh(self, traces: list[ChannelTrace], settings: Weighing) -> tuple[dict[Key, Groups], list[_Summary]]:
        """Group the rows of every message this worker sent in the epoch that was traced."""
        groups, summaries = {}, []
        for trace in sorted(traces, key=lambda trace: trace.place):  # the order of collectives, equal on all workers
            layer, direction = trace.place
            use = self._use_of(trace.place, settings)  # collective: also called on a worker that sends nothing
            variance = self._codec.row_variance(trace.columns)
            for receiver, spreads in trace.spreads.items():
                if not spreads.numel():
                    continue
                key = (layer, direction, self._shard.rank, receiver)
                weights = torch.ones(len(spreads), dtype=torch.float64) if use is None else use[receiver]
                betas = variance.betas(weights, spreads.cpu())  # (n, K) -> float64 (K, n)
                groups[key] = group(betas[0], settings.group_size)
                rows, sums = groups[key].rows.numpy(), groups[key].beta.numpy()
                summaries.append(_Summary(key, trace.columns, rows, sums, betas.sum(1).numpy()))
        return groups, summaries

    def _use_of(self, place: Place, settings: Weighing) -> list[Tensor] | None:
        """Return c_k of the rows sent to each peer: the peer's Σα² forward; ``None``, meaning 1, backward."""
        layer, direction = place
        if direction == "backward" or layer not in self._exchange.adjacencies:  # attention has no fixed α
            return None
        if layer not in self._use:
            # Only the receiver has the coefficients of its edges, so it computes Σα² and sends it to the row's owner.
            alpha = self._exchange.adjacencies[layer].weights
            assert alpha is not None
            own_use = use_of_halo(self._shard, alpha.cpu(), as_released=settings.as_released)  # (H,)
            plan = self._shard.plan("forward")
            # Halo rows are in the order of their owners, so a split gives one part per owner.
            self._use[layer] = self._trade(list(own_use.split(plan.received_rows.tolist())), plan.sent_rows.tolist())
        return self._use[layer]

    def _refresh(self, records: list[Witnessed], machines: list[str]) -> list[dict[str, Any]]:
        """Refit the cost model with the transfer times of training's messages; return one table row per pair."""
        assert self.cost is not None
        offsets_s = clock_offsets(self._shard.rank, machines, self._group)
        timings = samples(records, offsets_s, theta_s_per_byte=self.cost.theta_s_per_byte)
        cost, is_changed = refreshed(self.cost, timings)
        self.cost = cost
        return [
            {
                "sender": sender,
                "receiver": receiver,
                "theta_s_per_byte": float(cost.theta_s_per_byte[sender, receiver]),
                "gamma_s": float(cost.gamma_s[sender, receiver]),
                "r_squared": float(cost.r_squared[sender, receiver]),
                "transfers": len(timings.get((sender, receiver), ())),
                "refreshed": bool(is_changed[sender, receiver]),
            }
            for sender in range(cost.workers)
            for receiver in range(cost.workers)
            if sender != receiver
        ]

    def _solve_all(self, summaries: Mapping[Key, _Summary], settings: Weighing) -> list[_Solved]:
        """Solve every problem, each on one worker; return all solutions, identical on every worker."""
        places = sorted({key[:2] for key in summaries})  # sorted: each problem has the same solver on all workers
        own_solutions: dict[Place, tuple[Any, ...]] = {}
        for index, place in enumerate(places):
            if index % self._shard.workers == self._shard.rank:  # problems are dealt out in turn
                messages = [summary for key, summary in sorted(summaries.items()) if key[:2] == place]
                own_solutions[place] = _fields(self._solve(place, messages, settings))
        solutions: dict[Place, _Solved] = {}
        for part in self._gather(own_solutions):
            solutions |= {place: _Solved(*fields) for place, fields in part.items()}
        return [solutions[place] for place in places]

    def _solve(self, place: Place, messages: list[_Summary], settings: Weighing) -> _Solved:
        assert self.cost is not None
        start_s = time.perf_counter()
        variance = self._codec.row_variance(messages[0].columns)
        totals = np.sum([summary.totals for summary in messages], axis=0)  # (K,)
        problem = assemble(
            [MessageGroups(summary.key[2], summary.key[3], summary.rows, summary.beta) for summary in messages],
            self.cost,
            columns=messages[0].columns,
            lam=settings.lam,
            widths=settings.bit_widths,
            param_bytes=self._codec.param_bytes,
            transport=self._transport,
            width_shares=tuple(variance.relative(width, totals) for width in settings.bit_widths),
        )
        solution = solve(problem)
        ends = np.cumsum([summary.rows.size for summary in messages])[:-1]
        parts = np.split(solution.widths, ends)  # (G,) -> one vector per message
        figures = {
            "layer": place[0],
            "direction": place[1],
            "rows": {
                int(width): int(problem.group_rows[solution.widths == width].sum()) for width in settings.bit_widths
            },
            "variance": solution.variance,
            "predicted_s": solution.seconds,
            "gap": solution.gap,
            "solve_s": round(time.perf_counter() - start_s, 6),
        }
        return _Solved({summary.key: widths for summary, widths in zip(messages, parts, strict=True)}, figures)

    def _exchanged(
        self, groups: Mapping[Key, Groups], choices: Mapping[Key, np.ndarray], summaries: Mapping[Key, _Summary]
    ) -> dict[Key, Tensor]:
        """Expand group bit-widths to rows, send them to the receivers, and add those that the senders send here."""
        rank, workers = self._shard.rank, self._shard.workers
        table = {key: groups[key].widths(torch.from_numpy(choices[key])) for key in sorted(groups)}  # (G,) -> (n,)
        empty_vector = torch.empty(0, dtype=torch.uint8)
        # Both ends sort by key, so one concatenated vector per peer needs no header.
        outgoing_parts = [[table[key] for key in sorted(groups) if key[3] == peer] for peer in range(workers)]
        incoming_keys = {
            peer: [key for key in sorted(summaries) if key[2] == peer and key[3] == rank] for peer in range(workers)
        }
        # The receiver derives all lengths from the shared summaries.
        lengths = {key: int(summaries[key].rows.sum()) for keys in incoming_keys.values() for key in keys}
        vectors = [torch.cat([empty_vector, *parts]) for parts in outgoing_parts]  # uint8; empty to a peer without rows
        inbox = self._trade(vectors, [sum(lengths[key] for key in incoming_keys[peer]) for peer in range(workers)])
        for peer, keys in incoming_keys.items():
            table |= dict(zip(keys, inbox[peer].split([lengths[key] for key in keys]), strict=True))
        return table

    def _gather(self, own_value: T) -> list[T]:
        """Gather one plain value per worker, in rank order."""
        return all_gather_values(own_value, group=self._group)

    def _trade(self, vectors: list[Tensor], lengths: list[int]) -> list[Tensor]:
        """Send one vector to every worker and return the one from each, of the given lengths."""
        buffer = torch.cat(vectors)
        received_buffer = buffer.new_empty(sum(lengths))
        dist.all_to_all_single(received_buffer, buffer, lengths, [len(part) for part in vectors], group=self._group)
        return list(received_buffer.split(lengths))
