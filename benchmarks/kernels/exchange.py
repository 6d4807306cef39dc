"""One whole exchange between two workers over a 1 Gbit link: 1, 2, 4 and 8 bits compared with float32.

Each worker sends half of its rows to the other: encode, post, wait, decode into the halo, through the channels of
training, with headers and checksums; the cost of these is measured separately. The workers run on emulated hosts, and
on the loopback for information. Each has its own core and, if allowed, real-time priority, because one time slice of
another process is a third of a 2-bit exchange. A figure is the median over interleaved repeats, of the slower worker.

Wire time is compared with the bytes over the goodput of a plain socket, measured in the same run. Gloo's
``all_to_all_single`` posts sends before receives: a worker that is slightly late announces its receive only after its
own message, so the two messages are transferred one after another. Hence the rival of every case is float32 over the
transport that is fastest for it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import median, spread

if TYPE_CHECKING:
    from gnnqlab.launch.emulated import EmulatedHosts
    from gnnqlab.message.channels.channel import Channel
    from gnnqlab.message.transport.transport import Transport
    from gnnqlab.partition.plan import Plan

__all__ = ["exchange"]

COLUMNS = 256
LINK = "1gbit"
CASES = {"float32": (32, "float32")} | {
    f"{bits} bit, {parameters} parameters": (bits, parameters)
    for bits in (1, 2, 4, 8)
    for parameters in ("float32", "bfloat16")
}
"""Name -> bit-width, and type of zero-point Z and scale S."""
BARE_OF = {f"{name}, no header": name for name in ("float32", "2 bit, float32 parameters")}
BARE = {name: CASES[case] for name, case in BARE_OF.items()}
"""Cases without the header of a message and its checksum."""
TRANSPORTS = ("direct", "ring", "all-to-all")
TIME_GOALS = {name: 11.0 for name in CASES if name.startswith("2 bit")}  # least speed-up of 2 bits over float32
WIRE_GOAL = 1 / 1.10  # wire time at most 10 % above the least time
PARTS = ("whole", "wire", "encode", "decode")
_LIMIT_S = 600  # seconds until both workers are stopped


def exchange(repeats: int = 9, num_rows: int = 40_000, link: str = LINK) -> list[dict[str, Any]]:
    """Measure the exchange of ``num_rows`` rows per worker; takes about a minute on two cores.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.
    """
    from gnnqlab.launch.emulated import EmulatedHosts, available

    lines = []
    reason = available()
    if reason is None:
        with EmulatedHosts(2, link) as hosts:
            goodput = hosts.goodput(seconds=0.5)  # bytes per second of a plain socket
            results = _two_workers(repeats, num_rows, TRANSPORTS, hosts)
        place = f"{link} between emulated hosts"
        megabytes, nominal_rate = goodput.measured / 1e6, goodput.nominal / 1e6
        lines = [row(place, "goodput", megabytes, "MB/s", "nominal rate", nominal_rate, goodput.share)]
        lines += _rows(place, results, num_rows, goodput.measured)
    else:
        print(f"bench exchange: no emulated hosts ({reason}), so only the loopback is measured", file=sys.stderr)
    # without a link there is no least time, hence no goal
    return lines + _rows("loopback", _two_workers(repeats, num_rows, TRANSPORTS[:1], None), num_rows, None)


def _rows(place: str, results: dict[str, Any], num_rows: int, goodput: float | None) -> list[dict[str, Any]]:
    """Compare every case with float32 over the fastest transport, and with the least time of its bytes."""
    lines = []
    seconds = results["seconds"]
    # transport that is fastest for float32
    rival = min(seconds, key=lambda transport: median(seconds[transport]["float32"]["whole"]))
    rival_totals = seconds[rival]["float32"]["whole"]
    for transport, case_seconds in seconds.items():
        case = f"{place}, {transport}, {num_rows} x {COLUMNS} rows a side"
        if not results["ahead"]:
            case += ", among other processes"
        for name in CASES:
            totals, wire = case_seconds[name]["whole"], case_seconds[name]["wire"]
            codec = ", ".join(f"{part} {median(case_seconds[name][part]) * 1e3:.3g}" for part in ("encode", "decode"))
            if name != "float32":
                detail = f" ({spread(totals)}; {codec} ms; rival {spread(rival_totals)})"
                goal = None if goodput is None else TIME_GOALS.get(name)
                lines.append(_seconds_row(case, name, totals, f"float32, {rival}", median(rival_totals), goal, detail))
            if goodput is not None:
                # seconds of the bytes at the measured goodput
                least_s, detail = results["bytes"][name] / goodput, f" ({spread(wire)})"
                lines.append(
                    _seconds_row(case, f"wire time of {name}", wire, "bytes over goodput", least_s, WIRE_GOAL, detail)
                )
        for name, plain_name in BARE_OF.items():
            totals, bare_totals = case_seconds[plain_name]["whole"], case_seconds[name]["whole"]
            detail = f" ({spread(totals)}; rival {spread(bare_totals)})"
            lines.append(
                _seconds_row(
                    case, f"{plain_name} with header", totals, "without header", median(bare_totals), None, detail
                )
            )
    return lines


def _seconds_row(
    case: str, metric: str, seconds: list[float], rival: str, rival_s: float, goal: float | None, detail: str
) -> dict[str, Any]:
    """Return the row of the median of seconds compared with those of a rival."""
    return row(case, metric, median(seconds), "s", rival, rival_s, rival_s / median(seconds), goal, detail=detail)


def _two_workers(
    repeats: int, num_rows: int, transports: tuple[str, ...], hosts: EmulatedHosts | None
) -> dict[str, Any]:
    """Run both workers, on the emulated hosts or in this network, and return the report of worker 0."""
    print(f"bench exchange: {hosts.link if hosts else 'loopback'}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gnnqlab-exchange-") as folder, contextlib.ExitStack() as exit_stack:
        workers = []
        for rank in range(2):
            settings = {"repeats": repeats, "num_rows": num_rows, "transports": transports}
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.kernels.exchange", folder, str(rank)]
            command.append(json.dumps(settings))
            interface = hosts.interface(rank) if hosts else "lo"
            worker = subprocess.Popen(
                hosts.command(rank, command) if hosts else command,  # in the network namespace of its host
                env=os.environ | {"GLOO_SOCKET_IFNAME": interface, "OMP_NUM_THREADS": "1"},
                stdout=sys.stderr,
            )
            # Callbacks run in reverse order: kill first, then wait.
            exit_stack.callback(worker.wait)
            exit_stack.callback(worker.kill)
            workers.append(worker)
        deadline = time.monotonic() + _LIMIT_S
        while any(worker.poll() is None for worker in workers):
            # one failed worker would leave the other waiting
            if any(worker.poll() for worker in workers) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        codes = [worker.poll() for worker in workers]
        if any(code != 0 for code in codes):
            raise RuntimeError(
                f"both workers must finish within {_LIMIT_S} s, got exit codes {codes}; see their errors above"
            )
        results: dict[str, Any] = json.loads(Path(folder, "results.json").read_text())
        return results


# -- one worker ---------------------------------------------------------------------------------------------------


def _work(folder: str, rank: int, repeats: int, num_rows: int, transports: list[str]) -> None:
    has_priority = _take_core(rank)

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)  # one core per worker
    store = dist.FileStore(str(Path(folder, "store")), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60))
    seconds, sizes = _measure(rank, repeats, num_rows, transports)
    # The slower worker of each part, and real-time priority only if both workers have it.
    # (transport, case, repeat, part)
    all_seconds = torch.tensor([seconds[transport][name] for transport in seconds for name in (*CASES, *BARE)])
    dist.all_reduce(all_seconds, dist.ReduceOp.MAX)
    common_priority = torch.tensor(int(has_priority))
    dist.all_reduce(common_priority, dist.ReduceOp.MIN)
    if rank == 0:
        parts = iter(all_seconds.tolist())
        slower_seconds = {
            transport: {name: dict(zip(PARTS, zip(*next(parts), strict=True), strict=True)) for name in (*CASES, *BARE)}
            for transport in seconds
        }
        results = {"seconds": slower_seconds, "bytes": sizes, "ahead": bool(common_priority)}
        Path(folder, "results.json").write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


def _take_core(rank: int) -> bool:
    """Pin this process to one core; return True if it gets real-time priority there."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return True
    return False


