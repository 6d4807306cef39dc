"""``gnnqlab bench``: run benchmarks and show their results."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from gnnqlab.cli.console import plain_table
from gnnqlab.settings import Former

__all__ = ["Bench", "benchmarks"]


@dataclass(kw_only=True)
class Bench:
    """Run a benchmark; each figure is compared with a limit or baseline measured in the same run."""

    name: str
    """Name of the benchmark; an unknown name shows the list. results: show the stored tables."""
    repeats: int | None = None
    """Interleaved repetitions; default: the benchmark's own."""
    link: str | None = None
    """epoch, throughput: compare systems over emulated hosts with links of this rate, for instance 1gbit. predict: rate
    of the links between hosts; default 200mbit. cdfgnn: the same; default 50mbit. limits: of the paced link; default
    1gbit. minibatch: of each worker's link; default 1gbit. halo: between hosts; default 1gbit. recommend: rates
    separated by commas; default 100mbit,1gbit."""
    comm_share: float | None = None
    """epoch, throughput: instead of --link, the share of its epoch that Vanilla spends communicating; default of
    throughput: 0.89 and 0.94."""
    hosts: int | None = None
    """epoch with a link, throughput: number of emulated hosts; default 2. predict: only configurations with this
    number."""
    workers: str | None = None
    """epoch with a link, throughput, accuracy, tasks: numbers of workers, separated by commas; default 2,4 and 2, 2,
    2. predict: only configurations with this number. limits: default 1,2. minibatch: default 1,2,4. codecs with
    --seeds: default 8. halo, recommend: default 2,4."""
    graph: str | None = None
    """epoch with a link, throughput: name or path; default: a planted partition. epoch without: several, separated by
    semicolons; default one real, one synthetic. accuracy: default two real graphs. compute: default coauthor_physics.
    systems: several, separated by commas; default three real graphs, as for exact. messages: several, separated by
    semicolons; default three real, one synthetic. cdfgnn, fanouts, int8, precision: default amazon_computers. tango:
    several, separated by semicolons; the same default. cuts: several, separated by semicolons; default one real, three
    synthetic. limits: the same; default one real, two synthetic. versions: the same; default one synthetic. minibatch:
    default a planted partition, for scores digits. memory: of trainings; default rmat:12,30. broadcasts: default cora
    and amazon_computers. codecs: several, separated by commas; default four real graphs, with --seeds three.
    recommend: several, separated by semicolons; default three real ones, one synthetic."""
    models: str | None = None
    """throughput, accuracy, codecs, compute, epoch, int8, limits, memory, messages, minibatch, nodewise, precision,
    systems, tango: names of models, separated by commas; default: all seven; codecs and compute: three; epoch:
    gcn,graphsage; int8, minibatch and tango: gcn,gat; limits: gcn,graphsage,gcnii; memory: graphsage,gat for SAR, gcn
    for predicted memory, else all; nodewise: gcn,graphsage,gcnii,jknet; messages and precision: gcn; systems:
    gcn,graphsage; versions: gcn,graphsage,gcnii."""
    hidden: int | None = None
    """limits: hidden dimension; default those of throughput's models."""
    systems: str | None = None
    """throughput, accuracy, codecs with --seeds: names of contestants, separated by commas, for instance 2-bit,sylvie;
    default: all. predict: only these systems. systems: names of systems, each as published and with all compatible
    features of this library, or with a + only the latter. precision: names of systems as published. caches: parts of
    the names of rows, for instance metis / float32; default: all. broadcasts and messages: the same, for instance
    variation. memory: recipes whose memory is predicted; default: all. versions: names of systems; default vanilla.
    recommend: systems to rank; default: all."""
    parts: str | None = None
    """memory: parts of the table, separated by commas: SAR's peaks and seconds compared with Vanilla's, predicted
    memory, live matrices, activations saved by layers, bytes and memory of a worker of feature-parallel with 2, 4 and
    8 workers; default: peaks,seconds,foreseen,live,kept,workers. codecs without
    --seeds: errors of messages, their means by direction, gradients, messages that depend on earlier ones, leading
    directions of rows; default: messages,means,gradients,late,spectrum. tasks: names of tasks; default all. faults:
    times of reports, random signals, deaths of workers, cost of supervision; default: times,signals,kills,cost."""
    draws: int | None = None
    """faults: number of random signals, and of random deaths of workers; default 100. Those that succeeded at this
    commit are not repeated."""
    computes: str | None = None
    """precision: names of parts of the axis compute, separated by commas; default float32,bfloat16,int8."""
    epochs: int | None = None
    """epoch with a link, throughput: epochs of each run; default 120 and 12, at least 120 for systems that adapt
    during training. accuracy: default by model. compute: default 40. precision, systems: default 150. broadcasts:
    default 120. cdfgnn: default 100. codecs: default by graph. fanouts: default 60. exact, int8, tango: default 200.
    messages: default 300. limits: default 15. memory: of runs with memory records; default 2. minibatch: of the
    trainings for scores; default 30. recommend, tasks: default 100."""
    seeds: int | None = None
    """epoch, with a link: number of seeds to compare the accuracies of Vanilla and AdaQP; default: none. codecs: of
    complete trainings, which are compared instead; default: none. accuracy, broadcasts, caches, cdfgnn, compute, int8,
    messages, minibatch, precision, systems, tango, tasks: trainings of each contestant; default 5. fanouts,
    recommend: default 3. variance: of weights and noise; default 5."""
    first_seed: int | None = None
    """epoch with a link, accuracy, broadcasts, caches, cdfgnn, codecs, compute, int8, messages, minibatch, precision,
    recommend, systems, tango, variance: seed of the first of these trainings; default 0."""
    other_python: Annotated[str | None, Former("other")] = None
    """versions: path of the Python interpreter of an environment, or of a built checkout, with another gnnqlab."""
    keep: str | None = None
    """Store the rows in the table of this name, with date, machine and command. In an existing table, rows of the same
    case, figure and baseline are replaced, and others are added."""
    results: str | None = None
    """Folder of stored tables; default: the package's own, gnnqlab/results. With results: folder to show."""
    trainings: str | None = None
    """systems: folder in which trainings are stored and reused by the next call; default runs/bench-systems. accuracy,
    broadcasts, caches, cdfgnn, codecs, exact, faults, messages, precision, recommend, tango: the same, default
    runs/bench-accuracy and so on; int8: that of tango."""
    page: Path | None = None
    """results: write the page of results to this file, its charts into a folder of the same name, and the index of all
    stored tables next to it."""
    readme: Path | None = None
    """results: write the stored table of systems, one line each, between the two markers in this file."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.results import HERE, require_joinable

        if self.name == "results":
            return self._show_stored()
        for option in ("page", "readme"):
            if (path := getattr(self, option)) is not None:
                raise ValueError(
                    f"--{option} needs bench results, got --{option} {path} for bench {self.name}; leave it out"
                )
        if self.results is not None and self.keep is None:
            raise ValueError(f"--results needs the name of a table, got --results {self.results}; add --keep")
        if self.keep is not None:
            require_joinable(self.keep, folder=self.results or HERE)  # before hours of measurement, not after them
        # Only given options are passed on, so that each benchmark has its own defaults.
        words = {name: value for name in _SINGLE + _LISTS if (value := getattr(self, name)) is not None}
        options = {name: tuple(value.split(",")) if name in _LISTS else value for name, value in words.items()}
        if self.workers is not None:
            options["workers"] = _numbers(self.workers)
        result = benchmarks("registry").measure(self.name, repeats=self.repeats, **options)
        if not self.json:
            print(f"{result['machine']['processor']}, instruction set {result['machine']['instruction_set']}")
            print(_table(self.name, result["rows"]))
        if self.keep is not None:
            result["kept"] = str(self._store(self.keep, result["rows"]))
            if not self.json:
                print(f"stored: {result['kept']}")
        return result

    def _store(self, part: str, rows: list[dict[str, Any]]) -> Path:
        """Merge rows into the table of that name, or store them as a new table, so that no measurement is lost."""
        from gnnqlab.results import HERE, join, keep

        options: dict[str, Any] = {"command": self._command(), "folder": self.results or HERE}
        try:
            return join(part, rows, **options)  # replaces rows of the same case, figure and baseline
        except ValueError as error:
            path = keep(f"{part}-{time.strftime('%Y%m%d-%H%M%S')}", rows, **options)
            print(f"gnnqlab: {error}; the rows are stored as {path.stem}", file=sys.stderr)
            return path

    def _show_stored(self) -> dict[str, Any]:
        """Show all stored tables, or write the page of results."""
        from gnnqlab.results import HERE, load, markdown

        tables = load(self.results or HERE)
        if self.page is not None:
            for path, text in benchmarks("page").files(tables, self.page).items():
                path.parent.mkdir(parents=True, exist_ok=True)  # the page, its charts and the index of tables
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
            raise ValueError("there is no stored table of systems; run gnnqlab bench systems --keep systems")
        rows = page.summary(tables["systems"]["rows"])
        text = page.put_between(self.readme.read_text(encoding="utf-8"), rows)
        self.readme.write_text(text, encoding="utf-8")

    def _command(self) -> str:
        """Return the command that repeats this measurement."""
        words = ["gnnqlab", "bench", self.name]
        for name in (each.name for each in fields(self) if each.name not in _NOT_REPEATED):
            value = getattr(self, name)
            if value is not None:
                text = {"graph": _graph_names, "other_python": _interpreter_name}.get(name, str)(value)
                words += [f"--{name.replace('_', '-')}", text]
        return shlex.join(words)


def benchmarks(module: str) -> Any:
    """Return a module of the folder ``benchmarks``, which a checkout has next to the package. Raises: ValueError: if
    the package was installed without its sources."""
    try:
        return importlib.import_module(f"benchmarks.{module}")
    except ModuleNotFoundError as error:
        if error.name != "benchmarks":  # a missing dependency of a benchmark is another error
            raise
        raise ValueError(
            "gnnqlab bench needs the folder benchmarks of a checkout, which this installed package does not have; "
            "call it in a checkout after make demo, or show the stored tables with gnnqlab bench results"
        ) from None


_SINGLE = (
    "link",
    "comm_share",
    "hosts",
    "graph",
    "hidden",
    "epochs",
    "seeds",
    "first_seed",
    "draws",
    "trainings",
    "other_python",
)
"""Options passed to a benchmark unchanged."""
_LISTS = ("models", "systems", "parts", "computes")
"""Options with commas, passed to a benchmark as tuples."""
_NOT_REPEATED = ("name", "keep", "results", "page", "readme", "trainings", "json")
"""Options for the destination of results, which do not affect the measurement."""


def _interpreter_name(path: str) -> str:
    """Return the name in a stored command for a Python interpreter whose path is valid on one machine only."""
    return Path(path).name


def _graph_names(graphs: str) -> str:
    """Return graphs by name instead of path where possible, so that the command works on other machines."""
    find_graph = benchmarks("engine.graphs").find_graph

    def name(match: re.Match[str]) -> str:
        stem = Path(match[0]).stem
        return stem if find_graph(stem) else match[0]

    return re.sub(r"[^,;]+\.npz", name, graphs)  # lists are separated by commas or semicolons


def _table(name: str, rows: list[dict[str, Any]]) -> str:
    """Return a measurement as a table: in the form of its module, or with each figure next to its baseline."""
    text = benchmarks("registry").format_rows(name, rows)
    return plain_table(benchmarks("engine.rows").cells(rows) if text is None else text)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"workers must be whole numbers separated by commas, got {text!r}; for instance 2,4") from None
