"""Entry of each training process: torchrun runs this file once per rank, with the run folder as its argument.

Only the standard library is imported before the process is bound to its parent and has its log and heartbeat: from then
on every error is reported.
"""

import contextlib
import datetime
import faulthandler
import io
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gnnqlab.atomic import replacing
from gnnqlab.launch.hosts import enter
from gnnqlab.launch.signals import GRACEFUL, GUARD, STACKS, forward_to_guard, restore_in_children
from gnnqlab.launch.worker_target import apply_search_path, load, target_of
from gnnqlab.run import processes
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.link import Link
from gnnqlab.train.processors import BOUND, ORIGIN, REQUESTED, SHARED_BY, requested_threads, threads_per_worker
from gnnqlab.train.records.machine import this_node
from gnnqlab.train.writable import free_space_note, is_full_disk

__all__ = ["main"]

_INIT_S = 60.0
_GROUP_S = 1800.0
"""Timeout of the process group, a last resort and therefore long: the guard reports a hang within seconds."""


def main(folder: Path, fit: str) -> None:
    """Run ``fit``, ``module:function``, as the rank that torchrun's environment names."""
    _bind_to_parent()  # first, so that no worker can outlive its guard
    apply_search_path()
    rank, node = int(os.environ["RANK"]), this_node()
    _redirect(folder / "logs" / f"rank{rank}.log")
    with open(folder / "errors" / f"rank{rank}.trace", "w") as trace:
        faulthandler.enable(trace)
        faulthandler.register(STACKS, trace)  # the guard sends it to get the stacks of a hung rank
        heartbeat = Heartbeat(folder / "heartbeat" / f"rank{rank}", rank, node=node)
        with _reported(folder, rank, heartbeat):
            _train(folder, rank, heartbeat, fit)
        # Before the file is closed, to whose descriptor both write.
        faulthandler.unregister(STACKS)
        faulthandler.disable()
    (folder / "errors" / f"rank{rank}.trace").unlink(missing_ok=True)


