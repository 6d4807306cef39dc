"""One whole exchange between two workers, float32 beside 1, 2, 4 and 8 bits, over a 1 Gbit link.

Each worker sends half of its rows to the other: encode, post, wait, decode into the halo, through the channels that
training uses, with headers and checksums; what these cost is measured beside it. The workers stand on emulated hosts,
and once more on the loopback for information. Each has one core of its own and, where that is allowed, comes before
other processes, since one slice of processor time of somebody else is a third of a 2-bit exchange. A figure is the
median over repeats, in which all cases take turns, of the slower worker.

Wire time stands beside the bytes over the goodput of a plain socket, measured in the same run. Gloo's
``all_to_all_single`` posts sends before receives: a worker that comes a little later than the other announces that it
can receive behind its own message, so the two messages cross one after the other. Hence the rival of every case is
float32 over the transport that moves it fastest.
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
"""Name -> bit-width and type of Z and S."""
BARE_OF = {f"{name}, no header": name for name in ("float32", "2 bit, float32 parameters")}
BARE = {name: CASES[of] for name, of in BARE_OF.items()}
"""The same without the header that goes ahead of a message, and without its checksum."""
TRANSPORTS = ("direct", "ring", "all-to-all")
TIME_GOALS = {name: 11.0 for name in CASES if name.startswith("2 bit")}
WIRE_GOAL = 1 / 1.10
PARTS = ("whole", "wire", "encode", "decode")
_LIMIT_S = 600


def exchange(repeats: int = 9, num_rows: int = 40_000, link: str = LINK) -> list[dict[str, Any]]:
    """Measure the exchange of ``num_rows`` rows a side; about a minute on two cores.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them.
    """
    from gnnqlab.launch.emulated import EmulatedHosts, available

    lines = []
    reason = available()
    if reason is None:
        with EmulatedHosts(2, link) as hosts:
            goodput = hosts.goodput(seconds=0.5)
            results = _two_workers(repeats, num_rows, TRANSPORTS, hosts)
        place = f"{link} between emulated hosts"
        megabytes, nominal = goodput.measured / 1e6, goodput.nominal / 1e6
        lines = [row(place, "goodput", megabytes, "MB/s", "nominal rate", nominal, goodput.share)]
        lines += _rows(place, results, num_rows, goodput.measured)
    else:
        print(f"bench exchange: no emulated hosts ({reason}), so only the loopback is measured", file=sys.stderr)
    return lines + _rows("loopback", _two_workers(repeats, num_rows, TRANSPORTS[:1], None), num_rows, None)


def _rows(place: str, results: dict[str, Any], num_rows: int, goodput: float | None) -> list[dict[str, Any]]:
    """Every case beside float32 over the transport that moves float32 fastest, and beside the bytes it moves."""
    lines = []
    seconds = results["seconds"]
    best = min(seconds, key=lambda transport: median(seconds[transport]["float32"]["whole"]))
    plain = seconds[best]["float32"]["whole"]
    for transport, measured in seconds.items():
        case = f"{place}, {transport}, {num_rows} x {COLUMNS} rows a side"
        if not results["ahead"]:
            case += ", among other processes"
        for name in CASES:
            whole, wire = measured[name]["whole"], measured[name]["wire"]
            codec = ", ".join(f"{part} {median(measured[name][part]) * 1e3:.3g}" for part in ("encode", "decode"))
            if name != "float32":
                detail = f" ({spread(whole)}; {codec} ms; rival {spread(plain)})"
                goal = None if goodput is None else TIME_GOALS.get(name)
                lines.append(_beside(case, name, whole, f"float32, {best}", median(plain), goal, detail))
            if goodput is not None:
                least, detail = results["bytes"][name] / goodput, f" ({spread(wire)})"
                lines.append(
                    _beside(case, f"wire time of {name}", wire, "bytes over goodput", least, WIRE_GOAL, detail)
                )
        for name, plain_name in BARE_OF.items():
            whole, bare = measured[plain_name]["whole"], measured[name]["whole"]
            detail = f" ({spread(whole)}; rival {spread(bare)})"
            lines.append(
                _beside(case, f"{plain_name} with header", whole, "without header", median(bare), None, detail)
            )
    return lines


def _beside(
    case: str, metric: str, ours: list[float], rival: str, rival_s: float, goal: float | None, detail: str
) -> dict[str, Any]:
    """Return the row of the median of seconds beside those of a rival."""
    return row(case, metric, median(ours), "s", rival, rival_s, rival_s / median(ours), goal, detail=detail)


def _two_workers(
    repeats: int, num_rows: int, transports: tuple[str, ...], hosts: EmulatedHosts | None
) -> dict[str, Any]:
    """Run both workers, on the emulated hosts or here, and return what worker 0 reports."""
    print(f"bench exchange: {hosts.link if hosts else 'loopback'}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gnnqlab-exchange-") as folder, contextlib.ExitStack() as running:
        workers = []
        for rank in range(2):
            settings = {"repeats": repeats, "num_rows": num_rows, "transports": transports}
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.kernels.exchange", folder, str(rank)]
            command.append(json.dumps(settings))
            interface = hosts.interface(rank) if hosts else "lo"
            worker = subprocess.Popen(
                hosts.command(rank, command) if hosts else command,
                env=os.environ | {"GLOO_SOCKET_IFNAME": interface, "OMP_NUM_THREADS": "1"},
                stdout=sys.stderr,
            )
            running.callback(worker.wait)
            running.callback(worker.kill)
            workers.append(worker)
        until = time.monotonic() + _LIMIT_S
        while any(worker.poll() is None for worker in workers):
            if any(worker.poll() for worker in workers) or time.monotonic() > until:
                break
            time.sleep(0.05)
        codes = [worker.poll() for worker in workers]
        if any(code != 0 for code in codes):
            raise RuntimeError(
                f"both workers must finish within {_LIMIT_S} s, got exit codes {codes}; their errors are above"
            )
        results: dict[str, Any] = json.loads(Path(folder, "results.json").read_text())
        return results


# -- one worker ---------------------------------------------------------------------------------------------------


def _work(folder: str, rank: int, repeats: int, num_rows: int, transports: list[str]) -> None:
    ahead = _take_core(rank)

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(str(Path(folder, "store")), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60))
    seconds, sizes = _measure(rank, repeats, num_rows, transports)
    # Each part's slower worker, and whether both came first.
    everything = torch.tensor([seconds[transport][name] for transport in seconds for name in (*CASES, *BARE)])
    dist.all_reduce(everything, dist.ReduceOp.MAX)
    both_ahead = torch.tensor(int(ahead))
    dist.all_reduce(both_ahead, dist.ReduceOp.MIN)
    if rank == 0:
        parts = iter(everything.tolist())
        slower = {
            transport: {name: dict(zip(PARTS, zip(*next(parts), strict=True), strict=True)) for name in (*CASES, *BARE)}
            for transport in seconds
        }
        results = {"seconds": slower, "bytes": sizes, "ahead": bool(both_ahead)}
        Path(folder, "results.json").write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


def _take_core(rank: int) -> bool:
    """Stay on one core; return whether this process comes before others there."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return True
    return False


