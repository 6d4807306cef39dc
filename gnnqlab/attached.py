"""Verbs that a room shows and a room above it does: ``run.live()`` draws, and drawing lies above launching.

The room below asks for a verb; who does it, the front door says, where every room may be named.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

__all__ = ["attach", "attached", "home_of"]

_HOMES: dict[str, tuple[str, str]] = {}


def attach(homes: Mapping[str, str]) -> None:
    """Say who does which verb: ``{verb: "module:name"}``; a verb that was there before has a new home."""
    for verb, home in homes.items():
        module, _, name = home.partition(":")
        _HOMES[verb] = module, name


def home_of(verb: str) -> tuple[str, str]:
    """Return the module that does a verb, and its name there.

    Raises:
        LookupError: if nobody does it.
    """
    if verb not in _HOMES:
        raise LookupError(f"a verb must be attached before it is asked for, got {verb!r}; known are {sorted(_HOMES)}")
    return _HOMES[verb]


def attached(verb: str) -> Any:
    """Return what does a verb, imported when it is first asked for.

    Raises:
        LookupError: if nobody does it.

    Example:
        >>> attach({"example.root": "math:sqrt"})
        >>> attached("example.root")(9)
        3.0
    """
    module, name = home_of(verb)
    return getattr(importlib.import_module(module), name)
