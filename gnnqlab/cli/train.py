"""``gnnqlab train``: train one system."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.cli.console import duration_text, run_table
from gnnqlab.cli.options import AnnotatedOptions
from gnnqlab.errors import RunInterrupted
from gnnqlab.run.annotation import Annotation
from gnnqlab.settings import Setting, settings_in
from gnnqlab.terminal import path_link
from gnnqlab.train.processors import usable_processors

if TYPE_CHECKING:
    from gnnqlab.launch.machines import MachineLines
    from gnnqlab.run.run import Run
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["Train", "follow"]


@dataclass(kw_only=True)
class Train(AnnotatedOptions):
    """Train one system on launched workers."""

    system: str = "vanilla"
    """System; `gnnqlab systems` lists them."""
    nnodes: int = 1
    """Number of machines; more than one needs --node-rank or --print-command."""
    node_rank: int | None = None
    """Number of this machine, 0 for the first: start its workers; give the same command on every machine, with its
    number."""
    address: str | None = None
    """Address of the first machine, HOST or HOST:PORT; for several machines."""
    port: int = 29500
    """A free port of the first machine; for several machines."""
    interface: str | None = None
    """Network interface of the workers, for several machines; default: the one that leads to the address, with
    --print-command eth0."""
    print_command: bool = False
    """Print the torchrun command of every machine and a SLURM script, without training."""
    prepare: bool = False
    """Only create the run; gnnqlab worker --from-environment starts its ranks under torchrun, srun or mpirun."""
    on: str | None = None
    """Queue to submit the run to, slurm or slurm:nodes=2,partition=gpu,time=2h; other names are options of sbatch."""
    resume: Path | None = None
    """Folder or name of a run that ended early: resume it from its newest checkpoint, with its own settings; with
    --node-rank or --print-command on several machines."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.launch.local import launch

        if self.nnodes != 1 and self.node_rank is None and not self.print_command:
            raise ValueError(
                f"each of several machines needs its number, got --nnodes {self.nnodes} alone; add --node-rank, 0 on "
                "the first machine, or --print-command"
            )
        if self.resume is not None:
            return self._resumed(self.resume)
        if self.on is not None:
            return self._submit(self.on)
        config = self.configure(self.system, **self.recipe_settings(self.system))
        if self.print_command:
            if self.annotation != Annotation():
                raise ValueError("printed commands do not name a run, got --name, --tags or --note; use run.annotate")
            from gnnqlab.launch.machines import machine_lines
            from gnnqlab.run.folder import default_root

            return self._show(machine_lines(config, **self._machines(), root=str(self.out or default_root())))
        if self.node_rank is not None:
            return self._join(self.node_rank, config)
        if self.prepare:
            from gnnqlab.launch.prepared import prepare_run

            folder = prepare_run(config, root=self.out).folder
            self.annotation.write(folder)
            if not self.json:
                print(folder)
            return {"run": str(folder), "command": f"gnnqlab worker --from-environment {folder}"}
        return self._finish(launch(config, root=self.out, prepare=self.annotation.write))

    def _resumed(self, place: Path) -> dict[str, Any]:
        from gnnqlab.cli.options import add_working_folder
        from gnnqlab.cli.sections import own_options
        from gnnqlab.launch.continuation import resume
        from gnnqlab.launch.machines import resume_on_machines
        from gnnqlab.run import folder as files

        # Options that do not change the training; all others come from the run.
        allowed_options = {"resume", "epochs", "out", "json"}
        if self.print_command or self.node_rank is not None:
            allowed_options |= {"print-command", "nnodes", "node-rank", "address", "port", "interface"}
        own_settings: list[Setting] = [setting for setting in settings_in(type(self)) if setting.option is not None]
        changed_options = [setting.option for setting in own_settings if getattr(self, setting.name) != setting.default]
        extras = [f"--{option}" for option in (*changed_options, *self.option_texts) if option not in allowed_options]
        if extras:
            raise ValueError(f"--resume uses the settings of its run, got {extras} as well; leave them out")
        epochs = next(
            (count.read(self.option_texts["epochs"]) for count in own_options() if count.option in self.option_texts),
            None,
        )
        add_working_folder()  # for a user-defined model
        # A path, or the name of a run in --out.
        folder = place if place.exists() else (self.out or files.default_root()) / place
        if self.print_command:
            return self._show(resume_on_machines(folder, epochs=epochs, out=self.out, **self._machines()))
        if self.node_rank is not None:
            from gnnqlab.launch.machines import source_on_machines

            config, root, past = source_on_machines(folder, epochs, self.out)
            return self._join(self.node_rank, config, root=root, past=past)
        return self._finish(resume(folder, epochs=epochs, root=self.out))

    def _submit(self, text: str) -> dict[str, Any]:
        """Submit a run to a queue; return at once."""
        from gnnqlab.launch.prepared import prepare_run
        from gnnqlab.launch.slurm import slurm_place
        from gnnqlab.run.job import read_job

        place = slurm_place(text, self.workers)
        self.workers = place.workers
        config = self.configure(self.system, **self.recipe_settings(self.system))
        prepared = prepare_run(config, root=self.out)
        self.annotation.write(prepared.folder)
        run = place.submit(prepared)
        job = read_job(run.folder)
        assert job is not None
        if not self.json:
            print(f"job {job.id} of {place.queue}, {place.workers} worker(s): {run.folder}")
        return {"run": str(run.folder), "job": job.id, "status": run.status}

    def _join(
        self, node: int, config: RunConfig, *, root: Path | None = None, past: tuple[str, int] | None = None
    ) -> dict[str, Any]:
        """Start this machine's workers; the first machine follows the run, the others only guard their workers."""
        from gnnqlab.launch.joined import join_machines
        from gnnqlab.launch.network import split_address

        if self.address is None:
            raise ValueError("several machines meet at the first one, got no --address; give its address or name")
        address, port = split_address(self.address, self.port)
        machine = join_machines(
            config,
            nnodes=self.nnodes,
            node=node,
            address=address,
            port=port,
            interface=self.interface,
            root=root or self.out,
            past=past,
        )
        if node == 0:
            if past is None:  # a run that continues another one has its words
                self.annotation.write(machine.folder)
            return self._finish(machine.start(detach=config.launch.detach))
        if self.json:  # before the guard takes over this process; it prints to standard error
            print(json.dumps({"run": str(machine.folder), "node_rank": node}))
        machine.become_guard()
        raise AssertionError("the guard has replaced this process")

    def _finish(self, run: Run) -> dict[str, Any]:
        """Follow a run to its end, write its report and show its figures."""
        from gnnqlab.lab.training.report import write_report

        follow(run)
        if run.ended_by is not None:  # a signal to another process of the run
            print(f"gnnqlab: {run.cause}", file=sys.stderr)
            raise RunInterrupted(run.ended_by, run.cause)
        for text in [] if run.machines is None else run.machines.warnings:
            print(f"gnnqlab: {text}", file=sys.stderr)
        if warning := run.warning:
            print(f"gnnqlab: {warning}", file=sys.stderr)
        report = write_report([run], run.folder / "report.html")
        summary = run.summary
        if not self.json:
            print(run_table(summary))
            if len(decisions := run.decisions):
                entry = decisions.iloc[-1]  # the newest decision of the system
                print(f"{len(decisions)} decision(s); from epoch {entry['epoch']} on {entry['what']}: {entry['why']}")
            if text := duration_text(run.events, summary):
                print(text)
            print(f"report: {path_link(report)}")
        return summary

    def _machines(self) -> dict[str, Any]:
        from gnnqlab.launch.network import split_address

        address, port = split_address(self.address or "10.0.0.1", self.port)
        return {"nnodes": self.nnodes, "address": address, "port": port, "interface": self.interface or "eth0"}

    def _show(self, lines: MachineLines) -> dict[str, Any]:
        if not self.json:
            print(lines)
        return {"commands": list(lines.commands), "slurm": lines.slurm}


def follow(run: Run, which: str = "") -> None:
    """Wait for a run with a progress bar, after a line with its settings, preceded by ``which`` among several runs."""
    settings = run.settings
    workers, launch = settings["workers"], settings["launch"]
    is_usual = (launch["device"], launch["backend"]) == ("cpu", "gloo")
    print(
        f"{which or settings['system']['name'] + ': '}run {run.id}, {settings['model']['name']}, {workers} worker(s)"
        f"{'' if is_usual else ' on {device} over {backend}'.format_map(launch)}, "
        f"scores {_how_often(settings['train']['evaluate_every'])}",
        file=sys.stderr,
    )
    cores = usable_processors()
    if launch["device"] == "cpu" and workers > cores:
        print(f"{workers} workers share {cores} core(s) and will wait for each other", file=sys.stderr)
    run.wait(progress=True)


def _how_often(epochs: int | None) -> str:
    return "after every epoch" if epochs == 1 else f"after every {epochs} epochs" if epochs else "after the last epoch"
