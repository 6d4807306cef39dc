"""Cells of a study's grid, their identity, and the file with their results."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gnnqlab.atomic import write_text
from gnnqlab.study.result import RunResult

if TYPE_CHECKING:
    from gnnqlab.systems.system import System
    from gnnqlab.train.config.run_config import RunConfig

__all__ = [
    "Case", "Cell", "CellResults", "Contestant", "code_in_use", "content_digest", "make_contestants", "with_link",
]  # fmt: skip

PUBLISHED, EVERY = "published", "every"


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A named system in a study.

    Example:
        >>> from gnnqlab.systems import adaqp
        >>> Contestant(name="careful", system=adaqp(lam=0.9)).label
        'careful'
        >>> Contestant(name="adaqp", system=adaqp(), services="every").label
        'adaqp+'
    """

    name: str
    """Name in the column ``system`` of the study's tables."""
    system: System
    services: str = PUBLISHED
    """``published``: the system unchanged; ``every``: with all common optimizations
    (:func:`gnnqlab.systems.services.with_every_service`), including bfloat16 weight gradients."""

    def __post_init__(self) -> None:
        if self.services not in (PUBLISHED, EVERY):
            raise ValueError(f"services must be {PUBLISHED!r} or {EVERY!r}, got {self.services!r}")

    @property
    def label(self) -> str:
        """Display name; a ``+`` marks all common optimizations."""
        return self.name + ("+" if self.services == EVERY else "")

    def settings(self) -> dict[str, Any]:
        """Return the arguments of :func:`gnnqlab.configure` for this contestant."""
        from gnnqlab.systems.services import GRADIENTS, with_every_service

        if self.services == PUBLISHED:
            return {"system": self.system}
        return {"system": with_every_service(self.system), "gradients": GRADIENTS}


class Case(NamedTuple):
    """Graph, model, number of workers and link; cells of a case differ in contestant and seed only."""

    graph: str
    model: str
    workers: int
    link: str = ""
    """Rate of each host's link; empty without a link, or before calibration."""

    def __str__(self) -> str:
        return f"{self.graph}, {self.model}, {self.workers} workers"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training of a study."""

    case: Case
    contestant: Contestant
    config: RunConfig
    content: str
    """Content hash of the graph, or its name if the name identifies it."""
    code: Mapping[str, str | None]
    """Code and processor of the training, from :func:`code_in_use`."""

    @property
    def seed(self) -> int:
        """Seed of weights, dropout and message noise, identical for all contestants."""
        return self.config.train.seed

    def columns(self) -> dict[str, Any]:
        """Return the columns that identify the cell in the study's table."""
        return {
            "graph": self.case.graph,
            "model": self.case.model,
            "system": self.contestant.name,
            "services": self.contestant.services,
            "workers": self.case.workers,
            "link": self.case.link,
            "seed": self.seed,
        }

    @cached_property
    def key(self) -> str:
        """Hash of the configuration, the graph, the package version, the kernels and the processor.

        User code named in a configuration (a codec, a model) is not included.
        """
        # Content in place of the path: a moved graph keeps its results, a changed one does not.
        config = {**self.config.to_json(), "graph": self.content}
        identity = {"name": self.contestant.name, "config": config, **self.code}
        text = json.dumps(identity, sort_keys=True)  # sorted, so that equal cells have equal text
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def code_in_use() -> dict[str, str | None]:
    """Return version, kernels and processor of a result; if one changes, cells are trained again.

    Example:
        >>> sorted(code_in_use())
        ['instruction_set', 'kernels', 'processor', 'version']
    """
    from gnnqlab import __version__
    from gnnqlab.kernels import native

    status = native.status()
    return {
        "version": __version__,
        "kernels": status["backend"],
        "instruction_set": status["isa"],
        "processor": _processor(),
    }


@lru_cache(maxsize=1)
def _processor() -> str:
    from gnnqlab.train.records.provenance import machine

    return str(machine()["processor"] or platform.machine())


def content_digest(source: str) -> str:
    """Compute the digest of a graph's files, or return ``source`` itself if it is not a path.

    Example:
        >>> content_digest("sbm:60,3,6")
        'sbm:60,3,6'
    """
    path = Path(source)
    if not path.exists():
        return source
    digest = hashlib.blake2b(digest_size=16)
    for file in [path] if path.is_file() else sorted(path.rglob("*")):  # sorted: file systems list in any order
        if file.is_file():
            digest.update(file.relative_to(path).as_posix().encode())  # relative, independent of the folder's place
            with open(file, "rb") as stream:
                digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()


