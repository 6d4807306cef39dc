"""Every measurement by name, and the form in which all of them answer."""

from __future__ import annotations

import importlib
import inspect
import os
import platform
from typing import Any

__all__ = ["BENCHES", "machine", "measure", "row"]

BENCHES = {
    "accuracy": "gnnqlab.bench.accuracy",
    "assigner": "gnnqlab.bench.assigner",
    "codec": "gnnqlab.bench.codec",
    "epoch": "gnnqlab.bench.epoch",
    "exchange": "gnnqlab.bench.exchange",
    "faults": "gnnqlab.bench.faults",
    "gpu": "gnnqlab.bench.gpu",
    "live": "gnnqlab.bench.live",
    "predict": "gnnqlab.bench.predict",
    "sddmm": "gnnqlab.bench.sddmm",
    "spmm": "gnnqlab.bench.spmm",
    "throughput": "gnnqlab.bench.throughput",
    "tuner": "gnnqlab.bench.tuner",
    "variance": "gnnqlab.bench.variance",
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
        raise ValueError(f"bench must be one of {sorted(BENCHES)}, got {name!r}")
    function = getattr(importlib.import_module(BENCHES[name]), name)
    unknown = sorted(set(options) - set(inspect.signature(function).parameters))
    if unknown:
        raise ValueError(f"bench {name} takes no {unknown}; leave it out")
    rows = function(**options) if repeats is None else function(repeats=repeats, **options)
    return {"bench": name, "machine": machine(), "rows": rows}


def row(
    case: str,
    figure: str,
    value: float,
    unit: str,
    rival: str,
    rival_value: float | None,
    ratio: float | None,
    goal: float | None = None,
) -> dict[str, Any]:
    """Return one row; it is reached if the ratio is at least the goal."""
    reached = None if goal is None or ratio is None else ratio >= goal
    return {
        "case": case,
        "figure": figure,
        "value": value,
        "unit": unit,
        "rival": rival,
        "rival_value": rival_value,
        "ratio": ratio,
        "goal": goal,
        "reached": reached,
    }


def machine() -> dict[str, Any]:
    """Return what a reader needs to know about the machine that measured."""
    import torch

    from gnnqlab.train.memory import has_large_pages

    model = platform.processor()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "large_pages": has_large_pages(os.environ),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
