"""Start a run on this machine: create its folder, and start a guard, which starts torchrun."""

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.launch.worker_target import FIT, argument, import_path, search_path
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.run import Run
from gnnqlab.train.memory import large_pages
from gnnqlab.train.processors import REQUESTED, requested_threads, threads_per_worker

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = [
    "STARTER",
    "agent_command",
    "begin",
    "guard_environment",
    "new_run",
    "plain_torchrun",
    "start_guard",
    "worker_arguments",
]

STARTER = "GNNQLAB_STARTER"
"""Environment variable: command prefix that starts the guard and so the run, for instance ``nice -n 10``."""
_START_S = 300.0
"""Limit for the guard's start: it creates the emulated link before ``guard.json``, and the machine may be busy."""
_GUARDS: dict[Path, subprocess.Popen[bytes]] = {}
"""Guards of this process. A run ends when their pipe closes, so they must outlive the handle of the run."""


def begin(
    config: "RunConfig",
    *,
    root: Path | str | None = None,
    prepare: Callable[[Path], None] | None = None,
    fit: str = FIT,
) -> Run:
    """Start the processes of a run, whose emulated link, if any, is already calibrated; return its handle.

    The run ends when this process ends for any reason, unless ``config.launch.detach`` is true.

    Args:
        config: configuration of the run.
        root: parent of the run folder; ``GNNQLAB_RUNS``, else ``runs``, by default.
        prepare: called with the new run folder, to add files before any process starts.
        fit: ``module:function`` that every worker runs; by default training.

    Raises:
        RuntimeError: if the folder cannot be written, or the guard does not start.
    """
    folder = new_run(config, root=root, state="starting")
    if prepare is not None:
        try:
            prepare(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    settings = config.to_json()
    environment = guard_environment(settings, settings["workers"], interface="lo")  # not reachable from other machines
    start_guard(folder, agent_command(settings, folder, fit), environment, detach=config.launch.detach)
    return Run(folder)


def new_run(config: "RunConfig", *, root: Path | str | None, state: str) -> Path:
    """Create the folder of a run, with all files that the guard and readers need before any process starts.

    Args:
        config: configuration of the run.
        root: parent of the run folder; ``GNNQLAB_RUNS``, else ``runs``, by default.
        state: first state of the run.
    """
    if not sys.platform.startswith("linux"):
        raise RuntimeError(f"launching needs Linux (its /proc and parent-death signals), got {sys.platform}")
    settings = config.to_json()  # raises, before there is a folder, for a part that workers cannot import
    folder = _new_folder(files.default_root() if root is None else Path(root).absolute(), config.system.name)
    files.write_json(folder / "config.json", settings)
    files.write_json(folder / "status.json", {"state": state, "epoch": -1, "errors": [], "time": time.time()})
    files.append_event(folder, "launched" if state == "starting" else state, by=os.getpid())
    return folder


def agent_command(
    settings: dict[str, Any], folder: Path, fit: str = FIT, *, torchrun: Sequence[str] | None = None
) -> list[str]:
    """Return the command that the guard runs: torchrun with preloaded modules.

    Args:
        settings: the configuration, as in ``config.json``.
        folder: the run folder.
        fit: ``module:function`` that every worker runs.
        torchrun: arguments of torchrun before those of the workers; by default all workers are on this machine.
    """
    start = worker_arguments(settings["launch"], str(Path(__file__).with_name("worker.py")))
    options = _torchrun_arguments(settings, folder) if torchrun is None else torchrun
    return [sys.executable, "-m", "gnnqlab.launch.agent", *options, *start, str(folder), argument(fit)]


def plain_torchrun(settings: dict[str, Any], folder: Path) -> list[str]:
    """Return the command of the same workers under torchrun without a guard, as baseline of measurements."""
    start = ["-m", "gnnqlab.launch.worker"]
    arguments = _torchrun_arguments(settings, folder)
    return [sys.executable, "-m", "torch.distributed.run", *arguments, *start, str(folder)]


def _torchrun_arguments(settings: dict[str, Any], folder: Path) -> list[str]:
    return [
        "--standalone",
        "--local-addr=127.0.0.1",  # no name lookup, which can take seconds without a network
        f"--nproc-per-node={settings['workers']}",
        "--max-restarts=0",
        f"--log-dir={folder / 'tmp'}",
    ]


def worker_arguments(launch: dict[str, Any], worker_file: str) -> list[str]:
    """Return torchrun's arguments for the start of workers.

    On CPU the agent imports torch and the training modules once and forks the workers. A process that uses CUDA cannot
    be forked, so there each worker is a new process with its own imports.
    """
    method = launch["start_method"] or ("spawn" if launch["device"] == "cuda" else "fork")
    return ["--start-method=fork", "--run-path", worker_file] if method == "fork" else ["-m", "gnnqlab.launch.worker"]


def guard_environment(settings: dict[str, Any], local_workers: int, *, interface: str) -> dict[str, str]:
    """Return the environment variables of a guard and its workers.

    Args:
        settings: the configuration, as in ``config.json``.
        local_workers: number of workers on this machine.
        interface: network interface of the workers.
    """
    requested = requested_threads(os.environ)
    threads, _ = threads_per_worker(settings["launch"]["threads_per_worker"], requested, local_workers)
    return {
        **os.environ,
        **import_path(),
        **search_path(),
        "OMP_NUM_THREADS": str(threads),
        REQUESTED: str(requested or ""),
        **large_pages(os.environ),
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": os.environ.get("NCCL_SOCKET_IFNAME", interface),
    }


def _new_folder(root: Path, system: str) -> Path:
    while True:
        try:
            return files.create(root, files.new_id(system))
        except FileExistsError:
            continue  # two runs drew the same name


def start_guard(
    folder: Path, workers: Sequence[str], environment: dict[str, str], *, detach: bool, options: Sequence[str] = ()
) -> None:
    """Start the guard of a run, and return when it has started the workers.

    Args:
        folder: the run folder.
        workers: command that starts the workers.
        environment: of the guard, which the workers inherit.
        detach: False to end the run when this process ends.
        options: further options of the guard.

    Raises:
        RuntimeError: if the guard does not start.
    """
    starter = shlex.split(os.environ.get("GNNQLAB_STARTER", ""))
    command = [*starter, sys.executable, "-m", "gnnqlab.launch.guard", *options]
    if not detach:
        # A surviving child process may have inherited the pipe, so the guard monitors the pid as well.
        command += ["--watch-stdin", f"--launcher={os.getpid()}:{processes.start_time(os.getpid())}"]
    command += [str(folder), "--", *workers]
    with open(folder / "logs" / "guard.log", "ab") as log:
        guard = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in a terminal must reach the launching process only
            env=environment,
        )
    _GUARDS[folder] = guard
    threading.Thread(target=_collect, args=(folder, guard), daemon=True).start()
    deadline_s = time.monotonic() + _START_S
    while not (folder / "guard.json").exists():  # the guard writes it after the start of torchrun
        if guard.poll() is not None or time.monotonic() > deadline_s:
            cause = (
                f"the guard of the run did not start (exit code {guard.poll()}): "
                f"{files.tail(folder / 'logs' / 'guard.log') or 'no output'}"
            )
            guard.kill()
            files.write_json(folder / "status.json", {"state": "failed", "cause": cause, "epoch": -1, "errors": []})
            raise RuntimeError(cause)
        time.sleep(0.005)


def _collect(folder: Path, guard: subprocess.Popen[bytes]) -> None:
    """Reap a guard after its end, so that it does not remain in the process table."""
    guard.wait()
    if guard.stdin is not None:
        guard.stdin.close()
    _GUARDS.pop(folder, None)
