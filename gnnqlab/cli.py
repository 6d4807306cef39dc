"""The command line: ``gnnqlab train | compare | bench | systems | graphs | models | doctor | runs``.

Progress goes to standard error. With ``--json`` the last line of standard output is one JSON object. The exit
code is 0 on success, 2 for a mistake of the caller (one line: rule, value, way out), 1 if a run failed and 130
after an interrupt.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from gnnqlab.lab.console import bench_table, plain_table, run_table

if TYPE_CHECKING:
    from gnnqlab.launch.run import Run
    from gnnqlab.train.config import RunConfig

__all__ = ["main"]


@dataclass(kw_only=True)
class _Options:
    """What every run shares."""

    graph: str = "digits"
    """Name or path of a graph; `gnnqlab graphs` lists the names."""
    model: str = "gcn"
    """Model; `gnnqlab models` lists them."""
    workers: int = 2
    """Partitions, one process each."""
    epochs: int = 60
    """Full-graph epochs."""
    seed: int = 0
    """Seeds weights, dropout, message noise and random partitions."""
    layers: int = 3
    """Graph layers."""
    hidden: int = 256
    """Width of every layer but the last."""
    dropout: float = 0.5
    """Probability of dropping an element of a hidden layer's input."""
    input_dropout: float = 0.0
    """The same for the raw features."""
    norm: str = "layer"
    """layer (LayerNorm between layers) or none."""
    lr: float = 0.01
    """Learning rate of Adam."""
    weight_decay: float = 0.0
    """L2 penalty."""
    evaluate_every: int = 1
    """Epochs between evaluations; 0: only after the last."""
    layer0: str = "resend"
    """Static layer-0 features: resend every epoch, or send them once, in full, and keep them."""
    transport: str = "direct"
    """How bytes move: direct, ring or all-to-all."""
    partition: str | None = None
    """Partitioner instead of the system's own: metis or random."""
    bits: int | None = None
    """Bits per element, for systems with one width: 1, 2, 4 or 8."""
    lam: float | None = None
    """λ in [0, 1] of systems that assign bits: 1 minds only variance, 0 only time."""
    group_size: int | None = None
    """Rows that share a width, for systems that assign bits."""
    period: int | None = None
    """Epochs between changes of bit-widths, for systems that change them."""
    parameters: str | None = None
    """Type of a row's zero-point and scale on the wire, for quantized messages: float32 or bfloat16."""
    device: str = "cpu"
    """cpu or cuda."""
    backend: str = "gloo"
    """gloo, or nccl with one GPU a worker."""
    threads_per_worker: int | None = None
    """Compute threads of each worker; default: the cores at hand shared out evenly."""
    out: Path | None = None
    """Folder for runs; default: $GNNQLAB_RUNS, else runs."""
    json: bool = False
    """End standard output with one JSON object."""

    def configure(self, system: str, **settings: Any) -> RunConfig:
        """Return the configuration of one run of ``system``."""
        from gnnqlab.systems.parts import PARTS
        from gnnqlab.train.configure import configure

        own = {
            "graph",
            "model",
            "workers",
            "partition",
            "bits",
            "lam",
            "group_size",
            "period",
            "parameters",
            "out",
            "json",
        }
        shared = {
            option.name: getattr(self, option.name)
            for option in dataclasses.fields(_Options)
            if option.name not in own and getattr(self, option.name) is not None
        }
        config = configure(self.graph, model=self.model, system=system, workers=self.workers, **shared, **settings)
        if self.partition is not None:
            known = PARTS["partition"]
            if self.partition not in known:
                raise ValueError(f"partition must be one of {sorted(known)}, got {self.partition!r}")
            seeded = {"seed": self.seed} if self.partition == "random" else {}
            part = known[self.partition](**seeded)
            config = dataclasses.replace(config, system=dataclasses.replace(config.system, partition=part))
        return config

    def recipe_settings(self) -> dict[str, Any]:
        """Return the options that belong to a system's recipe, those that were given."""
        names = ("bits", "lam", "group_size", "period", "parameters")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(kw_only=True)
