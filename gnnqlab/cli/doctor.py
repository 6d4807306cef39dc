"""Checks of this machine and its software for gnnqlab: one row per check, with a remedy if something is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import socket
import sys
from typing import Any

from gnnqlab.launch.open_files import min_open_files
from gnnqlab.launch.process_limit import free_threads, min_threads
from gnnqlab.train.processors import cpu_quota, requested_threads, usable_processors
from gnnqlab.units import human_bytes

__all__ = ["examine"]


def examine() -> list[dict[str, Any]]:
    """Return rows ``{"check", "found", "ok", "way_out"}``; ``ok`` is ``yes``, ``no`` or ``optional``."""
    # Software first, then the machine.
    limits = [
        _cores(),
        *_threads(),
        _memory(),
        _shared_memory(),
        _open_files(),
        _processes(),
        _interfaces(),
        _folders(),
        _energy(),
    ]
    machine = [*_devices(), *limits, _browser(), _hosts()]
    return [_python(), *_packages(), _metis(), *_kernels(), *_compilers(), *machine]


def _check(name: str, result: str, is_met: bool, way_out: str = "", *, optional: bool = False) -> dict[str, Any]:
    verdict = "yes" if is_met else "optional" if optional else "no"
    return {"check": name, "found": result, "ok": verdict, "way_out": "" if is_met else way_out}


def _python() -> dict[str, Any]:
    is_tested = (3, 11) <= sys.version_info[:2] <= (3, 13)  # versions with tests
    way_out = "3.11 to 3.13 are tested; the pinned versions (DGL in particular) are those for 3.11"
    return _check("python", platform.python_version(), is_tested, way_out, optional=True)


def _packages() -> list[dict[str, Any]]:
    uses = {
        "torch": "tensors and torch.distributed",
        "dgl": "DGL's readers and layers",
        "cvxpy": "the assigner's reference model",
        "plotly": "figures and reports",
        "ipywidgets": "widgets",
        "jupyterlab": "notebooks",
        "tqdm": "progress bars",
    }
    rows = []
    for package, use in uses.items():
        try:
            rows.append(_check(package, importlib.metadata.version(package), True))
        except importlib.metadata.PackageNotFoundError:
            is_optional = package not in ("torch", "plotly", "tqdm")
            rows.append(_check(package, "missing", False, f"install it for {use}", optional=is_optional))
    return rows


def _metis() -> dict[str, Any]:
    from gnnqlab.partition.metis import metis_library

    try:
        return _check("METIS", f"from {metis_library()[0]}", True)
    except RuntimeError as error:
        return _check("METIS", "none", False, str(error))


def _kernels() -> list[dict[str, Any]]:
    from gnnqlab.kernels import native

    try:
        status = native.status()
    except (ValueError, RuntimeError) as error:  # GNNQLAB_ISA is unknown, or not supported by the processor
        return [_check("kernels", "none", False, f"{error}; unset it")]
    backend = f"{status['backend']}, {status['isa'] or 'plain PyTorch'}, {status['threads']} thread(s)"
    is_compiled = status["backend"] == "native"
    way_out = status["reason"] or "GNNQLAB_KERNELS selects the reference kernels; unset it"
    if status["backend"] not in ("native", "reference"):
        way_out = f"GNNQLAB_KERNELS must be native or reference, got {status['backend']!r}; unset it"
    rows = [_check("kernels", backend, is_compiled, way_out)]
    runtimes = status["openmp"]
    # Each OpenMP runtime has its own pool of threads.
    if len(runtimes) > 1:
        rows.append(_check("OpenMP", ", ".join(runtimes), False, "several runtimes compete for the cores"))
    rows.append(
        _check("CUDA kernels", status["cuda"] or "none", bool(status["cuda"]), status["cuda_reason"], optional=True)
    )
    return rows


def _compilers() -> list[dict[str, Any]]:
    compiler = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    nvcc = shutil.which("nvcc")
    return [
        _check("C++ compiler", compiler or "none", compiler is not None, "install g++ and build again", optional=True),
        _check("nvcc", nvcc or "none", nvcc is not None, "needed to build the CUDA kernels only", optional=True),
    ]


def _devices() -> list[dict[str, Any]]:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count)) or "none"
    return [_check("GPU", names, count > 0, "training runs on the CPU", optional=True)]


def _cores() -> dict[str, Any]:
    affinity, quota = len(os.sched_getaffinity(0)), cpu_quota()
    cores = usable_processors()  # that this process can keep busy, not those of the machine
    result = f"{cores} (affinity {affinity}, CPU quota {'none' if quota is None else f'{quota:g}'})"
    return _check("cores", result, cores >= 2, "workers on one core wait for each other", optional=True)


def _threads() -> list[dict[str, Any]]:
    text = os.environ.get("OMP_NUM_THREADS")
    if not text:
        return []
    try:
        return [_check("OMP_NUM_THREADS", f"{requested_threads(os.environ)} thread(s) per worker", True)]
    except ValueError as error:
        return [_check("OMP_NUM_THREADS", text, False, str(error))]


def _memory() -> dict[str, Any]:
    from gnnqlab.train.preflight import free_bytes

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes
    free = free_bytes("cpu", 1)  # the rest of a container's limit, if that is less
    result = human_bytes(total) + ("" if free is None else f", {human_bytes(free)} free for new processes")
    is_enough = total > 2 * 2**30 and (free is None or free > 2**30)
    return _check("memory", result, is_enough, "small graphs only", optional=True)


def _shared_memory() -> dict[str, Any]:
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError as error:
        return _check("shared memory", "none", False, f"/dev/shm: {error.strerror}", optional=True)
    # Training over Gloo does not use it; NCCL and data loaders do.
    way_out = "NCCL may need more: docker run --shm-size=1g"
    return _check("shared memory", f"{human_bytes(free)} free", free >= 64 << 20, way_out, optional=True)


def _open_files() -> dict[str, Any]:
    soft, hard = (
        "unlimited" if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    most = hard if isinstance(hard, int) else sys.maxsize
    way_out = f"a run of 8 workers needs {min_open_files(8)}; raise it (ulimit -n)"
    return _check("open files", f"{soft}, raised up to {hard}", most >= min_open_files(8), way_out)


def _processes() -> dict[str, Any]:
    free, least = free_threads(), min_threads(8)
    result = "no limit" if free is None else f"{free} more"
    way_out = f"a run of 8 workers needs {least}; raise the limit (ulimit -u, docker run --pids-limit)"
    return _check("processes and threads", result, free is None or free >= least, way_out)


def _interfaces() -> dict[str, Any]:
    names = [name for _, name in socket.if_nameindex()]
    # Workers of one machine meet on the loopback.
    return _check(
        "interfaces", ", ".join(names) or "none", "lo" in names, "workers need the loopback: ip link set lo up"
    )


def _folders() -> dict[str, Any]:
    from gnnqlab.train.shard_cache import require_cache

    try:
        require_cache()
    except RuntimeError as error:
        return _check("cache", "not writable", False, str(error))
    return _check("cache", "writable", True)


def _energy() -> dict[str, Any]:
    from gnnqlab.train.records.energy import RAPL, find_meters

    names = ", ".join(meter.name for meter in find_meters())
    way_out = f"records have no energy_j: {RAPL} has no counters" + (" readable by this user" if RAPL.exists() else "")
    return _check("energy counters", names or "none", bool(names), way_out, optional=True)


def _browser() -> dict[str, Any]:
    browser = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    return _check("browser for pictures", browser or "none", browser is not None, "install chromium", optional=True)


def _hosts() -> dict[str, Any]:
    from gnnqlab.launch.emulated import available

    reason = available()
    method = "network namespaces" if reason is None else "none"
    return _check("emulated hosts", method, reason is None, reason or "", optional=True)
