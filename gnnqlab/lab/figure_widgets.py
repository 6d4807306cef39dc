"""Plotly's figure with a kernel behind it, imported without the second that one grammar takes.

``FigureWidget`` imports nbformat, that jsonschema, and that builds the grammar of international addresses (RFC 3987),
longer than all the rest together. Here the grammar is built when somebody checks such an address, which nothing does.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

__all__ = ["figure_widget"]

_GRAMMAR = "rfc3987_syntax"
_LOCK = threading.Lock()


def figure_widget() -> Any:
    """Return the class ``plotly.graph_objects.FigureWidget``.

    Example:
        >>> figure_widget().__name__
        'FigureWidget'
    """
    with _LOCK:
        _import_jsonschema()
        from plotly.graph_objects import FigureWidget

        return FigureWidget


def _import_jsonschema() -> None:
    """Import jsonschema with a stand-in for the grammar, which imports it when it is first asked."""
    if "jsonschema" in sys.modules or _GRAMMAR in sys.modules or not importlib.util.find_spec("jsonschema"):
        return
    if importlib.util.find_spec(_GRAMMAR) is None:
        return
    stand_in = ModuleType(_GRAMMAR)
    stand_in.is_valid_syntax = _is_valid_syntax  # type: ignore[attr-defined]
    sys.modules[_GRAMMAR] = stand_in
    try:
        importlib.import_module("jsonschema")
    finally:
        del sys.modules[_GRAMMAR]  # whoever imports it gets the real one


def _is_valid_syntax(*given: Any) -> bool:
    return bool(importlib.import_module(_GRAMMAR).is_valid_syntax(*given))
