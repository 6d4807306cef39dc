"""Where the numbers of runs come from: when, on which machine, with what; from what each run wrote down itself."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gnnqlab.lab.training.snapshot import Snapshot

__all__ = ["origin", "origin_html"]

_UNKNOWN = "not recorded"


def origin(run: Snapshot) -> dict[str, str]:
    """Return date, machine, instruction set, versions, seed and commit of a run in words.

    Read from ``facts.json``, the first of ``events.jsonl`` and the configuration of the run; what is not there is "not
    recorded", never guessed from the machine that writes the report.

    Args:
        run: a snapshot; one of a run without a folder knows its seed alone.

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
    shared = cores and f"{cores} core{'' if cores == 1 else 's'} a worker"
    parts = [machine.get("processor"), shared, machine.get("gpu")]
    kernels = package.get("kernels")
    versions = {"gnnqlab": package.get("version"), "PyTorch": machine.get("torch"), "Python": machine.get("python")}
    return {
        "trained": _date(run.began_s),
        "machine": _joined(parts),
        "instruction set": _joined([machine.get("instruction_set"), kernels and f"{kernels} kernels"]),
        "versions": _joined(f"{name} {number}" for name, number in versions.items() if number),
        "seed": _joined([_mapping(run.config.get("train")).get("seed")]),
        "commit": _joined([package.get("commit")]),
    }


def origin_html(runs: Sequence[Snapshot], names: Sequence[str]) -> str:
    """Return the origins as a list for a page: one value where all runs agree, else one by run."""
    found = [origin(run) for run in runs]
    rows = []
    for what in found[0]:
        values = [one[what] for one in found]
        shown = values[:1] if len(set(values)) == 1 else [f"{name}: {value}" for name, value in zip(names, values)]
        cells = "".join(f"<dd>{html.escape(value)}</dd>" for value in shown)
        wide = ' class="each"' if len(shown) > 1 else ""  # a line of its own for every run
        rows.append(f"<div{wide}><dt>{html.escape(what)}</dt>{cells}</div>")
    return f'<dl class="origin" aria-label="Where these numbers come from">{"".join(rows)}</dl>'


def _date(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M} UTC"


def _joined(parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, "")) or _UNKNOWN


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if value else {}
