"""``gq.launch.on_machines``: the start commands of a run over several machines, and its handle once it is started."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.former_names import FormerMember
from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.launch.cluster import shared_folder, slurm_script, torchrun_command
from gnnqlab.launch.network import check_first_machine
from gnnqlab.launch.prepared import shared_graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.run.folder import default_root, new_id
from gnnqlab.run.run import Run
from gnnqlab.systems.system import System
from gnnqlab.train.config.configure import configure

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["MachineLines", "machine_lines", "on_machines", "resume_on_machines", "source_on_machines"]


@dataclass(frozen=True)
class MachineLines:
    """Commands that start one run on several machines; ``print`` shows them for copying."""

    commands: tuple[str, ...]
    """One shell command per machine, in the order of machines."""
    slurm: str
    """The same as one script for ``sbatch``."""
    folder: Path
    """Folder of the run, as a path on each machine."""
    requirement: str
    """Sentence about the shared folder that the machines need."""

    def __str__(self) -> str:
        lines = [f"# {self.requirement}\n"]
        lines += [f"# machine {node}\n{command}\n" for node, command in enumerate(self.commands)]
        return "\n".join([*lines, f"# or, for sbatch:\n{self.slurm}"])

    needs = FormerMember("requirement")

    @property
    def run(self) -> Run:
        """Handle of the run, as ``gq.launch`` returns it, on any machine with access to the folder.

        Raises:
            FileNotFoundError: if the run is not started yet, or this machine has no access to the folder.
        """
        if not self.folder.exists():
            raise FileNotFoundError(
                f"a run exists once its commands were started, got no folder {self.folder}; start them first, from "
                "this folder or with out= on the shared disk of the machines"
            )
        return Run(self.folder)


def on_machines(
    graph: GraphLike,
    *,
    nnodes: int,
    address: str,
    port: int = 29500,
    interface: str = "eth0",
    model: str | ModelSettings = "gcn",
    system: str | System = "vanilla",
    workers: int | None = None,
    out: str | Path | None = None,
    **settings: Any,
) -> MachineLines:
    """Return the commands that start one run on several machines; nothing is started here.

    Args:
        graph: a graph's name or a path that all machines can read; or a graph in memory, which is then saved under
            ``graphs`` in the folder of runs.
        nnodes: number of machines; the workers are divided evenly between them.
        address: of the first machine, in the network that the workers use.
        port: a free port of the first machine.
        interface: of that network, by its name on each machine.
        model: a model's name, its settings, or its builder on each machine as ``module:function``.
        system: a system's name, or a :class:`System`.
        workers: number of partitions, one process each; by default one per machine.
        out: parent of the run folder, on a disk that all machines share; ``$GNNQLAB_RUNS`` or ``runs`` by default.
        **settings: see :func:`gnnqlab.configure`; ``hosts`` and ``link`` work on one machine only and raise.

    Returns:
        The commands, and ``.run`` once they were started.

    Raises:
        ValueError: if a name, a setting or a value is wrong, or ``workers`` is not a multiple of ``nnodes``; if
            ``address`` is one of this machine, also for a missing interface or a taken port.
        TypeError: if ``graph`` is not a graph.

    Example:
        >>> lines = on_machines("digits", nnodes=2, address="10.0.0.1", workers=4, system="adaqp")
        >>> len(lines.commands), "#SBATCH --nodes=2" in lines.slurm
        (2, True)
    """
    _expect_machines(nnodes, "gq.launch")
    root = Path(out) if out is not None else default_root()
    count = nnodes if workers is None else workers
    name = shared_graph(graph, root, node_features=settings.get("node_features", "given"))
    config = configure(name, model=model, system=system, workers=count, **settings)
    return machine_lines(config, nnodes, address=address, port=port, interface=interface, root=str(root))


def _expect_machines(nnodes: int, function: str) -> None:
    if nnodes < 1:
        raise ValueError(f"nnodes must be at least 1, got {nnodes}; use {function} for a run on this machine only")


def resume_on_machines(
    run: Run | Path | str,
    *,
    nnodes: int,
    address: str,
    port: int = 29500,
    interface: str = "eth0",
    epochs: int | None = None,
    out: str | Path | None = None,
) -> MachineLines:
    """Return the commands that resume a run on several machines from its newest complete checkpoint, as a new run.

    Nothing is started or copied here: the first machine copies the old records when its command is started. The number
    of workers is as before, on any number of machines that divides it.

    Args:
        run: a run that has ended, or its folder, on the shared disk of the machines.
        nnodes, address, port, interface: see :func:`on_machines`.
        epochs: total number of epochs, to train more than the run was launched with.
        out: parent of the new run folder, on the same disk; by default that of the old one.

    Raises:
        ValueError: if there is no checkpoint, no epoch left to train, the number of workers is not a multiple of
            ``nnodes``, or the run had emulated hosts, which work on one machine only.
        RuntimeError: if the run has not ended.
    """
    _expect_machines(nnodes, "gq.resume")
    config, root, source = source_on_machines(run, epochs, out)
    return machine_lines(config, nnodes, address=address, port=port, interface=interface, root=str(root), past=source)


def source_on_machines(
    run: Run | Path | str, epochs: int | None, out: str | Path | None
) -> tuple[RunConfig, Path, tuple[str, int]]:
    """Return the configuration of a run to resume on several machines, the parent of the new folder, and its source.

    The source is the folder of the run and the next epoch.

    Raises:
        ValueError: if there is no checkpoint, no epoch left to train, or the run had emulated hosts.
        RuntimeError: if the run has not ended.
    """
    from gnnqlab.launch.continuation import to_go_on

    old_run, config, epoch = to_go_on(run, epochs)
    if (hosts := config.launch.hosts or 1) > 1:
        raise ValueError(
            f"emulated hosts work on one machine only, got hosts {hosts} of run {old_run.id}; use gq.resume"
        )
    config = dataclasses.replace(config, launch=dataclasses.replace(config.launch, retries=0))
    root = Path(out) if out is not None else old_run.folder.parent
    return config, root, (str(old_run.folder.absolute()), epoch)  # commands are started in any folder


def machine_lines(
    config: RunConfig,
    nnodes: int,
    *,
    address: str,
    port: int,
    interface: str,
    root: str = "runs",
    past: tuple[str, int] | None = None,
) -> MachineLines:
    """Return the commands of a configured run; see :func:`on_machines` for the other arguments.

    Args:
        past: folder of a run to resume, and the next epoch.

    Raises:
        ValueError: if this machine is the first one, and has no such interface or the port is taken.
    """
    if config.launch.retries:
        raise ValueError(
            f"restarts work on one machine only, got retries {config.launch.retries}; leave it out, and resume the run "
            "after a failure"
        )
    check_first_machine(address, port, interface)
    run_id = new_id(config.system.name)  # the same for all machines: it is torchrun's rendezvous id
    commands = tuple(
        torchrun_command(config, nnodes, node, address, port, interface, run_id=run_id, root=root, past=past)
        for node in range(max(nnodes, 1))  # one command at least, which raises for a wrong nnodes
    )
    script = slurm_script(config, nnodes, port, interface, run_id=run_id, root=root, past=past)
    return MachineLines(commands, script, Path(root) / run_id, shared_folder(root, run_id))
