"""``gq.on_machines``: a run over several machines, from Python: what to start on each, and the run once it is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.launch.cluster import shared_folder, slurm_script, torchrun_command
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.run.folder import default_root, new_id
from gnnqlab.run.run import Run
from gnnqlab.systems.system import System
from gnnqlab.train.config.configure import configure
from gnnqlab.train.shard_cache import keep_graph

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["MachineLines", "machine_lines", "on_machines", "resume_on_machines"]


@dataclass(frozen=True)
class MachineLines:
    """What starts one run on several machines; printed, it is what to copy."""

    commands: tuple[str, ...]
    """A line of the shell for each machine, in their order."""
    slurm: str
    """The same as one script for ``sbatch``."""
    folder: Path
    """Of the run, as each machine must see it."""
    needs: str
    """What the machines need beside the network, in a sentence."""

    def __str__(self) -> str:
        lines = [f"# {self.needs}\n"]
        lines += [f"# machine {node}\n{command}\n" for node, command in enumerate(self.commands)]
        return "\n".join([*lines, f"# or, for sbatch:\n{self.slurm}"])

    @property
    def run(self) -> Run:
        """The run's handle, as ``gq.launch`` returns it, from any machine that sees the folder.

        Raises:
            FileNotFoundError: if nobody has started it yet, or this machine does not see the folder.
        """
        if not self.folder.exists():
            raise FileNotFoundError(
                f"a run is there once its lines were started, got no folder {self.folder}; start them first, from this "
                "folder or with out= on the disk that the machines share"
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
    """Return what to start on each of several machines for one run; nothing is started here.

    Args:
        graph: a graph's name or a path that all machines see; or a graph in memory, which is then saved under
            ``graphs`` in the folder of runs.
        nnodes: machines; they share the workers out evenly.
        address: of the first machine, in the network that the workers use.
        port: a free port of the first machine.
        interface: of that network, by its name on each machine.
        model: a model's name, its settings, or where its builder is on each machine, ``module:function``.
        system: a system's name, or a :class:`System`.
        workers: number of partitions, one process each; one a machine if nothing says otherwise.
        out: folder for the run's own folder, on a disk that all machines share; ``$GNNQLAB_RUNS`` or ``runs`` by
            default.
        **settings: see :func:`gnnqlab.configure`; ``hosts`` and ``link`` are of one machine and refused.

    Returns:
        The lines, and ``.run`` once they were started.

    Raises:
        ValueError: if a name, a setting or a value is wrong, or the machines cannot share the workers evenly.
        TypeError: if the graph is none.

    Example:
        >>> lines = on_machines("digits", nnodes=2, address="10.0.0.1", workers=4, system="adaqp")
        >>> len(lines.commands), "#SBATCH --nodes=2" in lines.slurm
        (2, True)
    """
    _expect_machines(nnodes, "gq.launch")
    root = Path(out) if out is not None else default_root()
    if not isinstance(graph, str | Path):
        from gnnqlab.graph.sources.catalogue import load

        whole = load(graph)
        whole.check_trainable()
        graph = keep_graph(whole, root.absolute() / "graphs")
    count = nnodes if workers is None else workers
    config = configure(graph, model=model, system=system, workers=count, **settings)
    return machine_lines(config, nnodes, address=address, port=port, interface=interface, root=str(root))


def _expect_machines(nnodes: int, alone: str) -> None:
    if nnodes < 1:
        raise ValueError(f"nnodes must be at least 1, got {nnodes}; a run on this machine alone is {alone}")


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
    """Return what to start on each of several machines to go on from a run's newest whole checkpoint, as a new run.

    Nothing is started or copied here: the first machine copies the past when its line is started. The workers are as
    many as before, on as many machines as are asked for.

    Args:
        run: a run that has ended, or its folder, on the disk that the machines share.
        nnodes, address, port, interface: see :func:`on_machines`.
        epochs: epochs in all, if there shall be more than the run was launched with.
        out: folder for the new run's own folder, on the same disk; by default, where the old one is.

    Raises:
        ValueError: if there is no checkpoint, nothing left to train, the machines cannot share the workers evenly, or
            the run had emulated hosts, which are of one machine.
        RuntimeError: if the run is still under way.
    """
    from gnnqlab.launch.continuation import to_go_on

    _expect_machines(nnodes, "gq.resume")
    old, config, epoch = to_go_on(run, epochs)
    if (hosts := config.launch.hosts or 1) > 1:
        raise ValueError(f"emulated hosts are of one machine, got hosts {hosts} of run {old.id}; go on with gq.resume")
    root = Path(out) if out is not None else old.folder.parent
    past = str(old.folder.absolute()), epoch
    return machine_lines(config, nnodes, address=address, port=port, interface=interface, root=str(root), past=past)


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
    """Return the lines of a configured run; as :func:`on_machines`, which says what the arguments are.

    Args:
        past: folder of a run that it goes on from, and the epoch that it goes on with.
    """
    run_id = new_id(config.system.name)
    commands = tuple(
        torchrun_command(config, nnodes, node, address, port, interface, run_id=run_id, root=root, past=past)
        for node in range(max(nnodes, 1))
    )
    script = slurm_script(config, nnodes, port, interface, run_id=run_id, root=root, past=past)
    return MachineLines(commands, script, Path(root) / run_id, shared_folder(root, run_id))