def _measure(
    rank: int, repeats: int, num_rows: int, transports: list[str]
) -> tuple[dict[str, dict[str, list[list[float]]]], dict[str, int]]:
    """Return, of each transport and case, seconds of every part in every repeat, and bytes of each case."""
    import torch
    import torch.distributed as dist

    from gnnqlab.message.codecs.codec import Stochastic
    from gnnqlab.message.transport.transport import make_transport

    x = torch.randn(2 * num_rows, COLUMNS, generator=torch.Generator().manual_seed(rank))
    plan = plan_between(rank, num_rows)
    halo = Stochastic().rows(num_rows, COLUMNS, x.device)
    clock: dict[str, float] = {}
    channels = {
        (transport, name): _channel(plan, *of, make_transport(transport, rank, 2), clock, header=name in CASES)
        for transport in transports
        for name, of in {**CASES, **BARE}.items()
    }
    seconds: dict[str, dict[str, list[list[float]]]] = {
        transport: {name: [] for name in (*CASES, *BARE)} for transport in transports
    }
    sizes = {}
    for epoch in range(-1, repeats):
        for (transport, name), channel in channels.items():
            dist.barrier()
            clock.clear()
            wire_s = channel.wire_s
            began = time.perf_counter()
            channel.post(x, halo, epoch=max(epoch, 0)).decode()
            whole = time.perf_counter() - began
            if epoch >= 0:  # the first round connects, allocates and lets TCP find its window
                parts = {**clock, "whole": whole, "wire": channel.wire_s - wire_s}
                seconds[transport][name].append([parts[part] for part in PARTS])
            else:
                sizes[name] = channel.bytes_payload + channel.bytes_params
        if rank == 0 and epoch >= 0:
            print(f"bench exchange: repeat {epoch + 1} of {repeats}", file=sys.stderr, flush=True)
    return seconds, sizes


def plan_between(rank: int, num_rows: int) -> Plan:
    """Half of the rows of each worker's ``2 * num_rows`` go to the other, ascending, as in a shard's send list."""
    import torch

    from gnnqlab.partition.plan import Plan, Route

    def boundary(sender: int) -> torch.Tensor:
        order = torch.randperm(2 * num_rows, generator=torch.Generator().manual_seed(10 + sender))
        return order[:num_rows].sort().values

    mine, theirs = boundary(rank), boundary(1 - rank)
    send = Route(peer=1 - rank, rows=mine, ids=mine + 2 * num_rows * rank, first=None)
    ids = theirs + 2 * num_rows * (1 - rank)
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
        began = time.perf_counter()
        yield
        clock[name] = clock.get(name, 0.0) + time.perf_counter() - began

    return Channel(
        layer=0,
        direction="forward",
        plan=plan,
        codec=Float32() if bits == 32 else Stochastic(parameters=parameters),
        bits=Fixed(bits=bits),
        transport=transport,
        seed=1,
        run=1 if header else None,
        phases=phases,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels.exchange")
    parser.add_argument("folder")
    parser.add_argument("rank", type=int)
    parser.add_argument("settings", type=json.loads)
    given = parser.parse_args()
    _work(given.folder, given.rank, **given.settings)