class Train(_Options):
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

    def run(self) -> dict[str, Any]:
        from gnnqlab.lab.report import write_report
        from gnnqlab.launch.local import launch

        config = self.configure(self.system, **self.recipe_settings())
        if self.print_command:
            return self._print_command(config)
        if self.nnodes != 1:
            raise ValueError(f"this command launches on one machine, got --nnodes {self.nnodes}; add --print-command")
        run = launch(config, root=self.out)
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
class Compare(_Options):
    """Train several systems on the same graph, partition, seed and link, one after the other."""

    systems: str = "vanilla,fixed-bits"
    """Names separated by commas; the first is the reference."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.lab.compare import compare
        from gnnqlab.launch import folder as files
        from gnnqlab.launch.local import launch
        from gnnqlab.systems.system import settings_for

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
        configs = [self.configure(name, **chosen[name]) for name in names]
        runs = []
        for config in configs:
            run = launch(config, root=self.out)
            runs.append(run)
            _follow(run)
        comparison = compare(runs)
        folder = files.create(Path(self.out) if self.out else files.default_root(), files.new_id("compare"))
        report = comparison.report(folder / "report.html")
        if not self.json:
            print(run_table([run.summary for run in runs]))
            print(f"report: {report}")
        return {"runs": [run.summary for run in runs], "report": str(report)}


@dataclass(kw_only=True)
class Bench:
    """Measure, each figure beside its limit or rival in the same run."""

    name: Annotated[str, tyro.conf.Positional]
    """Which measurement; without one of the known names they are listed."""
    repeats: int | None = None
    """Interleaved repeats; default: the measurement's own."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.bench.registry import measure

        result = measure(self.name, repeats=self.repeats)
        if not self.json:
            print(bench_table(result["rows"]))
        return result


@dataclass(kw_only=True)
class _List:
    json: bool = False
    """End standard output with one JSON object."""

    def _show(self, rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
        if not self.json:
            print(plain_table(rows))
        return {key: rows}


@dataclass(kw_only=True)
class Systems(_List):
    """List the systems and what each chooses along the axes."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.systems.system import SYSTEMS

        rows = []
        for name, recipe in SYSTEMS.items():
            axes = recipe().to_json()
            parts = {axis: part["name"] for axis, part in axes.items() if isinstance(part, dict)}
            about = (recipe.__doc__ or "").partition("\n")[0]
            rows.append({"name": name, **parts, "about": about})
        return self._show(rows, "systems")


@dataclass(kw_only=True)
class Graphs(_List):
    """List the graphs that can be loaded by name."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.graph.sources import names

        return self._show([dict(row) for row in names()], "graphs")


@dataclass(kw_only=True)
class Models(_List):
    """List the models."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.nn.models import MODELS

        rows = [{"name": name, "about": (build.__doc__ or "").partition("\n")[0]} for name, build in MODELS.items()]
        return self._show(rows, "models")


@dataclass(kw_only=True)
class Runs(_List):
    """List the runs in a folder, of earlier processes too."""

    out: Path | None = None
    """Folder of runs; default: $GNNQLAB_RUNS, else runs."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.launch import runs

        rows = []
        for run in runs(self.out):
            summary = run.summary
            score = summary.get("test_accuracy", summary.get("test_f1_micro"))
            rows.append(
                {
                    "run": run.id,
                    "status": run.status,
                    "system": summary["system"],
                    "graph": Path(summary["graph"]).name,
                    "workers": summary["workers"],
                    "epochs": summary["epochs"],
                    "test": "" if score is None else f"{score:.4f}",
                }
            )
        return self._show(rows, "runs")


@dataclass(kw_only=True)
class Doctor(_List):
    """Say what this machine can do, and what is missing."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.bench.doctor import examine

        return self._show(examine(), "checks")


Command = Train | Compare | Bench | Systems | Graphs | Models | Runs | Doctor


@dataclass
class _CommandLine:
    """gnnqlab: train, understand and compare quantized distributed full-graph GNN training."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Command]] = field()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    command = _parse(sys.argv[1:] if arguments is None else list(arguments))
    try:
        result = command.run()
    except (ValueError, TypeError) as error:
        raise SystemExit(_complain(error, 2)) from None
    except KeyboardInterrupt:
        print("gnnqlab: interrupted; the run was stopped", file=sys.stderr)
        raise SystemExit(130) from None
    except (RuntimeError, OSError) as error:
        raise SystemExit(_complain(error, 1)) from None
    if command.json:
        print(json.dumps(result))


def _parse(arguments: list[str]) -> Any:
    """Return the command; a mistake in the words leaves one line and exit code 2."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            line = tyro.cli(_CommandLine, prog="gnnqlab", args=arguments, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as end:
        if end.code:
            text = re.sub(r"\x1b\[[0-9;]*m", "", said.getvalue())
            lines = [line.strip("│╭╮╰╯─ ") for line in text.splitlines()[1:]]
            reason = " ".join(itertools.takewhile(bool, lines)) or "the words of this command are not understood"
            known = arguments[0] if arguments and not arguments[0].startswith("-") else ""
            print(f"gnnqlab: {reason.rstrip('.')}; see gnnqlab {known} --help".replace("  ", " "), file=sys.stderr)
        raise
    return line.command


def _complain(error: Exception, code: int) -> int:
    print(f"gnnqlab: {error}", file=sys.stderr)
    return code


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


if __name__ == "__main__":
    main()