def _bind_to_parent() -> None:
    """Restore the default signal handlers, forward signals to the guard, and end with the launcher."""
    # A forked worker inherits torchrun's Python handlers, which cannot run during a C++ wait.
    for number in (*GRACEFUL, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    processes.die_with_parent()
    guard = os.environ.get(GUARD)
    if guard is not None:
        pid, start = map(int, guard.split(":"))
        if not processes.is_alive(pid, start):  # it died before the line above took effect
            os._exit(1)
    forward_to_guard()
    restore_in_children()
    # A core file would remain on disk and delay the report; the stack is in errors/rankR.trace.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _redirect(log: Path) -> None:
    """Send standard output and standard error, C++ included, to the log of this rank."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    sys.stdout = _log_stream(1, "replace")
    sys.stderr = _log_stream(2, "backslashreplace")


def _log_stream(descriptor: int, errors: str) -> io.TextIOWrapper:
    raw = _LossyLog(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), errors=errors, line_buffering=True)


class _LossyLog(io.FileIO):
    """Log of a rank: a full disk costs lines of it, not the run."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if not is_full_disk(error):
                raise
            return memoryview(data).nbytes


@contextlib.contextmanager
def _reported(folder: Path, rank: int, heartbeat: Heartbeat) -> Iterator[None]:
    """Report an exception to the heartbeat, the errors folder and the log, then raise it again."""
    try:
        yield
    except BaseException as error:
        phase, epoch = heartbeat.current
        report: dict[str, Any] = {
            "rank": rank,
            "type": type(error).__name__,
            "text": (str(error) + free_space_note(error, folder))[:2000],
            "phase": phase,
            "epoch": epoch,
            "monotonic_ns": time.monotonic_ns(),
            "time": time.time(),
        }
        trace_text = traceback.format_exc()
        # The heartbeat comes first, because it needs no disk space. It has 7.9 kB, and json.dumps can turn one
        # character into six bytes.
        heartbeat.fail(json.dumps({**report, "text": report["text"][:300], "traceback": trace_text[-900:]}).encode())
        with contextlib.suppress(OSError):
            _write_durably(folder / "errors" / f"rank{rank}.json", json.dumps({**report, "traceback": trace_text}))
        print(trace_text, file=sys.stderr)
        raise


def _write_durably(path: Path, text: str) -> None:
    with replacing(path) as partial_path, open(partial_path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _train(folder: Path, rank: int, heartbeat: Heartbeat, fit: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    launch = config["launch"]
    local_rank, local_workers = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    workers = int(os.environ["WORLD_SIZE"])
    if workers != config["workers"]:
        raise RuntimeError(
            f"torchrun must start the {config['workers']} workers of config.json, got {workers}; "
            f"check --nnodes and --nproc-per-node"
        )
    # Counted before _pin() reduces this process to its own cores.
    requested = requested_threads(os.environ, REQUESTED)
    # srun and mpirun may have bound each rank to processors of its own.
    num_sharing = int(os.environ.get(SHARED_BY, local_workers))
    threads, origin = threads_per_worker(launch["threads_per_worker"], requested, num_sharing)
    os.environ[ORIGIN] = origin  # for facts.json
    _pin(local_rank % num_sharing, num_sharing)

    import torch
    import torch.distributed as dist

    torch.set_num_threads(threads)
    device = _device(launch["device"], launch["backend"], local_rank, is_bound=bool(os.environ.get(BOUND)))
    train = load(fit)
    from gnnqlab.train.config.run_config import RunConfig

    run_config = RunConfig.from_json(config)
    heartbeat.phase("init", limit_s=_INIT_S)
    link = Link.from_folder(folder, workers)
    timeout = datetime.timedelta(seconds=launch["group_timeout_s"] or _GROUP_S)
    # The steps after this one are collective, so they need the process group.
    _join(launch["backend"], device, timeout, _store(folder, link, rank, workers, timeout))
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1:
        from gnnqlab.launch.machine_links import record_machine_links
        from gnnqlab.launch.same_folder import check_same_folder
        from gnnqlab.launch.same_versions import check_same_versions

        check_same_versions()
        check_same_folder(folder, rank, workers)
        record_machine_links(folder, rank, is_first_on_machine=local_rank == 0)
    if link.kind == "paced":
        from gnnqlab.launch.paced import pace

        # In a ring a worker sends to one peer at a time, else to all workers on other hosts at once.
        remote_workers = workers - workers // link.hosts
        pace(link, rank, workers, at_once=1 if config["train"]["transport"] == "ring" else remote_workers)
    train(run_config, folder, rank, workers, heartbeat)
    sys.stdout.flush()
    heartbeat.phase("done")  # from here on an error of this process no longer fails the run
    dist.destroy_process_group()


def _join(backend: str, device: Any, timeout: datetime.timedelta, store: dict[str, Any]) -> None:
    """Join the process group, and wait until every rank has joined.

    Without the wait a rank with nothing to send could connect and exit before another rank has connected to it.
    """
    import torch.distributed as dist

    dist.init_process_group(backend, timeout=timeout, device_id=device if backend == "nccl" else None, **store)
    dist.barrier()


def _store(folder: Path, link: Link, rank: int, workers: int, timeout: datetime.timedelta) -> dict[str, Any]:
    """Enter the emulated host of this rank, if there is one; return arguments for the process group.

    The connection to torchrun's store is opened before, on the loopback of the machine; Gloo opens its own connections
    afterwards, so they use the link.
    """
    import torch.distributed as dist

    from gnnqlab.launch.same_run import enter_store

    store, _, _ = next(dist.rendezvous("env://", rank, workers, timeout=timeout))
    own_store = enter_store(store, folder, rank, workers)
    if link.kind == "emulated":
        enter(link.namespaces[link.host(rank, workers)])
    return {"store": own_store, "rank": rank, "world_size": workers}


def _pin(index: int, num_sharing: int) -> None:
    """Bind each worker to its own cores if there are enough; must run before torch creates its threads."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // num_sharing
    # With fewer cores than workers their placement is left to the kernel.
    if share >= 1:
        os.sched_setaffinity(0, cores[index * share : (index + 1) * share])


def _device(name: str, backend: str, local_rank: int, *, is_bound: bool) -> Any:
    """Return the device of a rank.

    Args:
        name: ``cpu`` or ``cuda``.
        backend: of the process group.
        local_rank: number of the rank on its machine.
        is_bound: True if the starter may show each rank a GPU of its own, so that one visible GPU suffices; NCCL itself
            refuses one GPU for two ranks.
    """
    import torch

    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RuntimeError(f"device cuda needs a GPU that torch {torch.__version__} can use, got none; use device cpu")
    gpus = torch.cuda.device_count()
    if backend == "nccl" and local_rank >= gpus and not (is_bound and gpus == 1):
        raise RuntimeError(
            f"backend nccl needs one GPU per worker, got local rank {local_rank} and {gpus} GPUs; "
            f"launch fewer workers or use backend gloo"
        )
    torch.cuda.set_device(local_rank % gpus)
    return torch.device("cuda", local_rank % gpus)


if __name__ == "__main__":
    main(Path(sys.argv[1]), target_of(sys.argv[2:]))
