"""Snapshot of a run at one moment, read once from disk, with its label and the origin of its numbers."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gnnqlab.lab.training.sweep import flatten
from gnnqlab.run.folder import read_json

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["RunLike", "Snapshot", "graph_name", "labels", "take", "origin", "origin_html"]

_MAX_BYTES, _SPREAD = 8 << 20, 64  # at most a second to read


class RunLike(Protocol):
    """Parts of a run that views need: records, traffic, configuration and summary of a handle."""

    @property
    def records(self) -> DataFrame: ...

    @property
    def traffic(self) -> DataFrame: ...

    @property
    def config(self) -> Any: ...

    @property
    def summary(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Snapshot:
    """Records, traffic, configuration (plain JSON), summary, timeline and cache of one run, all of the same moment."""

    records: DataFrame
    traffic: DataFrame
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    folder: Path | None = None
    """Folder of the run, if it was launched."""
    timeline: DataFrame | None = None
    """Times of the parts of its exchanges in recorded epochs; empty or ``None`` if none was recorded."""
    cache: DataFrame | None = None
    """Rows offered to its cache, and rows sent; empty or ``None`` without a cache."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts recorded during set-up (``facts.json``): machine, package, sizes."""
    began_s: float | None = None
    """Time of the launch, in seconds since 1970."""


def take(run: RunLike) -> Snapshot:
    """Read a run once; later epochs of a run that still trains do not appear."""
    if isinstance(run, Snapshot):
        return run
    config = getattr(run, "settings", None)  # configuration as plain JSON, if the handle has it
    if config is None:
        config = run.config if isinstance(run.config, Mapping) else run.config.to_json()
    folder = getattr(run, "folder", None)
    further_fields: dict[str, Any] = {name: getattr(run, name, None) for name in ("timeline", "cache")}
    if folder is not None:
        further_fields |= {"facts": read_json(folder / "facts.json") or {}, "began_s": _launch_time_s(run)}
    return Snapshot(run.records, _traffic(run, folder), config, run.summary, folder, **further_fields)


def _launch_time_s(run: RunLike) -> float | None:
    return next((event["time"] for event in getattr(run, "events", ()) if "time" in event), None)


def _traffic(run: RunLike, folder: Path | None) -> DataFrame:
    """Return all messages of a short run, those of some epochs of a long one, whose tables would fill the memory."""
    from gnnqlab.train.records.traffic import read_traffic

    if folder is None or sum(path.stat().st_size for path in folder.glob("traffic-rank*.jsonl")) <= _MAX_BYTES:
        return run.traffic
    return read_traffic(folder, spread=_SPREAD)


def labels(runs: Sequence[Snapshot]) -> list[str]:
    """Return a label per run: the name of its system, with the settings that differ between runs of one system."""
    systems = [str(run.summary["system"]) for run in runs]
    names = list(systems)
    for system in set(systems):
        run_indices = [number for number, name in enumerate(systems) if name == system]  # runs of one system
        # Without settings of the launch, which do not change a training, and the recipe, which repeats its parts.
        configs = [{**runs[number].config, "launch": {}, "recipe": {}} for number in run_indices]
        settings = [dict(flatten(config)) for config in configs]
        keys = [key for key in settings[0] if len({str(run_settings.get(key)) for run_settings in settings}) > 1]
        for number, run_settings in zip(run_indices, settings):
            if keys:
                # At most three settings, so that labels stay short.
                words = ", ".join(f"{key.rpartition('.')[2]} {run_settings.get(key)}" for key in keys[:3])
                names[number] = f"{system} ({words})"
    return [name if names.count(name) == 1 else f"{name} #{number}" for number, name in enumerate(names, start=1)]


def graph_name(summary: Mapping[str, Any]) -> str:
    """Return the graph's name; of a file, its name without the folder."""
    name = str(summary.get("graph", "a graph"))
    return Path(name).name if "/" in name else name


_UNKNOWN = "not recorded"


def origin(run: Snapshot) -> dict[str, str]:
    """Return date, machine, instruction set, versions, seed and commit of a run in words.

    Read from ``facts.json``, the first of ``events.jsonl`` and the configuration of the run; a missing value is "not
    recorded", never taken from the machine that writes the report.

    Args:
        run: a snapshot; for a run without a folder only the seed is known.

    Returns:
        By ``trained``, ``machine``, ``instruction set``, ``versions``, ``seed`` and ``commit``, in this order.

    Example:
        >>> from pandas import DataFrame
        >>> run = Snapshot(DataFrame(), DataFrame(), {"train": {"seed": 3}}, {"system": "vanilla"})
        >>> origin(run)["seed"], origin(run)["commit"]
        ('3', 'not recorded')
    """
    machine, package = (_mapping(run.facts.get(name)) for name in ("machine", "package"))
    cores = machine.get("cores")
    cores_text = cores and f"{cores} core{'' if cores == 1 else 's'} a worker"
    parts = [machine.get("processor"), cores_text, machine.get("gpu")]
    kernels = package.get("kernels")
    versions = {"gnnqlab": package.get("version"), "PyTorch": machine.get("torch"), "Python": machine.get("python")}
    return {
        "trained": _date(run.began_s),
        "machine": _join_known(parts),
        "instruction set": _join_known([machine.get("instruction_set"), kernels and f"{kernels} kernels"]),
        "versions": _join_known(f"{name} {number}" for name, number in versions.items() if number),
        "seed": _join_known([_mapping(run.config.get("train")).get("seed")]),
        "commit": _join_known([package.get("commit")]),
    }


def origin_html(runs: Sequence[Snapshot], names: Sequence[str], *, is_over_seeds: bool = False) -> str:
    """Return the origins as an HTML list: one value where all runs agree, else one value per run.

    Args:
        runs: the runs.
        names: their names.
        is_over_seeds: True if runs differ in their seeds: these, and the times of the first and last run, are one line.
    """
    origins = [origin(run) for run in runs]
    rows = []
    for key in origins[0]:
        values = [run_origin[key] for run_origin in origins]
        texts = values[:1] if len(set(values)) == 1 else [f"{name}: {value}" for name, value in zip(names, values)]
        if is_over_seeds and key == "seed":
            texts = [", ".join(dict.fromkeys(values))]
        elif is_over_seeds and key == "trained" and len(set(values)) > 1:
            texts = [f"{min(values)} to {max(values)}"]
        cells = "".join(f"<dd>{html.escape(value)}</dd>" for value in texts)
        class_attribute = ' class="each"' if len(texts) > 1 else ""  # a line of its own for every run
        rows.append(f"<div{class_attribute}><dt>{html.escape(key)}</dt>{cells}</div>")
    return f'<dl class="origin" aria-label="Origin of these numbers">{"".join(rows)}</dl>'


def _date(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M} UTC"


def _join_known(parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, "")) or _UNKNOWN


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if value else {}