def _measure(
    rank: int, repeats: int, num_rows: int, transports: list[str]
) -> tuple[dict[str, dict[str, list[list[float]]]], dict[str, int]]:
    """Return the seconds of every part and repeat, by transport and case, and the bytes of each case."""
    import torch
    import torch.distributed as dist

    from gnnqlab.message.codecs.codec import Stochastic
    from gnnqlab.message.transport.transport import make_transport

    x = torch.randn(2 * num_rows, COLUMNS, generator=torch.Generator().manual_seed(rank))  # half of these rows are sent
    plan = plan_between(rank, num_rows)
    halo = Stochastic().rows(num_rows, COLUMNS, x.device)
    clock: dict[str, float] = {}  # seconds by phase of the current exchange
    channels = {
        (transport, name): _channel(plan, *case, make_transport(transport, rank, 2), clock, header=name in CASES)
        for transport in transports
        for name, case in {**CASES, **BARE}.items()
    }
    seconds: dict[str, dict[str, list[list[float]]]] = {
        transport: {name: [] for name in (*CASES, *BARE)} for transport in transports
    }
    sizes = {}
    for epoch in range(-1, repeats):
        for (transport, name), channel in channels.items():
            dist.barrier()  # both workers begin together, or one would wait for the other in the exchange
            clock.clear()
            wire_s = channel.wire_s  # the channel adds up wire seconds, so subtract what it had
            start = time.perf_counter()
            channel.post(x, halo, epoch=max(epoch, 0)).decode()  # encode, post, wait, decode
            whole_s = time.perf_counter() - start
            if epoch >= 0:  # the first round connects, allocates and opens TCP's congestion window
                parts = {**clock, "whole": whole_s, "wire": channel.wire_s - wire_s}
                seconds[transport][name].append([parts[part] for part in PARTS])
            else:
                sizes[name] = channel.bytes_payload + channel.bytes_params
        if rank == 0 and epoch >= 0:
            print(f"bench exchange: repeat {epoch + 1} of {repeats}", file=sys.stderr, flush=True)
    return seconds, sizes


