"""Start this machine's workers of a run over several machines, by the same command on each with its own number.

    machine 0: gnnqlab train ... --nnodes 2 --node-rank 0 --address HOST    machine 1: ... --node-rank 1 ...

The machines meet at the address before anything starts: all must have the same settings, versions and run folder. They
raise the same error if one cannot work.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.atomic import replacing
from gnnqlab.errors import LaunchRefused
from gnnqlab.launch.cluster import check_division, torchrun_arguments
from gnnqlab.launch.guarded import agent_command, guard_environment, new_run, start_guard
from gnnqlab.launch.meeting import Meeting
from gnnqlab.launch.network import interface_towards, require_interface
from gnnqlab.launch.run_history import carry_over
from gnnqlab.launch.same_folder import folder_error, wait_until_exists
from gnnqlab.launch.same_versions import find_difference, own_versions
from gnnqlab.launch.worker_target import FIT
from gnnqlab.run import folder as files
from gnnqlab.run.run import Run

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["JoinedMachine", "join_machines"]

_FRESH_S = 60.0
"""Age of a first machine's error up to which it counts for a machine that is started later."""


@dataclass(frozen=True, kw_only=True)
class JoinedMachine:
    """One machine of a run whose machines have met."""

    node: int
    """Number of the machine."""
    folder: Path
    """The run folder, on the disk that all machines share."""
    options: tuple[str, ...]
    """Options of the guard."""
    workers: tuple[str, ...]
    """Command that starts this machine's workers."""
    environment: dict[str, str]
    """Environment variables of both."""

    def start(self, *, detach: bool = False) -> Run:
        """Start the workers of the first machine; return the run."""
        start_guard(self.folder, self.workers, self.environment, detach=detach, options=self.options)
        return Run(self.folder)

    def become_guard(self) -> None:
        """Replace this process with the guard of its machine, whose exit status is that of the run."""
        sys.stdout.flush()
        sys.stderr.flush()
        command = [sys.executable, "-m", "gnnqlab.launch.guard", *self.options, str(self.folder), "--", *self.workers]
        os.execve(command[0], command, self.environment)


