"""The halo exchange for any model, compared with the collectives that programs call today.

Each worker sends ``num_rows`` rows, in equal parts, to all others. The rival is ``all_to_all_single`` of the same
float32 rows, gathered by ``index_select``. Overlap: two exchanges over more computation than they take; the hidden
share is the part of their time that both together do not take. Sockets, copies and checksums of an exchange are work of
the processor, whose share of its time is a row: that share cannot be hidden by workers that fill all processors.
Update: a changed neighbour list and an exchange in 8 bits, compared with a new plan. A figure is the median over
interleaved repeats, of the slowest worker. Workers run on emulated hosts with a link, and on the loopback for
information.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import median, spread

if TYPE_CHECKING:
    from gnnqlab.launch.emulated import EmulatedHosts

__all__ = ["halo"]

COLUMNS = 128
GOALS = {32: 1.0, 8: 3.4, 4: 6.0, 2: 10.0}
"""Bit-width -> least speed-up over the rival, over a link of 1 Gbit."""
HIDDEN_GOAL = 0.9
"""Least share of two exchanges that computation hides."""
EDGES = 100_000
"""Edges of all workers, for updates."""


def halo(
    repeats: int = 9, workers: Sequence[int] = (2, 4), link: str = "1gbit", num_rows: int = 20_000
) -> list[dict[str, Any]]:
    """Measure exchanges, overlap and updates; takes about a minute for each number of workers.

    Args:
        repeats: interleaved repeats.
        workers: numbers of workers.
        link: rate of the links between emulated hosts.
        num_rows: rows that each worker sends.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.
    """
    from gnnqlab.launch.emulated import EmulatedHosts, available

    reason, lines = available(), []
    if reason is not None:
        print(f"bench halo: no emulated hosts ({reason}), so only the loopback is measured", file=sys.stderr)
    for count in workers:
        if reason is None:
            with EmulatedHosts(count, link) as hosts:
                seconds = _measured(count, repeats, num_rows, hosts)
            lines += _rows(f"{link} between emulated hosts", count, seconds, GOALS if link == "1gbit" else {})
        lines += _rows("loopback", count, _measured(count, repeats, num_rows, None), {32: GOALS[32]})
    return lines


def _rows(place: str, workers: int, seconds: dict[str, list[float]], goals: dict[int, float]) -> list[dict[str, Any]]:
    """Compare every case with its rival."""
    case, rival = f"{place}, {workers} workers, {COLUMNS} columns", seconds["rival"]
    lines = []
    for bits in GOALS:
        ours = seconds[str(bits)]
        ratio, detail = median(rival) / median(ours), f" ({spread(ours)}; rival {spread(rival)})"
        goal = goals.get(bits)
        name = f"exchange in {bits} bits"
        lines.append(row(case, name, median(ours), "s", "all_to_all_single", median(rival), ratio, goal, detail=detail))
    alone, both, computing = (median(seconds[name]) for name in ("two", "overlapped", "computing"))
    hidden = max(0.0, min(1.0, (alone + computing - both) / alone))
    goal = HIDDEN_GOAL if 32 in goals and place != "loopback" else None
    lines.append(row(case, "hidden share of two exchanges", hidden, "", "all of it", 1.0, hidden, goal))
    worked = median(seconds["two, processor"])
    metric = "processor time of two exchanges, of a worker"
    lines.append(row(case, metric, worked, "s", "their time", alone, worked / alone))
    update, plan = median(seconds["update"]), median(seconds["new plan"])
    metric = f"update of {EDGES} edges, and an exchange"
    lines.append(row(case, metric, update, "s", "new plan", plan, plan / update))
    return lines


def _measured(workers: int, repeats: int, num_rows: int, hosts: EmulatedHosts | None) -> dict[str, list[float]]:
    """Run all workers, on the emulated hosts or in this network, and return the seconds of the slowest one."""
    from gnnqlab.halo import run_on_ranks

    results: dict[str, list[float]] = run_on_ranks(slowest_seconds, workers, repeats, num_rows, hosts=hosts)[0]
    return results


# -- one worker ---------------------------------------------------------------------------------------------------


def slowest_seconds(repeats: int, num_rows: int) -> dict[str, list[float]]:
    """Measure on one rank; return the seconds of the slowest one, of every case and repeat."""
    import torch
    import torch.distributed as dist

    with torch.no_grad():
        seconds = _seconds(dist.get_rank(), dist.get_world_size(), repeats, num_rows)
    slowest = torch.tensor([seconds[name] for name in seconds])  # (cases, repeats)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return dict(zip(seconds, slowest.tolist(), strict=True))


def _seconds(rank: int, workers: int, repeats: int, num_rows: int) -> dict[str, list[float]]:
    """Return the seconds of every case and repeat."""
    import torch
    import torch.distributed as dist

    from gnnqlab.halo import HaloPlan, exchange_rows, start_exchange

    count = num_rows // (workers - 1)
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(2 * num_rows, COLUMNS, generator=generator)
    none = torch.empty(0, dtype=torch.int64)
    send = [
        none if peer == rank else torch.randperm(len(x), generator=generator)[:count].sort().values
        for peer in range(workers)
    ]
    sizes = [rows.numel() for rows in send]
    plan, positions = HaloPlan(send, sizes, num_rows=len(x)), torch.cat(send)
    owner, edge_lists = _neighbours(rank, workers)
    graph = HaloPlan.from_edges(edge_lists[0], owner)
    field = torch.randn(graph.num_rows, COLUMNS, generator=generator)
    square = torch.randn(256, 256, generator=generator)

    products = 0  # number of products of matrices that take a little longer than two exchanges

    def compute() -> None:
        for _ in range(products):
            torch.mm(square, square)

    def rival() -> None:
        # Its output is new memory, as in a model, where autograd keeps it.
        received = torch.empty(sum(sizes), COLUMNS)
        dist.all_to_all_single(received, x.index_select(0, positions), sizes, sizes)

    def update(epoch: int) -> None:
        graph.update(edge_lists[(epoch + 1) % 2])
        exchange_rows(field, graph, bits=8, epoch=epoch)

    def new_plan(epoch: int) -> None:
        exchange_rows(field, HaloPlan.from_edges(edge_lists[(epoch + 1) % 2], owner), bits=8, epoch=epoch)

    def exchange(bits: int, epoch: int) -> None:
        exchange_rows(x, plan, bits=bits, epoch=epoch)

    def two(epoch: int) -> None:
        exchange_rows(x, plan, bits=32, epoch=epoch, layer=1)
        exchange_rows(x, plan, bits=32, epoch=epoch, layer=2)

    def overlapped(epoch: int) -> None:
        first, second = (start_exchange(x, plan, bits=32, epoch=epoch, layer=layer) for layer in (1, 2))
        compute()
        first.wait()
        second.wait()

    cases: dict[str, Callable[[int], object]] = {
        "rival": lambda epoch: rival(),
        **{str(bits): partial(exchange, bits) for bits in GOALS},
        "two": two,
        "computing": lambda epoch: compute(),
        "overlapped": overlapped,
        "update": update,
        "new plan": new_plan,
    }
    seconds: dict[str, list[float]] = {name: [] for name in (*cases, "two, processor")}
    for epoch in range(repeats + 2):  # the first two connect, allocate, and measure the time to hide
        names = list(cases)
        # Another case first in each repeat, because a case may slow down the next one.
        for name in names[epoch % len(names) :] + names[: epoch % len(names)]:
            dist.barrier()
            start, start_processor = time.perf_counter(), time.process_time()
            cases[name](epoch)
            took_s, worked_s = time.perf_counter() - start, time.process_time() - start_processor
            if name == "two" and epoch == 1:
                common = torch.tensor(took_s)
                dist.all_reduce(common, dist.ReduceOp.MAX)
                end = time.perf_counter() + 1.25 * float(common)
                while time.perf_counter() < end:
                    torch.mm(square, square)
                    products += 1
            if epoch >= 2:
                seconds[name].append(took_s)
                if name == "two":
                    seconds["two, processor"].append(worked_s)
    return seconds


def _neighbours(rank: int, workers: int) -> tuple[Any, list[Any]]:
    """Return owners and two neighbour lists of this worker's nodes, of a ring with random neighbours."""
    import torch

    num_nodes = EDGES // 10
    owner = torch.arange(num_nodes) * workers // num_nodes
    lists = []
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        source = torch.randint(num_nodes, (EDGES,), generator=generator)
        target = (source + torch.randint(-50, 51, (EDGES,), generator=generator)) % num_nodes
        lists.append(torch.stack([source, target])[:, owner[target] == rank])
    return owner, lists