def plan_between(rank: int, num_rows: int) -> Plan:
    """Return a plan that sends half of each worker's ``2 * num_rows`` rows, ascending as in a shard's send list."""
    import torch

    from gnnqlab.partition.plan import Plan, Route

    def boundary(sender: int) -> torch.Tensor:
        # different halves on both workers
        order = torch.randperm(2 * num_rows, generator=torch.Generator().manual_seed(10 + sender))
        return order[:num_rows].sort().values

    rows, peer_rows = boundary(rank), boundary(1 - rank)
    # global ids: worker r owns 2 n r to 2 n (r + 1)
    send = Route(peer=1 - rank, rows=rows, ids=rows + 2 * num_rows * rank, first=None)
    ids = peer_rows + 2 * num_rows * (1 - rank)
    receive = Route(peer=1 - rank, rows=torch.arange(num_rows), ids=ids, first=0)
    return Plan(rank=rank, workers=2, send=(send,), receive=(receive,), accumulate=False)


def _channel(
    plan: Plan, bits: int, parameters: str, transport: Transport, clock: dict[str, float], *, header: bool
) -> Channel:
    from gnnqlab.bits.policy import Fixed
    from gnnqlab.message.channels.channel import Channel
    from gnnqlab.message.codecs.codec import Float32, Stochastic

    @contextlib.contextmanager
    def phases(name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        clock[name] = clock.get(name, 0.0) + time.perf_counter() - start  # a phase may run several times

    return Channel(
        layer=0,
        direction="forward",
        plan=plan,
        codec=Float32() if bits == 32 else Stochastic(parameters=parameters),
        bits=Fixed(bits=bits),
        transport=transport,
        seed=1,
        run=1 if header else None,  # without a run id there is no header
        phases=phases,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels.exchange")
    parser.add_argument("folder")
    parser.add_argument("rank", type=int)
    parser.add_argument("settings", type=json.loads)
    arguments = parser.parse_args()
    _work(arguments.folder, arguments.rank, **arguments.settings)
