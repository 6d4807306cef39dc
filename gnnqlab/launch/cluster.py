"""Start one run on several machines: a torchrun command for each, or a SLURM script; every machine has a guard.

The run id is torchrun's rendezvous id, so all commands of a run must have the same ``run_id``.
"""

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

from gnnqlab.launch.guarded import worker_arguments
from gnnqlab.launch.network import interface_address
from gnnqlab.run.folder import new_id

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["check_division", "shared_folder", "slurm_script", "torchrun_arguments", "torchrun_command"]

_JOIN_S = 900  # seconds; machines are started one after the other
_PYTHON = shlex.quote(sys.executable)
"""Python of this environment: plain ``python`` of another machine's shell may be one without the package."""
# Evaluated on each machine, where the package may have another path.
_WORKER_FILE = f'"$({_PYTHON} -c "import gnnqlab.launch.worker as w; print(w.__file__)")"'


def torchrun_command(
    config: "RunConfig",
    nnodes: int,
    node_rank: int,
    address: str,
    port: int,
    interface: str,
    *,
    run_id: str | None = None,
    root: str = "runs",
    past: tuple[str, int] | None = None,
) -> str:
    """Return the shell command that starts one machine's workers of a run.

    Args:
        config: the run; its ``workers`` are divided evenly between the machines.
        nnodes: number of machines.
        node_rank: number of this machine, 0 to ``nnodes - 1``; machine 0 hosts the rendezvous.
        address: address of machine 0 on ``interface``.
        port: a free port of machine 0.
        interface: network interface of the workers, by its name on this machine.
        run_id: name of the run, the same on all machines.
        root: folder for runs on this machine.
        past: folder of a run to resume, and the next epoch.

    Raises:
        ValueError: if ``workers`` is not a multiple of ``nnodes``, or ``node_rank`` is out of range.
    """
    if not 0 <= node_rank < nnodes:
        raise ValueError(f"node_rank must lie in [0, {nnodes}), got {node_rank}")
    return _line(
        config.to_json(),
        nnodes,
        node=str(node_rank),
        endpoint=f"{address}:{port}",
        interface=interface,
        settings_text=shlex.quote(json.dumps(config.to_json(), separators=(",", ":"))),
        root=root,
        run_id=run_id or new_id(config.system.name),
        previous_run=past,
    )


def slurm_script(
    config: "RunConfig",
    nnodes: int,
    port: int,
    interface: str,
    *,
    run_id: str | None = None,
    root: str = "runs",
    past: tuple[str, int] | None = None,
) -> str:
    """Return a script for ``sbatch`` that starts the run on ``nnodes`` machines.

    Args:
        config: the run; its ``workers`` are divided evenly between the machines.
        nnodes: number of machines.
        port: a free port of the first machine.
        interface: network interface of the workers, by its name on all machines.
        run_id: name of the run.
        root: folder for runs, as a path on each machine.
        past: folder of a run to resume, and the next epoch.
    """
    settings, name = config.to_json(), run_id or new_id(config.system.name)
    line = _line(
        settings,
        nnodes,
        # Variables of the shell, which each machine expands for itself.
        node='"$SLURM_NODEID"',
        endpoint=f'"$GNNQLAB_HOST":{port}',
        interface=interface,
        settings_text='"$GNNQLAB_CONFIG"',
        root=root,
        run_id=name,
        previous_run=past,
    )
    interface_text = shlex.quote(interface)
    gpus = (
        f"#SBATCH --gpus-per-node={settings['workers'] // nnodes}\n" if settings["launch"]["device"] == "cuda" else ""
    )
    return f"""#!/bin/bash
#SBATCH --job-name=gnnqlab
#SBATCH --nodes={nnodes}
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
{gpus}# {shared_folder(root, name)}
set -euo pipefail
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
GNNQLAB_HOST=$(srun --nodes=1 --ntasks=1 --nodelist="$first" {_PYTHON} -m gnnqlab.launch.cluster {interface_text})
GNNQLAB_CONFIG={shlex.quote(json.dumps(settings, separators=(",", ":")))}
export GNNQLAB_HOST GNNQLAB_CONFIG
srun --nodes={nnodes} --ntasks-per-node=1 --kill-on-bad-exit=1 bash -c {shlex.quote(line)}
"""


