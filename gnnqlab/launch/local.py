"""Launch a training on this machine: a run folder, a guard, torchrun, and a handle that returns at once."""

import os
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.launch import folder as files
from gnnqlab.launch import processes
from gnnqlab.launch.run import Run

if TYPE_CHECKING:
    from gnnqlab.train.config import RunConfig

__all__ = ["agent_command", "launch", "worker_environment"]

_GUARDS: dict[Path, subprocess.Popen[bytes]] = {}
"""Guards of this process. They hold the pipe whose end ends the run, so they must outlive a forgotten handle."""


def launch(config: "RunConfig", *, root: Path | str | None = None, wait: bool = False) -> Run:
    """Start the run that ``config`` describes in processes of its own and return its handle.

    The run ends when this process does, however it ends, unless ``config.launch.detach`` is true.

    Args:
        config: what to train and how to launch it.
        root: folder in which the run's own folder is made; ``GNNQLAB_RUNS``, else ``runs``, if it is not given.
        wait: whether to return only when the run has ended (``Run.wait``).

    Returns:
        The handle; ``Run(handle.folder)`` in any other process is as good.

    Raises:
        RuntimeError: if the folder cannot be written, or the guard does not start.
    """
    if not sys.platform.startswith("linux"):
        raise RuntimeError(f"launching needs Linux (its /proc and parent-death signals), got {sys.platform}")
    place = files.default_root() if root is None else Path(root).absolute()
    settings = config.to_json()
    folder = _new_folder(place, _system_name(settings))
    files.write_json(folder / "config.json", settings)
    files.write_json(folder / "status.json", {"state": "starting", "epoch": -1, "errors": [], "time": time.time()})
    files.append_event(folder, "launched", by=os.getpid())
    _start_guard(folder, settings)
    run = Run(folder)
    return run.wait() if wait else run


def agent_command(settings: dict[str, object], folder: Path) -> list[str]:
    """The torchrun command for all workers of a run on this machine.

    On CPU the agent imports torch and the training modules once and forks the workers; a process that uses CUDA
    cannot be forked, so there each worker starts and imports for itself.
    """
    launch = settings["launch"]
    assert isinstance(launch, dict)
    command = [
        sys.executable,
        "-m",
        "gnnqlab.launch.agent",
        "--standalone",
        "--local-addr=127.0.0.1",  # no name lookup, which can take seconds without a network
        f"--nproc-per-node={settings['workers']}",
        "--max-restarts=0",
        f"--log-dir={folder / 'tmp'}",
    ]
    return command + worker_arguments(str(launch.get("start_method")), str(launch["device"])) + [str(folder)]


def worker_arguments(start_method: str, device: str) -> list[str]:
    """How torchrun starts the worker: forked from the agent, or by itself."""
    if start_method == "fork":
        if device == "cuda":
            raise ValueError("start_method must be spawn for device cuda (a forked process cannot use it), got fork")
        return ["--start-method=fork", "--run-path", str(Path(__file__).with_name("worker.py"))]
    return ["-m", "gnnqlab.launch.worker"]


def worker_environment(settings: dict[str, object]) -> dict[str, str]:
    """Variables that every process of the run gets on top of the ones it inherits."""
    launch = settings["launch"]
    workers = settings["workers"]
    assert isinstance(launch, dict) and isinstance(workers, int)
    threads = launch.get("threads_per_worker") or max(1, len(os.sched_getaffinity(0)) * _machines(launch) // workers)
    environment = {"OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
    if _machines(launch) == 1:
        environment["GLOO_SOCKET_IFNAME"] = "lo"  # stays up whatever happens to the network
    return environment


def _machines(launch: dict[str, object]) -> int:
    machines = launch.get("nnodes") or 1
    assert isinstance(machines, int)
    return machines


def _new_folder(root: Path, system: str) -> Path:
    while True:
        try:
            return files.create(root, files.new_id(system))
        except FileExistsError:
            continue


def _system_name(settings: dict[str, object]) -> str:
    system = settings.get("system")
    if isinstance(system, dict):
        system = system.get("name")
    return system if isinstance(system, str) else "run"


def _start_guard(folder: Path, settings: dict[str, object]) -> None:
    launch = settings["launch"]
    assert isinstance(launch, dict)
    detach = bool(launch.get("detach"))
    command = [sys.executable, "-m", "gnnqlab.launch.guard"]
    if not detach:
        # The pipe may have been inherited by a child that lives on, so the pid is watched as well.
        command += ["--watch-stdin", f"--launcher={os.getpid()}:{processes.start_time(os.getpid())}"]
    command += [str(folder), "--", *agent_command(settings, folder)]
    with open(folder / "logs" / "guard.log", "ab") as log:
        guard = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in a terminal is for the launching process alone
            env={**os.environ, **_import_path(), **worker_environment(settings)},
        )
    _GUARDS[folder] = guard
    threading.Thread(target=_collect, args=(folder, guard), daemon=True).start()
    until = time.monotonic() + 10
    while not (folder / "guard.json").exists():
        if guard.poll() is not None or time.monotonic() > until:
            raise RuntimeError(
                f"the guard of a run must start, got code {guard.poll()}: "
                f"{files.tail(folder / 'logs' / 'guard.log') or 'no output'}"
            )
        time.sleep(0.005)


def _collect(folder: Path, guard: subprocess.Popen[bytes]) -> None:
    """Wait for a guard so that it does not stay in the process table after its end."""
    guard.wait()
    if guard.stdin is not None:
        guard.stdin.close()
    _GUARDS.pop(folder, None)


def _import_path() -> dict[str, str]:
    """``PYTHONPATH`` with which the processes find this very package, installed or not."""
    here = str(Path(__file__).resolve().parents[2])
    if here in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return {}
    given = os.environ.get("PYTHONPATH", "")
    return {} if here in given.split(os.pathsep) else {"PYTHONPATH": os.pathsep.join(filter(None, (here, given)))}
