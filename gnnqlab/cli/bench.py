"""The command that measures."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gnnqlab.cli.console import plain_table

__all__ = ["Bench", "benchmarks"]


@dataclass(kw_only=True)
class Bench:
    """Measure, each figure beside its limit or rival in the same run."""

    name: str
    """Which measurement; without one of the known names they are listed. results: show what is kept."""
    repeats: int | None = None
    """Interleaved repeats; default: the measurement's own."""
    link: str | None = None
    """epoch, throughput: measure systems side by side over emulated hosts with links of this rate, as 1gbit. predict:
    of the links between hosts; default 200mbit. cdfgnn: the same; default 50mbit. limits: of the paced link; default
    1gbit. minibatch: of each worker's link; default 1gbit."""
    comm_share: float | None = None
    """epoch, throughput: instead of --link, the share of its epoch that Vanilla communicates; throughput's default is
    0.89 and 0.94."""
    hosts: int | None = None
    """epoch with a link, throughput: emulated hosts; default 2. predict: only places with so many."""
    workers: str | None = None
    """epoch with a link, throughput, accuracy: numbers of workers, separated by commas; default 2,4 and 2 and 2.
    predict: only places with so many. limits: default 1,2. minibatch: default 1,2,4. codecs with --seeds: default 8."""
    graph: str | None = None
    """epoch with a link, throughput: name or path; default: a planted partition. epoch without: several, separated by
    semicolons; default one real, one made. accuracy: default two real graphs. compute: default coauthor_physics.
    systems: several, separated by commas; default three real graphs, as for exact. cdfgnn, fanouts, int8, precision:
    default amazon_computers. tango: several, separated by semicolons; the same default. cuts: several, separated by
    semicolons; default one real, three made. limits: the same; default one real, two made. versions: the same; default
    one made. minibatch: default a planted partition, for scores digits. memory: of trainings; default rmat:12,30.
    broadcasts: default cora and amazon_computers. codecs: several, separated by commas; default four real graphs, with
    --seeds three."""
    models: str | None = None
    """throughput, accuracy, codecs, compute, epoch, int8, limits, memory, minibatch, nodewise, precision, systems,
    tango: names of models, separated by commas; default: all seven, of codecs and compute three, of epoch
    gcn,graphsage, of int8, minibatch and tango gcn,gat, of limits gcn,graphsage,gcnii, of memory graphsage,gat for SAR,
    gcn for what is foreseen and else all, of nodewise gcn,graphsage,gcnii,jknet, of precision gcn, of systems
    gcn,graphsage, of versions gcn,graphsage,gcnii."""
    hidden: int | None = None
    """limits: columns of hidden layers; default those of throughput's models."""
    systems: str | None = None
    """throughput, accuracy, codecs with --seeds: names of contestants, separated by commas, as 2-bit,sylvie; default:
    all. predict: only these systems. systems: names of systems, each as published and with every service, or with a +
    the second line alone. precision: names of systems as published. caches: parts of the names of lines, as metis /
    float32; default: all. broadcasts: the same, as variation. memory: recipes whose memory is foreseen; default:
    all. versions: names of systems; default vanilla."""
    parts: str | None = None
    """memory: parts of the table, separated by commas: SAR's peaks and seconds beside Vanilla's, what is foreseen, live
    matrices, what layers keep; default: peaks,seconds,foreseen,live,kept. codecs without --seeds: errors of messages,
    their means by direction, gradients, messages that depend on those before; default:
    messages,means,gradients,late."""
    computes: str | None = None
    """precision: names of parts of the axis compute, separated by commas; default float32,bfloat16,int8."""
    epochs: int | None = None
    """epoch with a link, throughput: epochs of each run; default 120 and 12, systems that decide as they train at least
    120. accuracy: default what each model needs. compute: default 40. precision, systems: default 150.
    broadcasts: default 120. cdfgnn: default 100. codecs: default what each graph needs. fanouts: default 60. exact,
    int8, tango: default 200. limits: default 15. memory: of runs in which bytes are counted; default 2. minibatch: of
    the trainings for scores; default 30."""
    seeds: int | None = None
    """epoch, with a link: seeds over which the accuracies of Vanilla and AdaQP are compared; default: none. codecs: of
    whole trainings, which are compared instead; default: none. accuracy, broadcasts, caches, cdfgnn, compute, int8,
    minibatch, precision, tango: trainings of each contestant; default 5. fanouts: default 3."""
    first_seed: int | None = None
    """epoch with a link, accuracy, broadcasts, caches, cdfgnn, codecs, compute, int8, minibatch, precision, systems,
    tango: seed of the first of these trainings; default 0."""
    other: str | None = None
    """versions: path of the Python of an environment, or of a built checkout, that has another gnnqlab."""
    keep: str | None = None
    """Keep the rows in the table of this name, with date, machine and command. Where there is one, rows of the same
    case, figure and rival take the place of the old ones, and the others are added."""
    results: str | None = None
    """Folder of kept tables; default: the package's own, gnnqlab/results. With results: which folder to show."""
    trainings: str | None = None
    """systems: folder in which each training is kept, and found again by the next call; default runs/bench-systems.
    accuracy, broadcasts, caches, cdfgnn, codecs, exact, precision, tango: the same, default runs/bench-accuracy and so
    on; int8: that of tango."""
    page: Path | None = None
    """results: write the page of results there, its charts into a folder of the same name, and the index of all kept
    tables next to it."""
    readme: Path | None = None
    """results: write the kept table of systems between the two marks of this file."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.results import HERE, require_joinable

        if self.name == "results":
            return self._show_kept()
        for option in ("page", "readme"):
            if (path := getattr(self, option)) is not None:
                raise ValueError(
                    f"a page is made by bench results, got --{option} {path} for {self.name}; leave it out"
                )
        if self.results is not None and self.keep is None:
            raise ValueError(f"a folder of kept tables needs the name of one, got --results {self.results}; add --keep")
        if self.keep is not None:
            require_joinable(self.keep, folder=self.results or HERE)  # before hours of measuring, not after them
        given = {name: value for name in _SINGLE + _LISTS if (value := getattr(self, name)) is not None}
        options = {name: tuple(value.split(",")) if name in _LISTS else value for name, value in given.items()}
        if self.workers is not None:
            options["workers"] = _numbers(self.workers)
        result = benchmarks("registry").measure(self.name, repeats=self.repeats, **options)
        if not self.json:
            print(f"{result['machine']['processor']}, instruction set {result['machine']['instruction_set']}")
            print(_table(self.name, result["rows"]))
        if self.keep is not None:
            result["kept"] = str(self._kept(self.keep, result["rows"]))
            if not self.json:
                print(f"kept: {result['kept']}")
        return result

    def _kept(self, part: str, rows: list[dict[str, Any]]) -> Path:
        """Join rows to the table of that name, or keep them beside it: what was measured is not lost."""
        from gnnqlab.results import HERE, join, keep

        where: dict[str, Any] = {"command": self._command(), "folder": self.results or HERE}
        try:
            return join(part, rows, **where)
        except ValueError as error:
            path = keep(f"{part}-{time.strftime('%Y%m%d-%H%M%S')}", rows, **where)
            print(f"gnnqlab: {error}; they are kept as {path.stem}", file=sys.stderr)
            return path

    def _show_kept(self) -> dict[str, Any]:
        """Show all kept tables, or write the page of results."""
        from gnnqlab.results import HERE, load, markdown

        tables = load(self.results or HERE)
        if self.page is not None:
            for path, text in benchmarks("page").files(tables, self.page).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        if self.readme is not None:
            self._put_systems(tables)
        if self.json:
            return {"tables": list(tables.values())}
        if self.page is not None:
            print(f"page: {self.page}")
        else:
            try:
                print(benchmarks("page").all_tables(tables))
            except ValueError:  # an installed package has no folder benchmarks
                print("\n".join(markdown(table) for table in tables.values()))
        return {"tables": list(tables.values())}

    def _put_systems(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        page = benchmarks("page")
        assert self.readme is not None
        if "systems" not in tables:
            raise ValueError("there is no kept table of systems; make it with gnnqlab bench systems --keep systems")
        rows = page.summary(tables["systems"]["rows"])
        text = page.put_between(self.readme.read_text(encoding="utf-8"), rows)
        self.readme.write_text(text, encoding="utf-8")

    def _command(self) -> str:
        """Return the line that measures this again."""
        words = ["gnnqlab", "bench", self.name]
        for each in (each.name for each in fields(self) if each.name not in _NOT_REPEATED):
            value = getattr(self, each)
            if value is not None:
                told = {"graph": _named, "other": _another}.get(each, str)(value)
                words += [f"--{each.replace('_', '-')}", told]
        return shlex.join(words)


def benchmarks(module: str) -> Any:
    """Return a module of the benchmarks, which lie beside the package in a checkout.

    Raises:
        ValueError: if the package was installed without its sources.
    """
    try:
        return importlib.import_module(f"benchmarks.{module}")
    except ModuleNotFoundError as error:
        if error.name != "benchmarks":
            raise
        raise ValueError(
            "gnnqlab bench needs the folder benchmarks of a checkout, and it is not beside this installed package; "
            "call it in a checkout after make demo, or show the kept tables with gnnqlab bench results"
        ) from None


_SINGLE = ("link", "comm_share", "hosts", "graph", "hidden", "epochs", "seeds", "first_seed", "trainings", "other")
"""Options that a measurement takes as they were given."""
_LISTS = ("models", "systems", "parts", "computes")
"""Options with commas, which a measurement takes as tuples."""
_NOT_REPEATED = ("name", "keep", "results", "page", "readme", "trainings", "json")
"""Options that say where results go, not what is measured."""


def _another(path: str) -> str:
    """Return what stands in a kept command for a Python that is on one machine alone."""
    return Path(path).name


def _named(graphs: str) -> str:
    """Return paths of graphs as the names by which any machine that has them finds them."""
    find_graph = benchmarks("engine.graphs").find_graph

    def name(found: re.Match[str]) -> str:
        stem = Path(found[0]).stem
        return stem if find_graph(stem) else found[0]

    return re.sub(r"[^,;]+\.npz", name, graphs)


def _table(name: str, rows: list[dict[str, Any]]) -> str:
    """Return a measurement as a person reads it: as its module shows it, or each figure beside its rival."""
    own = benchmarks("registry").shown(name, rows)
    return plain_table(benchmarks("engine.rows").cells(rows) if own is None else own)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"workers must be whole numbers separated by commas, got {text!r}; for instance 2,4") from None
