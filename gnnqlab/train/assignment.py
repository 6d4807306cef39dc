"""The assigner at work: traces in, widths out, while training goes on (AdaQP section 4, Fig. 6).

After an assigning epoch each worker weighs the rows it sent (β from traced ranges), sorts them into groups, and
all workers share the sums. Every worker solves the same problems, in a thread beside the next epoch; then each
sender tells its receivers the widths of its rows, and all put them in force between the same two epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.bits.assigned import Assigned, AssignedWidths
from gnnqlab.bits.groups import Groups, beta, group, use_of_halo
from gnnqlab.bits.problem import Message, assemble
from gnnqlab.bits.solver import solve
from gnnqlab.exchange.halo import HaloExchange
from gnnqlab.message.channel import Channel
from gnnqlab.message.links import time_transfers
from gnnqlab.message.transport import Direct
from gnnqlab.partition.shard import Shard
from gnnqlab.theory.cost import LinkCost

__all__ = ["Assigner"]

Place = tuple[int, str]
"""(layer, direction)."""


@dataclass(frozen=True, eq=False)
class _Summary:
    """What the others need to know of one worker's message: sums, no rows."""

    place: Place
    columns: int
    sender: int
    receiver: int
    rows: np.ndarray
    beta: np.ndarray


class Assigner:
    """Assigns widths to the rows that one worker sends, together with its peers."""

    def __init__(
        self,
        widths: AssignedWidths,
        shard: Shard,
        exchange: HaloExchange,
        *,
        bytes_per_parameter: int,
        transport: str,
    ) -> None:
        self._widths = widths
        self._shard, self._exchange = shard, exchange
        self._bytes_per_parameter = bytes_per_parameter
        self._transport = "ring" if transport == "ring" else "direct"
        self._direct = Direct(shard.rank, shard.workers)
        self._solver = ThreadPoolExecutor(1, thread_name_prefix="assigner")
        self._cost: LinkCost | None = None
        self._use: dict[int, dict[int, Tensor]] = {}
        self._groups: dict[tuple[int, str, int], Groups] = {}
        self._pending: Future[dict[tuple[int, str, int], np.ndarray]] | None = None
        self.widths = widths
        """The assignment in force."""
        self.history: list[dict[str, Any]] = []
        """One entry for every solved problem; whoever reads it clears it."""

    @property
    def _settings(self) -> Assigned:
        return self._widths.settings

    def after_epoch(self, epoch: int) -> None:
        """Install what was solved beside this epoch, and start an assignment where one is due."""
        if self._pending is not None:
            self._install()
        if self._widths.assigns_after(epoch):
            self._widths.asked = False
            self._begin(epoch)
            if self._widths.settings.when == "blocking":
                self._install()

    def _begin(self, epoch: int) -> None:
        if self._cost is None:
            self._cost = self._time_links()
        shared: list[list[_Summary]] = [[] for _ in range(self._shard.workers)]
        dist.all_gather_object(shared, self._weigh())
        summaries = [summary for worker in shared for summary in worker]
        self._pending = self._solver.submit(self._solve, epoch, summaries, self._cost)

    def _time_links(self) -> LinkCost:
        rank, workers = self._shard.rank, self._shard.workers
        gathered: list[dict[int, list[tuple[int, float]]]] = [{} for _ in range(workers)]
        dist.all_gather_object(gathered, time_transfers(rank, workers))
        samples = {
            (sender, receiver): timed for receiver, seen in enumerate(gathered) for sender, timed in seen.items()
        }
        return LinkCost.measured(workers, samples)

    def _weigh(self) -> list[_Summary]:
        """Group the rows of every message this worker sent in the epoch that was traced."""
        summaries = []
        for channel in self._exchange.channels:
            for route in channel.plan.send:
                ranges = channel.ranges.get(route.peer)
                if ranges is None or not route.num_rows:
                    continue
                columns = channel.columns
                use = self._use_of(channel, route.peer, route.num_rows)
                groups = group(beta(use, ranges.cpu(), columns), self._settings.group_size)
                self._groups[channel.layer, channel.direction, route.peer] = groups
                summaries.append(
                    _Summary(
                        place=(channel.layer, channel.direction),
                        columns=columns,
                        sender=self._shard.rank,
                        receiver=route.peer,
                        rows=groups.rows.numpy(),
                        beta=groups.beta.numpy(),
                    )
                )
        return summaries

    def _use_of(self, channel: Channel, peer: int, num_rows: int) -> Tensor:
        """Return c_k of the rows sent to a peer: the peer's Σα² forward, 1 backward."""
        if channel.direction == "backward" or channel.layer not in self._exchange.adjacencies:
            return torch.ones(num_rows, dtype=torch.float64)
        if channel.layer not in self._use:
            alpha = self._exchange.adjacencies[channel.layer].weights
            assert alpha is not None
            mine = use_of_halo(self._shard, alpha.cpu(), as_released=self._settings.as_released)
            send = dict(enumerate(mine.split(self._shard.halo_splits.tolist())))
            self._use[channel.layer] = self._swap(
                send, self._shard.boundary_splits.tolist(), lambda rows: mine.new_empty(rows)
            )
        return self._use[channel.layer][peer]

    def _swap(self, send: dict[int, Tensor], expected: list[int], make: Callable[[int], Tensor]) -> dict[int, Tensor]:
        """Send one tensor to every peer and receive one from each, of the given lengths."""
        peers = [peer for peer in range(self._shard.workers) if peer != self._shard.rank]
        receive = {peer: make(expected[peer]) for peer in peers}
        self._direct.post(
            {peer: send[peer].contiguous().view(torch.uint8) for peer in peers},
            {peer: buffer.view(torch.uint8) for peer, buffer in receive.items()},
        ).wait()
        return receive

    def _solve(self, epoch: int, summaries: list[_Summary], cost: LinkCost) -> dict[tuple[int, str, int], np.ndarray]:
        """Return the widths of the groups of this worker's messages: (layer, direction, receiver) -> ``(G,)``."""
        chosen = {}
        for place in sorted({summary.place for summary in summaries}):
            here = [summary for summary in summaries if summary.place == place]
            begun = time.perf_counter()
            problem = assemble(
                [Message(one.sender, one.receiver, one.rows, one.beta) for one in here],
                cost,
                columns=here[0].columns,
                lam=self._settings.lam,
                widths=self._settings.among,
                bytes_per_parameter=self._bytes_per_parameter,
                transport=self._transport,
            )
            solution = solve(problem)
            ends = np.cumsum([one.rows.size for one in here])[:-1]
            for one, widths in zip(here, np.split(solution.widths, ends), strict=True):
                if one.sender == self._shard.rank:
                    chosen[*place, one.receiver] = widths
            rows = {
                int(width): int(problem.group_rows[solution.widths == width].sum()) for width in self._settings.among
            }
            self.history.append(
                {
                    "epoch": epoch,
                    "layer": place[0],
                    "direction": place[1],
                    "rows": rows,
                    "variance": solution.variance,
                    "predicted_s": solution.seconds,
                    "gap": solution.gap,
                    "solve_s": round(time.perf_counter() - begun, 6),
                }
            )
        return chosen

    def _install(self) -> None:
        assert self._pending is not None
        chosen, self._pending = self._pending.result(), None
        rank, table = self._shard.rank, {}
        for channel in self._exchange.channels:
            place = (channel.layer, channel.direction)
            if not any(key[:2] == place for key in self._groups):
                continue
            send = {}
            for route in channel.plan.send:
                key = (*place, route.peer)
                rows = torch.empty(0, dtype=torch.uint8)
                if key in chosen:
                    rows = self._groups[key].widths(torch.from_numpy(chosen[key]))
                    table[*place, rank, route.peer] = rows
                send[route.peer] = rows
            expected = [0] * self._shard.workers
            for route in channel.plan.receive:
                expected[route.peer] = route.num_rows
            received = self._swap(send, expected, lambda rows: torch.empty(rows, dtype=torch.uint8))
            for peer, rows in received.items():
                if rows.numel():
                    table[*place, peer, rank] = rows
        self._widths.install(table)
