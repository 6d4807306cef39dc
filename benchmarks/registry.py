"""Every measurement by name."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any

from gnnqlab.by_name import did_you_mean
from gnnqlab.train.records.provenance import machine

__all__ = ["BENCHES", "machine", "measure", "format_rows"]

BENCHES = {
    "accuracy": "benchmarks.studies.accuracy",
    "assigner": "benchmarks.kernels.assigner",
    "broadcasts": "benchmarks.studies.broadcasts",
    "caches": "benchmarks.studies.caches",
    "cdfgnn": "benchmarks.studies.cdfgnn",
    "codec": "benchmarks.kernels.codec",
    "codecs": "benchmarks.studies.codecs",
    "compute": "benchmarks.studies.compute",
    "cuts": "benchmarks.studies.cuts",
    "epoch": "benchmarks.studies.epoch",
    "exact": "benchmarks.studies.exact",
    "exchange": "benchmarks.kernels.exchange",
    "fanouts": "benchmarks.studies.fanouts",
    "faults": "benchmarks.studies.faults",
    "gpu": "benchmarks.kernels.gpu",
    "halo": "benchmarks.kernels.halo",
    "halomodels": "benchmarks.studies.halomodels",
    "int8": "benchmarks.studies.int8",
    "limits": "benchmarks.studies.limits",
    "live": "benchmarks.studies.live",
    "memory": "benchmarks.studies.memory",
    "messages": "benchmarks.studies.messages",
    "minibatch": "benchmarks.studies.parallel_batches",
    "nodewise": "benchmarks.kernels.nodewise",
    "partitioners": "benchmarks.studies.partitioners",
    "precision": "benchmarks.studies.precision",
    "predict": "benchmarks.studies.predict",
    "recommend": "benchmarks.studies.recommend",
    "sddmm": "benchmarks.kernels.sddmm",
    "spmm": "benchmarks.kernels.spmm",
    "systems": "benchmarks.studies.systems",
    "tall": "benchmarks.kernels.tall",
    "tango": "benchmarks.studies.tango",
    "tasks": "benchmarks.studies.tasks",
    "throughput": "benchmarks.studies.throughput",
    "tuner": "benchmarks.studies.tuner",
    "variance": "benchmarks.studies.variance",
    "versions": "benchmarks.studies.versions",
}
"""Name -> module with a function of that name, ``(repeats=...) -> rows``."""


def measure(name: str, *, repeats: int | None = None, **options: Any) -> dict[str, Any]:
    """Run one measurement.

    Args:
        name: name of the measurement.
        repeats: interleaved repeats; the measurement's own number by default.
        **options: options of this measurement.

    Returns:
        ``{"bench", "machine", "rows"}``; a row is ``{"case", "figure", "value", "unit", "rival", "rival_value",
        "ratio", "goal", "reached"}``, a ratio above 1 means ours is better.

    Raises:
        ValueError: if the name is unknown (the message lists the known ones), or does not take an option.
    """
    from benchmarks.engine.trained import TrainingOptions

    if name not in BENCHES:
        raise ValueError(f"bench must be one of {sorted(BENCHES)}, got {name!r}{did_you_mean(name, BENCHES)}")
    function = getattr(importlib.import_module(BENCHES[name]), name)  # imported on demand
    parameters = set(inspect.signature(function).parameters)
    if "options" in parameters:  # fields of TrainingOptions are options of the command too
        parameters |= {field.name for field in dataclasses.fields(TrainingOptions)}
    unknown_options = sorted(set(options) - parameters)
    if unknown_options:
        raise ValueError(f"bench {name} takes no {unknown_options}; leave it out")
    rows = function(**options) if repeats is None else function(repeats=repeats, **options)
    return {"bench": name, "machine": machine(), "rows": rows}


def format_rows(name: str, rows: list[dict[str, Any]]) -> list[dict[str, str]] | None:
    """Return the table of ``format_rows(rows)`` in a measurement's module, or ``None`` if it has no such function."""
    formatter = getattr(importlib.import_module(BENCHES[name]), "format_rows", None)
    table: list[dict[str, str]] | None = None if formatter is None else formatter(rows)
    return table