def join_machines(
    config: RunConfig,
    *,
    nnodes: int,
    node: int,
    address: str,
    port: int,
    interface: str | None = None,
    root: Path | None = None,
    past: tuple[str, int] | None = None,
    fit: str = FIT,
) -> JoinedMachine:
    """Wait until all machines of a run have been started; return this one, ready to start its workers.

    Args:
        config: the run; its ``workers`` are divided evenly between the machines.
        nnodes: number of machines.
        node: number of this machine, 0 for the first.
        address: address or name of the first machine.
        port: a free port of the first machine.
        interface: network interface of the workers on this machine; by default ``GLOO_SOCKET_IFNAME``, else the one
            that leads to the address.
        root: parent of the run folder; ``GNNQLAB_RUNS``, else ``runs``, by default.
        past: folder of a run to resume, and the next epoch.
        fit: ``module:function`` that every worker runs; by default training.

    Raises:
        ValueError: if a number, the address or a setting is wrong.
        LaunchRefused: on all machines, if one cannot work, or they differ in settings, versions or folder.
    """
    settings = config.to_json()
    check_division(settings, nnodes)
    if not 0 <= node < nnodes:
        raise ValueError(f"node-rank must lie in [0, {nnodes}), got {node}; the first machine has 0")
    if config.launch.retries:
        raise ValueError(
            f"restarts work on one machine only, got retries {config.launch.retries}; leave it out, and resume the run "
            "after a failure"
        )
    root = files.default_root() if root is None else root.absolute()
    own_interface, problem = "", ""
    try:
        own_interface = interface or os.environ.get("GLOO_SOCKET_IFNAME") or interface_towards(address)
        _check_machine(config, config.workers // nnodes, own_interface, root, is_first=node == 0)
    except (ValueError, LaunchRefused) as error:
        problem = str(error)
    note = _Refusal(root, address, port)
    if node == 0:
        note.clear()
    try:
        meeting = Meeting(node, nnodes, address, port, give_up=note.read)
    except ValueError as error:
        if node == 0:
            note.write(str(error))
        raise
    with meeting:
        facts = {"host": socket.gethostname(), "problem": problem, "versions": own_versions(), "settings": settings}
        _require_same(meeting.all_gather({**facts, "past": past}))
        folder, problem = root, ""
        if node == 0:
            try:
                folder = new_run(config, root=root, state="starting")
            except LaunchRefused as error:
                problem = str(error)
        run_id, problem = meeting.all_gather((folder.name, problem))[0]
        if problem:
            raise LaunchRefused(f"machine 0: {problem}")
        _require_folder(meeting, root / run_id, node)
    folder = root / run_id
    if node == 0 and past is not None:  # before the rendezvous of the workers, for which the others wait
        carry_over(Path(past[0]), folder, past[1])
    torchrun = torchrun_arguments(
        settings, nnodes, node=str(node), endpoint=f"{address}:{port}", run_id=run_id, log_folder=str(folder)
    )
    return JoinedMachine(
        node=node,
        folder=folder,
        options=(f"--machines={nnodes}", f"--node={node}"),
        workers=tuple(agent_command(settings, folder, fit, torchrun=torchrun)),
        environment=guard_environment(settings, config.workers // nnodes, interface=own_interface),
    )


class _Refusal:
    """Error of a first machine that cannot open its port, in the shared folder of runs, for machines that wait for it.

    Args:
        root: parent of the run folder.
        address: address of the first machine.
        port: its port.
    """

    def __init__(self, root: Path, address: str, port: int) -> None:
        self._path = root / f".refused-{''.join(c if c.isalnum() else '-' for c in address)}-{port}.json"

    def write(self, text: str) -> None:
        """Leave an error; without a folder that can be written the other machines wait longer."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            files.write_json(self._path, {"text": text})

    def clear(self) -> None:
        """Remove the error of an earlier attempt."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def read(self) -> str:
        """Return an error of the last minute, empty without one."""
        found = files.read_json(self._path)
        if found is None:
            return ""
        try:
            # Both times are those of the disk: clocks of machines differ.
            with replacing(self._path.with_suffix(".now")) as now_path:
                now_path.touch()
                age_s = now_path.stat().st_mtime - self._path.stat().st_mtime
        except OSError:
            return ""
        return str(found.get("text", "")) if age_s < _FRESH_S else ""


def _check_machine(config: RunConfig, local_workers: int, interface: str, root: Path, *, is_first: bool) -> None:
    """Raise if this machine cannot hold its workers."""
    from gnnqlab.launch.local import require_device
    from gnnqlab.launch.preflight import check_graph, check_machine

    require_interface(interface)
    require_device(config, local_workers)
    check_machine(config, root)
    if is_first:  # loads and partitions a graph that is not cached
        check_graph(config)


def _require_same(found: Sequence[dict[str, Any]]) -> None:
    """Raise if a machine has a problem, or the machines differ in settings or versions."""
    for node, facts in enumerate(found):
        if facts["problem"]:
            raise LaunchRefused(f"machine {node} ({facts['host']}): {facts['problem']}")
    if text := find_difference([(facts["host"], facts["versions"]) for facts in found]):
        raise LaunchRefused(text)
    first = found[0]
    for node, facts in enumerate(found):
        name, first_value, value = _first_difference(first["settings"], facts["settings"]) or ("", None, None)
        if name:
            raise LaunchRefused(
                f"all machines must get the same settings, got {name} {first_value} on machine 0 and {value} on "
                f"machine {node}; give the same command on each, with another --node-rank"
            )
        if first["past"] != facts["past"]:
            raise LaunchRefused(
                f"all machines must resume the same run, got {first['past']} on machine 0 and {facts['past']} on "
                f"machine {node}; use one folder on a shared disk"
            )


def _first_difference(first: Any, other: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Return the name of the first setting that differs, with both values; ``None`` for equal settings.

    Example:
        >>> _first_difference({"train": {"lr": 0.1, "epochs": 2}}, {"train": {"lr": 0.1, "epochs": 3}})
        ('train.epochs', 2, 3)
    """
    if first == other:
        return None
    if isinstance(first, dict) and isinstance(other, dict):
        for key in {**first, **other}:
            difference = _first_difference(first.get(key), other.get(key), f"{name}.{key}" if name else str(key))
            if difference is not None:
                return difference
    return name, first, other


def _require_folder(meeting: Meeting, folder: Path, node: int) -> None:
    """Raise on all machines if one does not see the run folder that the first has created."""
    is_visible = wait_until_exists(folder / "config.json")
    # A folder of the same name on a disk of its own would be a rare accident; the workers compare the folders again.
    missing = [other for other, sees in enumerate(meeting.all_gather(is_visible)) if not sees]
    if missing:
        if node == 0:
            shutil.rmtree(folder, ignore_errors=True)  # no process was started
        raise LaunchRefused(folder_error(folder, f"machine(s) {', '.join(map(str, missing))} do not find it"))
