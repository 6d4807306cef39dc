"""``gnnqlab compare``: train systems × models × graphs, one after another, and compare them."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.cli.grid import SystemChoice, graphs_in, models_in, systems_in
from gnnqlab.cli.options import AnnotatedOptions
from gnnqlab.cli.train import follow
from gnnqlab.terminal import path_link

if TYPE_CHECKING:
    from gnnqlab.lab.training.compare import Comparison
    from gnnqlab.run.run import Run
    from gnnqlab.train.config.run_config import RunConfig
    from gnnqlab.train.dgl_mini_batch import BaselineRun

__all__ = ["Compare"]


@dataclass(kw_only=True)
class Compare(AnnotatedOptions):
    """Train several systems on the same graph, partition, seed and link, one after another.

    Several models and graphs make a grid: every system with every model on every graph. All are evaluated equally
    often: by default as rarely as the system with the rarest evaluations (pipegcn, sylvie).
    """

    graph: str = "digits"
    """Graphs separated by commas; `gnnqlab graphs` lists the names."""
    model: str = "gcn"
    """Models separated by commas; `gnnqlab models` lists them. Your own ones are module:function, their builders."""
    systems: str = "vanilla,fixed-bits"
    """Systems separated by commas; the baseline is Vanilla, or the first one without it. A system may have its own
    settings, each after a colon:
    vanilla,fixed-bits:bits=1,fixed-bits:bits=8,adaqp:lam=0.3:bit_widths=2+4+8,bns-gcn:p=0.1. They override the options
    --bits, --lam ..., which apply to all systems that take them; `gnnqlab systems` lists the settings."""
    target: float | None = None
    """Validation score in [0, 1] for the time-to-accuracy; default: half a point below Vanilla's best on the same graph
    with the same model."""
    seeds: int = 1
    """Trainings of each system, with the seeds --seed, --seed + 1, ...; several give means with 95 % intervals, and
    speed-ups and differences between runs of the same seed."""
    mini_batch: bool = False
    """Also train on mini-batches of sampled neighbours (DGL): one process and thread, no link."""
    fanout: int = 10
    """Neighbours sampled per node and layer, for --mini-batch."""
    batch_size: int = 1024
    """Training nodes per batch, for --mini-batch."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.lab.training.comparison_table import check_target

        if self.target is not None:
            check_target(self.target)
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}; --seed sets the first of them")
        fields = self._fields()  # all of them first, so that an error is raised before any training
        count, num_trained = sum(len(cell.configs) for cell in fields), 0
        for cell in fields:
            self._train(cell, num_trained, count)
            num_trained += len(cell.configs)
        cells = [cell for cell in fields if cell.runs]
        # A cell without any successful run has nothing to compare.
        if cells:
            self._judge(cells)
        failures = [line for cell in fields for line in cell.failed]
        if not self.json:
            print(_tables(fields))
            for cell in cells:
                print(f"report: {path_link(cell.report)}")
        if failures:
            print(f"gnnqlab: {len(failures)} of {count} trainings failed", file=sys.stderr)
        return self._result(fields, cells, failures)

    def _fields(self) -> list[_Field]:
        """Return a comparison for each graph and model, with its configurations."""
        choices = systems_in(self.systems)
        # A system's own settings override common options of the same name.
        systems = [SystemChoice(each.name, {**self.select_settings(each.name), **each.settings}) for each in choices]
        surplus = set(self.system_only_options()) - {setting for choice in systems for setting in choice.settings}
        if surplus:
            names = [choice.name for choice in choices]
            raise ValueError(f"none of the systems {names} takes {sorted(surplus)}; leave it out or add one that does")
        fields = []
        for graph in graphs_in(self.graph):
            for model in models_in(self.model):
                options = dataclasses.replace(self, graph=graph, model=model)
                configs = [
                    each.configure(choice.name, **choice.settings)
                    for each in options._of_each_seed()  # seeds outside: a slow minute affects all systems of a seed
                    for choice in systems
                ]
                if self.mini_batch:
                    configs[0].require_nodes(
                        "--mini-batch", class_weights=False
                    )  # DGL's mini-batches have no link prediction
                fields.append(_Field(graph, model, systems * self.seeds, _with_equal_evaluation(configs)))
        return fields

    def _of_each_seed(self) -> list[Compare]:
        """Return the options once for each seed."""
        if self.seeds == 1:
            return [self]
        from gnnqlab.settings import settings_in
        from gnnqlab.train.config.run_config import TrainSettings

        (setting,) = (setting for setting in settings_in(TrainSettings) if setting.name == "seed")
        first = setting.read(self.option_texts.get("seed", "0"), label="seed")
        texts = [{**self.option_texts, "seed": str(first + number)} for number in range(self.seeds)]
        return [dataclasses.replace(self, option_texts=option_texts) for option_texts in texts]

    def _train(self, cell: _Field, num_trained: int, count: int) -> None:
        """Train the runs of one graph and model; a failure is reported, and the others continue."""
        from gnnqlab.launch.calibrate import resolve_comm_share
        from gnnqlab.launch.local import launch

        try:
            cell.configs = resolve_comm_share(cell.configs)  # one calibrated link for all systems
        except (RuntimeError, OSError) as error:
            for choice, config in zip(cell.choices, cell.configs, strict=True):
                seed = config.train.seed if self.seeds > 1 else None
                cell.fail(choice, f"calibrating the link failed: {error}", seed)
            return
        for number, (choice, config) in enumerate(zip(cell.choices, cell.configs), start=num_trained + 1):
            try:
                run = launch(config, root=self.out, prepare=self.annotation.write)
                seed_text = f", seed {config.train.seed}" if self.seeds > 1 else ""
                follow(run, f"{number} of {count}: {choice}{seed_text} on {cell.graph}: " if count > 1 else "")
            except (RuntimeError, OSError) as error:
                cell.fail(choice, str(error), config.train.seed if self.seeds > 1 else None)
                continue  # the next system still trains
            cell.runs.append(run)
            cell.settings.append(choice.settings)
        if self.mini_batch and cell.runs:
            cell.line, cell.no_line = self._mini_batch(cell.configs[0])

    def _mini_batch(self, config: RunConfig) -> tuple[list[BaselineRun], str]:
        """Return the result of mini-batch training, or none and the reason."""
        from gnnqlab.graph import load
        from gnnqlab.train.dgl_mini_batch import MiniBatch, unavailable_reason

        reason = unavailable_reason(config)
        if reason:
            print(f"mini-batches are skipped: {reason}", file=sys.stderr)
            return [], reason
        print("mini-batch: one process and thread, neighbours sampled by DGL, no link", file=sys.stderr)
        batches = MiniBatch(fanout=self.fanout, batch_size=self.batch_size)
        try:
            return [batches.train(load(config.graph), config)], ""
        except (RuntimeError, OSError) as error:
            print(f"gnnqlab: mini-batch, {config.model.name} on {config.graph}: {error}", file=sys.stderr)
            return [], str(error)

    def _judge(self, cells: list[_Field]) -> None:
        """Compare the runs of each graph and model, and write a page for each."""
        from gnnqlab.lab.training.compare import compare
        from gnnqlab.lab.training.seed_groups import seed_of
        from gnnqlab.lab.training.snapshot import graph_name
        from gnnqlab.run import folder as files

        folder = files.create(Path(self.out) if self.out else files.default_root(), files.new_id("compare"))
        for number, cell in enumerate(cells, start=1):
            comparison = compare([*cell.runs, *cell.line], target=self.target)
            words = f"{number}-{graph_name({'graph': cell.graph})}-{cell.model}"
            name = "report.html" if len(cells) == 1 else f"report-{re.sub(r'[^A-Za-z0-9.-]+', '_', words)}.html"
            cell.report = str(comparison.report(folder / name))
            # JSON has no NaN, which stands for runs without validation.
            cell.target = None if math.isnan(comparison.target) else comparison.target
            cell.text = repr(comparison)
            if self.seeds > 1:
                cell.over_seeds = _over_seeds(comparison)
            settings = [*cell.settings, *({} for _ in cell.line)]  # the mini-batch row comes last and has no settings
            cell.summaries = [
                {**run.summary, "settings": run_settings, "to_target_s": None if math.isnan(seconds) else seconds}
                | ({"seed": seed_of(run)} if self.seeds > 1 else {})
                for run, run_settings, seconds in zip(
                    comparison.runs, settings, comparison.to_frame()["to_target_s"], strict=True
                )
            ]

    def _result(self, fields: list[_Field], cells: list[_Field], failures: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the JSON: all runs in one list, and the facts of each graph and model separately."""
        result: dict[str, Any] = {"runs": [line for cell in cells for line in cell.summaries[: len(cell.runs)]]}
        parts = [cell.facts(mini_batch=self.mini_batch) for cell in cells]
        if len(fields) == 1 and parts:
            result |= {name: value for name, value in parts[0].items() if name not in ("graph", "model")}
        elif len(fields) > 1:
            result["comparisons"] = parts
        return {**result, "failed": failures}


@dataclass
class _Field:
    """Cell of the grid, one graph and model: its configurations, and their results."""

    graph: str
    model: str
    choices: list[SystemChoice]
    """Systems with their own settings and those of common options."""
    configs: list[RunConfig]
    runs: list[Run] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    """Settings of each run."""
    failed: list[dict[str, Any]] = field(default_factory=list)
    line: list[BaselineRun] = field(default_factory=list)
    no_line: str = ""
    target: float | None = None
    report: str = ""
    summaries: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    """The comparison as a table."""
    over_seeds: list[dict[str, Any]] | None = None
    """Means of each metric over seeds; ``None`` for one seed."""

    def fail(self, choice: SystemChoice, error: str, seed: int | None = None) -> None:
        """Record a failed training, with its seed if there are several, and report it in one line."""
        text = " ".join(error.split())
        facts = {"system": choice.name, "settings": choice.settings, "model": self.model, "graph": self.graph}
        self.failed.append({**facts, **({} if seed is None else {"seed": seed}), "error": text})
        print(f"gnnqlab: {choice}, {self.model} on {self.graph}: {text}", file=sys.stderr)

    def facts(self, *, mini_batch: bool) -> dict[str, Any]:
        """Return the JSON facts of this graph and model, without the runs."""
        facts: dict[str, Any] = {
            "graph": self.graph,
            "model": self.model,
            "target": self.target,
            "report": self.report,
        }
        if self.over_seeds is not None:
            facts["over_seeds"] = self.over_seeds
        if mini_batch:
            facts["mini_batch"] = self.summaries[-1] if self.line else {"skipped": self.no_line}
        return facts


def _tables(fields: list[_Field]) -> str:
    """Return a table for each graph and model, over seeds if there are several."""
    blocks = []
    for cell in fields:
        lines = [f"{cell.model} on {Path(cell.graph).name}"] if len(fields) > 1 else []
        lines += [cell.text] if cell.text else []
        for each in cell.failed:
            seed = f", seed {each['seed']}" if "seed" in each else ""
            lines.append(f"failed: {SystemChoice(each['system'], each['settings'])}{seed}")
        lines += [f"no mini-batch line for {cell.model} on {cell.graph}: {cell.no_line}"] if cell.no_line else []
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _over_seeds(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the means over seeds as plain values; JSON has no NaN, which stands for an interval of one seed."""
    columns = ["system", "metric", "unit", "seeds", "mean", "half_interval", "difference", "difference_half_interval"]
    rows = comparison.summary()[columns].to_dict("records")
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def _with_equal_evaluation(configs: list[RunConfig]) -> list[RunConfig]:
    """Return configurations that are evaluated equally often, so that best epochs and times to a score compare."""
    intervals = [config.train.evaluate_every or 0 for config in configs]
    interval = 0 if 0 in intervals else max(intervals)  # 0: evaluated after the last epoch only
    trains = [dataclasses.replace(config.train, evaluate_every=interval) for config in configs]
    return [dataclasses.replace(config, train=train) for config, train in zip(configs, trains)]
