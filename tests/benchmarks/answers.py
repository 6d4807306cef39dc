"""Columns of every row, and a call of a measurement in the process of its test."""

from __future__ import annotations

import inspect
from collections.abc import Callable

FIELDS = {
    "case", "contestant", "figure", "metric", "value", "unit", "rival", "rival_value", "ratio", "goal", "reached",
}  # fmt: skip
"""Columns of every row."""


def here(measure: Callable) -> Callable:
    """Return a measurement with the threads of the caller's process, not in a process for each number of them."""
    return inspect.unwrap(measure)
