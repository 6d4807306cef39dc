"""The commands that train: one system, or several for a comparison."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.cli.options import Options
from gnnqlab.lab.console import run_table

if TYPE_CHECKING:
    from gnnqlab.bench.mini_batch import Line
    from gnnqlab.launch.run import Run
    from gnnqlab.train.config import RunConfig

__all__ = ["Compare", "Train"]


@dataclass(kw_only=True)
class Train(Options):
    """Train one system on launched workers."""

    system: str = "vanilla"
    """System; `gnnqlab systems` lists them."""
    nnodes: int = 1
    """Machines; with more than one use --print-command."""
    address: str = "10.0.0.1"
    """Address of the first machine, for --print-command."""
    port: int = 29500
    """A free port of the first machine, for --print-command."""
    interface: str = "eth0"
    """Network interface the workers talk over, for --print-command."""
    print_command: bool = False
    """Print the torchrun line for every machine and a SLURM script, and train nothing."""
    resume: Path | None = None
    """Folder or name of a run that ended early: go on from its newest checkpoint, with its own settings."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.launch.local import launch

        if self.resume is not None:
            return self._finish(self._resumed(self.resume))
        config = self.configure(self.system, **self.recipe_settings())
        if self.print_command:
            return self._print_command(config)
        if self.nnodes != 1:
            raise ValueError(f"this command launches on one machine, got --nnodes {self.nnodes}; add --print-command")
        return self._finish(launch(config, root=self.out))

    def _resumed(self, place: Path) -> Run:
        from gnnqlab.launch import folder as files
        from gnnqlab.launch.continuation import resume

        free = {"resume", "epochs", "out", "json"}
        changed = [field for field in dataclasses.fields(self) if getattr(self, field.name) != field.default]
        others = [f"--{field.name.replace('_', '-')}" for field in changed if field.name not in free]
        if others:
            raise ValueError(f"--resume goes on with the settings of its run, got {others} as well; leave them out")
        epochs = self.epochs if any(field.name == "epochs" for field in changed) else None
        folder = place if place.exists() else (self.out or files.default_root()) / place
        return resume(folder, epochs=epochs, root=self.out)

    def _finish(self, run: Run) -> dict[str, Any]:
        """Follow a run to its end, write its report and show its figures."""
        from gnnqlab.lab.report import write_report

        _follow(run)
        report = write_report([run], run.folder / "report.html")
        summary = run.summary
        if not self.json:
            print(run_table([summary]))
            print(f"report: {report}")
        return summary

    def _print_command(self, config: RunConfig) -> dict[str, Any]:
        from gnnqlab.launch.cluster import slurm_script, torchrun_command
        from gnnqlab.launch.folder import new_id

        root, run_id = str(self.out or "runs"), new_id(self.system)
        commands = [
            torchrun_command(
                config, self.nnodes, node, self.address, self.port, self.interface, run_id=run_id, root=root
            )
            for node in range(self.nnodes)
        ]
        script = slurm_script(config, self.nnodes, self.port, self.interface, run_id=run_id, root=root)
        if not self.json:
            for node, command in enumerate(commands):
                print(f"# machine {node}\n{command}\n")
            print(f"# or, for sbatch:\n{script}")
        return {"commands": commands, "slurm": script}


@dataclass(kw_only=True)
class Compare(Options):
    """Train several systems on the same graph, partition, seed and link, one after the other."""

    systems: str = "vanilla,fixed-bits"
    """Names separated by commas; the first is the reference."""
    target: float | None = None
    """Validation score in [0, 1] whose time is taken; default: half a point below Vanilla's best."""
    mini_batch: bool = False
    """Train on mini-batches of sampled neighbours (DGL) as well: one process and thread, no link."""
    fanout: int = 10
    """Neighbours sampled of a node in each layer, for --mini-batch."""
    batch_size: int = 1024
    """Training nodes in a batch, for --mini-batch."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.lab.compare import compare
        from gnnqlab.lab.target import check_target
        from gnnqlab.launch import folder as files
        from gnnqlab.launch.calibrate import settle
        from gnnqlab.launch.local import launch
        from gnnqlab.systems.system import settings_for

        if self.target is not None:
            check_target(self.target)
        names = [name.strip() for name in self.systems.split(",") if name.strip()]
        if not names:
            raise ValueError(
                "systems must name at least one system, got none; for instance --systems vanilla,fixed-bits"
            )
        given = self.recipe_settings()
        chosen = {name: settings_for(name, given) for name in names}
        unused = set(given) - {setting for settings in chosen.values() for setting in settings}
        if unused:
            raise ValueError(f"none of the systems {names} takes {sorted(unused)}; leave it out or add one that does")
        configs = settle([self.configure(name, **chosen[name]) for name in names])
        runs = []
        for config in configs:
            run = launch(config, root=self.out)
            runs.append(run)
            _follow(run)
        line, reason = self._mini_batch(configs[0])
        comparison = compare([*runs, *line], target=self.target)
        folder = files.create(Path(self.out) if self.out else files.default_root(), files.new_id("compare"))
        report = comparison.report(folder / "report.html")
        summaries = [
            {**run.summary, "to_target_s": None if math.isnan(seconds) else seconds}
            for run, seconds in zip(comparison.runs, comparison.to_frame()["to_target_s"], strict=True)
        ]
        target = None if math.isnan(comparison.target) else comparison.target
        if not self.json:
            print(run_table(summaries, target=target))
            print(f"report: {report}")
        result: dict[str, Any] = {"runs": summaries[: len(runs)], "target": target, "report": str(report)}
        if self.mini_batch:
            result["mini_batch"] = summaries[-1] if line else {"skipped": reason}
        return result

    def _mini_batch(self, config: RunConfig) -> tuple[list[Line], str]:
        """Return the line of mini-batches if it was asked for, or none and why there can be none."""
        if not self.mini_batch:
            return [], ""
        from gnnqlab.bench.mini_batch import MiniBatch, why_not
        from gnnqlab.graph import load

        reason = why_not(config)
        if reason:
            print(f"mini-batches are left out: {reason}", file=sys.stderr)
            return [], reason
        print("mini-batch: one process and thread, neighbours sampled by DGL, no link", file=sys.stderr)
        batches = MiniBatch(fanout=self.fanout, batch_size=self.batch_size)
        return [batches.train(load(config.graph), config)], ""


def _follow(run: Run) -> None:
    """Wait for a run with a progress bar; its first line says where it trains."""
    settings = run.config
    print(
        f"{run.id}: {settings.system.name}, {settings.model.name}, {settings.workers} worker(s) on "
        f"{settings.launch.device} over {settings.launch.backend}",
        file=sys.stderr,
    )
    cores = len(os.sched_getaffinity(0))
    if settings.launch.device == "cpu" and settings.workers > cores:
        print(f"{settings.workers} workers share {cores} core(s): they will wait for each other", file=sys.stderr)
    run.wait(progress=True)
