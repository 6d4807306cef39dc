"""Looking at training, in rooms of its own: figures < training < tuner < players < course."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "figures": ("Bundle", "show"),
    "training": ("Comparison", "compare", "breakdown", "convergence", "traffic_map", "volume", "write_report"),
}


def __getattr__(name: str) -> Any:
    for room, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
