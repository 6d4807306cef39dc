"""Registry of methods declared in a low layer and implemented in a higher one: ``run.live()`` needs the figures.

The low layer looks up an implementation by name; ``gnnqlab/__init__.py``, which may name every layer, registers it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["attach", "attached", "home_of", "on_demand"]

_HOMES: dict[str, tuple[str, str]] = {}


def attach(homes: Mapping[str, str]) -> None:
    """Register implementations, ``{verb: "module:name"}``; an earlier registration is replaced."""
    for verb, target in homes.items():
        module, _, name = target.partition(":")
        _HOMES[verb] = module, name  # names only: importing here would load all layers


def home_of(verb: str) -> tuple[str, str]:
    """Return module and name of an implementation.

    Raises:
        LookupError: if none is registered.
    """
    if verb not in _HOMES:
        raise LookupError(f"a method must be attached before its first use, got {verb!r}; known are {sorted(_HOMES)}")
    return _HOMES[verb]


def attached(verb: str) -> Any:
    """Return an implementation, imported at its first use.

    Raises:
        LookupError: if none is registered.

    Example:
        >>> attach({"example.root": "math:sqrt"})
        >>> attached("example.root")(9)
        3.0
    """
    module, name = home_of(verb)
    return getattr(importlib.import_module(module), name)


def on_demand(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package that imports each public name from its module at the first use.

    ``import gnnqlab.halo`` needs a few modules of packages with many; it must not import the others.

    Args:
        package: ``__name__`` of the package.
        homes: module -> public names that it defines.

    Example:
        >>> find = on_demand(__name__, {"math": ("sqrt",)})
        >>> find("sqrt")(9)
        3.0
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        vars(sys.modules[package])[name] = value  # later accesses do not call this function
        return value

    return find
