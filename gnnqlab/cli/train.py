"""``gnnqlab train``: train one system."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.cli.console import run_table
from gnnqlab.cli.options import Options
from gnnqlab.errors import RunInterrupted
from gnnqlab.settings import Setting, settings_in
from gnnqlab.train.processors import usable_processors

if TYPE_CHECKING:
    from gnnqlab.launch.machines import MachineLines
    from gnnqlab.run.run import Run

__all__ = ["Train", "follow"]


@dataclass(kw_only=True)
class Train(Options):
    """Train one system on launched workers."""

    system: str = "vanilla"
    """System; `gnnqlab systems` lists them."""
    nnodes: int = 1
    """Number of machines; more than one needs --print-command."""
    address: str = "10.0.0.1"
    """Address of the first machine, for --print-command."""
    port: int = 29500
    """A free port of the first machine, for --print-command."""
    interface: str = "eth0"
    """Network interface of the workers, for --print-command."""
    print_command: bool = False
    """Print the torchrun command of every machine and a SLURM script, without training."""
    prepare: bool = False
    """Only create the run; gnnqlab worker --from-environment starts its ranks under torchrun, srun or mpirun."""
    resume: Path | None = None
    """Folder or name of a run that ended early: resume it from its newest checkpoint, with its own settings; with
    --print-command on several machines."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.launch.local import launch

        if self.nnodes != 1 and not self.print_command:
            raise ValueError(f"this command launches on one machine, got --nnodes {self.nnodes}; add --print-command")
        if self.resume is not None:
            return self._resumed(self.resume)
        config = self.configure(self.system, **self.recipe_settings(self.system))
        if self.print_command:
            from gnnqlab.launch.machines import machine_lines
            from gnnqlab.run.folder import default_root

            return self._show(machine_lines(config, **self._machines(), root=str(self.out or default_root())))
        if self.prepare:
            from gnnqlab.launch.prepared import prepare_run

            folder = prepare_run(config, root=self.out).folder
            if not self.json:
                print(folder)
            return {"run": str(folder), "command": f"gnnqlab worker --from-environment {folder}"}
        return self._finish(launch(config, root=self.out))

    def _resumed(self, place: Path) -> dict[str, Any]:
        from gnnqlab.cli.options import add_working_folder
        from gnnqlab.cli.sections import own_options
        from gnnqlab.launch.continuation import resume
        from gnnqlab.launch.machines import resume_on_machines
        from gnnqlab.run import folder as files

        # Options that do not change the training; all others come from the run.
        allowed_options = {"resume", "epochs", "out", "json"}
        if self.print_command:
            allowed_options |= {"print-command", "nnodes", "address", "port", "interface"}
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
        return self._finish(resume(folder, epochs=epochs, root=self.out))

    def _finish(self, run: Run) -> dict[str, Any]:
        """Follow a run to its end, write its report and show its figures."""
        from gnnqlab.lab.training.report import write_report

        follow(run)
        if run.ended_by is not None:  # a signal to another process of the run
            print(f"gnnqlab: {run.cause}", file=sys.stderr)
            raise RunInterrupted(run.ended_by, run.cause)
        if warning := run.warning:
            print(f"gnnqlab: {warning}", file=sys.stderr)
        report = write_report([run], run.folder / "report.html")
        summary = run.summary
        if not self.json:
            print(run_table([summary]))
            if len(decisions := run.decisions):
                entry = decisions.iloc[-1]  # the newest decision of the system
                print(f"{len(decisions)} decision(s); from epoch {entry['epoch']} on {entry['what']}: {entry['why']}")
            print(f"report: {report}")
        return summary

    def _machines(self) -> dict[str, Any]:
        return {"nnodes": self.nnodes, "address": self.address, "port": self.port, "interface": self.interface}

    def _show(self, lines: MachineLines) -> dict[str, Any]:
        if not self.json:
            print(lines)
        return {"commands": list(lines.commands), "slurm": lines.slurm}


def follow(run: Run, which: str = "") -> None:
    """Wait for a run with a progress bar, after a line with its settings, preceded by ``which`` among several runs."""
    settings = run.settings
    workers, launch = settings["workers"], settings["launch"]
    print(
        f"{which}{run.id}: {settings['system']['name']}, {settings['model']['name']}, {workers} worker(s) on "
        f"{launch['device']} over {launch['backend']}, scores {_how_often(settings['train']['evaluate_every'])}",
        file=sys.stderr,
    )
    cores = usable_processors()
    if launch["device"] == "cpu" and workers > cores:
        print(f"{workers} workers share {cores} core(s) and will wait for each other", file=sys.stderr)
    run.wait(progress=True)


def _how_often(epochs: int | None) -> str:
    return "after every epoch" if epochs == 1 else f"after every {epochs} epochs" if epochs else "after the last epoch"