class CellResults:
    """Results of trained cells, one line of JSON each, and rates of calibrated links.

    Args:
        folder: the study's folder, which also contains the runs.
    """

    def __init__(self, folder: Path) -> None:
        from gnnqlab.train.records.json_lines import read_lines

        self._path, self._links = folder / "cells.jsonl", folder / "links.json"
        # The file only grows; of several lines with one key the last counts, so a repeated cell replaces its failure.
        self._lines = {line["key"]: line for line in read_lines(self._path)} if self._path.exists() else {}

    def find(self, key: str) -> RunResult | None:
        """Return the result of a cell; ``None`` if it has not been trained or has failed."""
        line = self._lines.get(key)
        return RunResult.from_json(line["result"]) if line and line["result"] else None

    def cause(self, key: str) -> str:
        """Return the cause of a cell's last failure; empty if it has not failed."""
        return str(self._lines.get(key, {}).get("cause", ""))

    def add(self, cell: Cell, result: RunResult | None, cause: str = "") -> None:
        """Append the result of a cell, or the cause of its failure."""
        from gnnqlab.train.records.json_lines import JsonLines

        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = {
            "key": cell.key,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            **cell.columns(),
            **cell.code,
            "cause": cause,
            "result": None if result is None else result.to_json(),
        }
        # Appended and closed at once, so that an interrupted study loses no finished cell.
        lines = JsonLines(self._path)
        lines.write(line)
        lines.close()
        self._lines[cell.key] = json.loads(json.dumps(line))  # as it would be read: tuples become lists

    def link(self, case: Case, share: float) -> tuple[str, float] | None:
        """Return the rate of a case's link and Vanilla's communication share; ``None`` before calibration."""
        entry = self._known_links().get(_link_key(case, share))
        return (entry[0], entry[1]) if entry else None

    def add_link(self, case: Case, share: float, link: str, vanilla_share: float) -> None:
        """Store the rate at which Vanilla spends this share of its epoch in communication, for all later cells."""
        self._links.parent.mkdir(parents=True, exist_ok=True)
        links = {**self._known_links(), _link_key(case, share): [link, vanilla_share]}  # read again: others may add
        write_text(self._links, json.dumps(links, indent=1) + "\n")

    def _known_links(self) -> dict[str, Any]:
        links: dict[str, Any] = json.loads(self._links.read_text()) if self._links.exists() else {}
        return links


def _link_key(case: Case, share: float) -> str:
    return json.dumps([*case, share, _processor()])  # a rate is valid for the speed of one processor


def with_link(cell: Cell, link: str, vanilla_share: float) -> Cell:
    """Return a copy of a cell with a calibrated link rate in place of the requested communication share."""
    # Without comm_share, for which a launch would calibrate again; Vanilla's share is recorded instead.
    launch = dataclasses.replace(cell.config.launch, link=link, comm_share=None, vanilla_share=vanilla_share)
    config = dataclasses.replace(cell.config, launch=launch)
    return dataclasses.replace(cell, case=cell.case._replace(link=link), config=config)


def make_contestants(systems: Iterable[str | System | Contestant] | Mapping[str, str | System]) -> list[Contestant]:
    """Convert systems, system names, or a mapping from display names to systems into contestants.

    Raises:
        ValueError: if there are none, a system is unknown, or two have the same name.
    """
    from gnnqlab.systems.registry import make_system

    if isinstance(systems, str):
        raise ValueError(f"systems must be a list, got the text {systems!r}; write [{systems!r}]")
    contestants: list[Contestant] = []
    pairs = systems.items() if isinstance(systems, Mapping) else ((None, entry) for entry in systems)
    for name, entry in pairs:
        if isinstance(entry, Contestant):
            contestants.append(entry)
            continue
        system = make_system(entry) if isinstance(entry, str) else entry
        contestants.append(Contestant(name=name or system.name, system=system))
    # labels, not names: a system may appear with and without services
    labels = [contestant.label for contestant in contestants]
    if not labels:
        raise ValueError("a study needs at least one system, got none")
    if repeated_labels := sorted({label for label in labels if labels.count(label) > 1}):
        raise ValueError(
            f"systems of a study need different names, got {repeated_labels} more than once; "
            "pass {'a name': system, ...}"
        )
    return contestants
