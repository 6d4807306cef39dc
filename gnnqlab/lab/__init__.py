"""Views of training runs; each sub-package imports earlier ones only: figures < training < listing < tuner."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

_PACKAGES = {
    "figures": ("FigureData", "show"),
    "training": ("Comparison", "compare", "breakdown", "convergence", "traffic_map", "volume", "write_report"),
}
_MOVED = {"course": "gnnqlab.course", "players": "gnnqlab.course.players"}


def __getattr__(name: str) -> Any:
    if name == "Bundle":
        warnings.warn("gnnqlab.lab.Bundle is gnnqlab.lab.FigureData now", DeprecationWarning, stacklevel=2)
        name = "FigureData"
    for package, names in _PACKAGES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{package}"), name)
    if name in _MOVED:
        warnings.warn(f"gnnqlab.lab.{name} is {_MOVED[name]} now", DeprecationWarning, stacklevel=2)
        return importlib.import_module(_MOVED[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