def shared_folder(root: str, run_id: str) -> str:
    """Return a sentence about the shared folder that all machines of a run need.

    Example:
        >>> shared_folder("runs", "x")
        'All machines must have the same folder runs/x on a shared disk; otherwise the run stops before training.'
    """
    return (
        f"All machines must have the same folder {root}/{run_id} on a shared disk; otherwise the run stops before "
        "training."
    )


def _line(
    settings: dict[str, Any],
    nnodes: int,
    *,
    node: str,
    endpoint: str,
    interface: str,
    settings_text: str,
    root: str,
    run_id: str,
    previous_run: tuple[str, int] | None,
) -> str:
    check_division(settings, nnodes)
    launch = settings["launch"]
    name = shlex.quote(interface)
    folder = shlex.quote(f"{root}/{run_id}")
    # Gloo and NCCL must use the network that joins the machines, not the first interface that they find.
    parts = [f"GLOO_SOCKET_IFNAME={name} NCCL_SOCKET_IFNAME={name}"]
    if launch["threads_per_worker"]:
        parts[0] += f" OMP_NUM_THREADS={launch['threads_per_worker']}"
    options = f"--machines={nnodes} --node={node} --config={settings_text}"
    if previous_run is not None:
        options += f" --past={shlex.quote(previous_run[0])} --from-epoch={previous_run[1]}"
    # The guard, and after -- torchrun, which it starts.
    torchrun = torchrun_arguments(settings, nnodes, node=node, endpoint=endpoint, run_id=run_id, log_folder=folder)
    parts += [
        f"{_PYTHON} -m gnnqlab.launch.guard {options} {folder} --",
        f"{_PYTHON} -m torch.distributed.run {' '.join(torchrun[:3])}",
        " ".join(torchrun[3:6]),
        " ".join(torchrun[6:]),
        f"{' '.join(worker_arguments(launch, _WORKER_FILE))} {folder}",
    ]
    return " \\\n  ".join(parts)


def torchrun_arguments(
    settings: dict[str, Any], nnodes: int, *, node: str, endpoint: str, run_id: str, log_folder: str
) -> list[str]:
    """Return the options of torchrun on one machine of several, before those of the workers.

    Args:
        settings: the configuration, as in ``config.json``.
        nnodes: number of machines.
        node: number of this machine.
        endpoint: ``HOST:PORT`` of the first machine.
        run_id: name of the run, the same on all machines.
        log_folder: the run folder on this machine.
    """
    return [
        f"--nnodes={nnodes}",
        f"--nproc-per-node={settings['workers'] // nnodes}",
        "--max-restarts=0",
        # Static, because the elastic rendezvous unpickles what other machines write into its store.
        "--rdzv-backend=static",
        f"--rdzv-endpoint={endpoint}",
        f"--rdzv-id={run_id}",
        f"--node-rank={node}",
        f"--rdzv-conf=timeout={_JOIN_S}",
        f"--log-dir={log_folder}/tmp",
    ]


def check_division(settings: dict[str, Any], nnodes: int) -> None:
    """Raise if a run cannot be divided between several machines.

    Raises:
        ValueError: for emulated hosts, and workers that are not a multiple of the machines.
    """
    workers, launch = settings["workers"], settings["launch"]
    if launch["hosts"] > 1:
        raise ValueError(
            f"emulated hosts work on one machine only, got hosts {launch['hosts']} for several machines; leave out "
            "hosts, link and comm_share"
        )
    if nnodes < 1 or workers % nnodes:
        raise ValueError(f"workers must be a multiple of the machines, got {workers} workers on {nnodes} machines")


if __name__ == "__main__":
    print(interface_address(sys.argv[1]))
