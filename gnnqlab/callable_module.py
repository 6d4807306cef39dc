"""Lets a room be called by its own name: ``gnnqlab.partition`` is a package, and ``gq.partition(graph)`` its verb."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["make_callable"]


class _CallableModule(ModuleType):
    _verb: tuple[str, str]

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        home, name = self._verb
        return getattr(importlib.import_module(home), name)(*arguments, **settings)


def make_callable(package: str, home: str, name: str) -> None:
    """Make calling the module ``package`` call ``home.name``, imported when it is first needed.

    Args:
        package: the module that is being imported, its ``__name__``.
        home: the module that defines the function.
        name: the function.
    """
    module = sys.modules[package]
    module.__class__ = _CallableModule
    module._verb = (home, name)  # type: ignore[attr-defined]
