"""Browser of the runs in a folder: a table to sort, filter and tick, seeds grouped, with actions on ticked runs."""

from __future__ import annotations

import warnings
from typing import Any

from gnnqlab.lab.listing.browser import RunBrowser
from gnnqlab.lab.listing.run_rows import group_by_settings, run_row

__all__ = ["RunBrowser", "group_by_settings", "run_row"]


def __getattr__(name: str) -> Any:
    if name == "grouped":
        text = "gnnqlab.lab.listing.grouped is gnnqlab.lab.listing.group_by_settings now"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return group_by_settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
