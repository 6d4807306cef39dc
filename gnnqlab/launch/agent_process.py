"""Start the torchrun agent of one machine as a child of its guard. Standard library only."""

import os
import subprocess
from pathlib import Path

from gnnqlab.launch.exit_codes import VARIABLE, ExitCodes
from gnnqlab.launch.signals import GUARD
from gnnqlab.run import processes
from gnnqlab.train.processors import REQUESTED
from gnnqlab.train.records.machine import NODE

__all__ = ["start_agent"]


def start_agent(command: list[str], folder: Path, *, node: int, log: Path, exit_codes: ExitCodes) -> tuple[int, int]:
    """Start torchrun; return pid and start time.

    Args:
        command: the torchrun command line.
        folder: the run folder.
        node: number of this machine.
        log: receives the output.
        exit_codes: receives the exit statuses of the workers.
    """
    environment = {
        # On several machines this process is started by hand: torchrun must not replace the user's value.
        REQUESTED: os.environ.get("OMP_NUM_THREADS", ""),
        **os.environ,
        "TMPDIR": str(folder / "tmp"),  # removed at the end of the run
        GUARD: f"{os.getpid()}:{processes.start_time(os.getpid())}",
        NODE: str(node),
        VARIABLE: str(exit_codes.write_end),
    }
    with open(log, "ab") as file:
        # preexec_fn is safe here: this process has a single thread. It must live on, because the parent-death
        # signal is sent when the thread that forked ends.
        agent = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            pass_fds=[exit_codes.write_end],
            preexec_fn=processes.die_with_parent,
        )
    agent.returncode = 0  # reaped by processes.collect(), so subprocess must not wait for it
    return agent.pid, processes.start_time(agent.pid)
