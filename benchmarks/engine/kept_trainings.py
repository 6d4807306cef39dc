"""Trainings that are kept one by one, so that a table of hundreds can stop and go on.

Each is one line of JSON: what was trained (graph, model, system with all its parts, settings, seed, link), on what
machine and when, and what came out. A training that stands there already, of the same machine and in every setting, is
not repeated.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.engine.training import Training

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["KeptTrainings", "Told"]


class Told(Protocol):
    """What can be told of a training, a ``graph`` among it."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""


class KeptTrainings:
    """The trainings of one folder, by what was trained.

    Args:
        folder: where ``trainings.jsonl`` and ``links.json`` are, or will be.
        machine: of this process, as :func:`gnnqlab.train.records.provenance.machine` says it; those of others are not
        taken.
    """

    def __init__(self, folder: Path, machine: Mapping[str, Any]) -> None:
        from gnnqlab.train.records.json_lines import read_lines

        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._links = folder / "trainings.jsonl", folder / "links.json"
        self._machine = dict(machine)
        lines = read_lines(self._path) if self._path.exists() else ()
        self._known = {
            _key(line["config"]): Training.from_json(line["training"])
            for line in lines
            if line["machine"] == self._machine
        }

    def find(self, config: Told) -> Training | None:
        """Return what such a training came to on this machine; ``None`` if there was none."""
        return self._known.get(_key(_plain(config)))

    def add(self, config: Told, training: Training) -> None:
        """Keep one."""
        from gnnqlab.train.records.record import JsonLines

        plain = _plain(config)
        said = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": self._machine,
            "config": plain,
            "training": training.to_json(),
        }
        lines = JsonLines(self._path)
        lines.write(said)
        lines.close()
        self._known[_key(plain)] = training

    def link(self, case: str, config: RunConfig) -> RunConfig:
        """Return a configuration with a rate in place of its ``comm_share``: the one found first, for all that follow.

        Args:
            case: graph, model and workers, in words.
            config: of Vanilla.
        """
        import dataclasses

        from gnnqlab.launch.calibrate import settle

        if config.launch.comm_share is None:
            return config
        links = json.loads(self._links.read_text()) if self._links.exists() else {}
        name = f"{case}, {config.launch.comm_share}, {self._machine['processor']}"
        if name not in links:
            settled = settle([config])[0].launch
            links[name] = [settled.link, settled.vanilla_share]
            partial = self._links.with_suffix(".partial")
            partial.write_text(json.dumps(links, indent=1) + "\n")
            partial.replace(self._links)
        rate, share = links[name]
        return dataclasses.replace(
            config, launch=dataclasses.replace(config.launch, link=rate, comm_share=None, vanilla_share=share)
        )


def _plain(config: Told) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(config.to_json()))
    return plain


def _key(config: dict[str, Any]) -> str:
    """What was trained, in one line; a graph's path is its name."""
    return json.dumps({**config, "graph": Path(config["graph"]).stem}, sort_keys=True)
