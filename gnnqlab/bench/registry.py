"""Every measurement by name."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from gnnqlab.by_name import near
from gnnqlab.train.provenance import machine

__all__ = ["BENCHES", "machine", "measure", "shown"]

BENCHES = {
    "accuracy": "gnnqlab.bench.accuracy",
    "assigner": "gnnqlab.bench.assigner",
    "broadcasts": "gnnqlab.bench.broadcasts",
    "caches": "gnnqlab.bench.caches",
    "cdfgnn": "gnnqlab.bench.cdfgnn",
    "codec": "gnnqlab.bench.codec",
    "codecs": "gnnqlab.bench.codecs",
    "compute": "gnnqlab.bench.compute",
    "cuts": "gnnqlab.bench.cuts",
    "epoch": "gnnqlab.bench.epoch",
    "exact": "gnnqlab.bench.exact",
    "exchange": "gnnqlab.bench.exchange",
    "fanouts": "gnnqlab.bench.fanouts",
    "faults": "gnnqlab.bench.faults",
    "gpu": "gnnqlab.bench.gpu",
    "int8": "gnnqlab.bench.int8",
    "limits": "gnnqlab.bench.limits",
    "live": "gnnqlab.bench.live",
    "memory": "gnnqlab.bench.memory",
    "minibatch": "gnnqlab.bench.parallel_batches",
    "nodewise": "gnnqlab.bench.nodewise",
    "precision": "gnnqlab.bench.precision",
    "predict": "gnnqlab.bench.predict",
    "sddmm": "gnnqlab.bench.sddmm",
    "spmm": "gnnqlab.bench.spmm",
    "systems": "gnnqlab.bench.systems",
    "tall": "gnnqlab.bench.tall",
    "tango": "gnnqlab.bench.tango",
    "throughput": "gnnqlab.bench.throughput",
    "tuner": "gnnqlab.bench.tuner",
    "variance": "gnnqlab.bench.variance",
    "versions": "gnnqlab.bench.versions",
}
"""Name -> module with a function of that name, ``(repeats=...) -> rows``."""


def measure(name: str, *, repeats: int | None = None, **options: Any) -> dict[str, Any]:
    """Run one measurement.

    Args:
        name: which.
        repeats: interleaved repeats; the measurement's own number by default.
        **options: what only this measurement takes.

    Returns:
        ``{"bench", "machine", "rows"}``; a row is ``{"case", "figure", "value", "unit", "rival", "rival_value",
        "ratio", "goal", "reached"}``, a ratio above 1 means ours is better.

    Raises:
        ValueError: if the name is unknown (the message lists the known ones), or does not take an option.
    """
    if name not in BENCHES:
        raise ValueError(f"bench must be one of {sorted(BENCHES)}, got {name!r}{near(name, BENCHES)}")
    function = getattr(importlib.import_module(BENCHES[name]), name)
    unknown = sorted(set(options) - set(inspect.signature(function).parameters))
    if unknown:
        raise ValueError(f"bench {name} takes no {unknown}; leave it out")
    rows = function(**options) if repeats is None else function(repeats=repeats, **options)
    return {"bench": name, "machine": machine(), "rows": rows}


def shown(name: str, rows: list[dict[str, Any]]) -> list[dict[str, str]] | None:
    """Return the table of a measurement that has one of its own, ``shown(rows)`` in its module; else ``None``."""
    own = getattr(importlib.import_module(BENCHES[name]), "shown", None)
    found: list[dict[str, str]] | None = None if own is None else own(rows)
    return found
