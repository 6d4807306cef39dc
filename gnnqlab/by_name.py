"""What a text names: a class or function as ``module:name``, which another process finds again by import."""

from __future__ import annotations

import functools
import importlib
from typing import Any

__all__ = ["load", "name_of"]


def load(name: str) -> Any:
    """Return what ``module:name`` names.

    Raises:
        ImportError: if there is no such module here.
        AttributeError: if the module has no such thing.

    Example:
        >>> load("math:sqrt")(9)
        3.0
    """
    module, _, path = name.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


def name_of(kind: Any) -> str:
    """Return the name by which a class or function is found again.

    Raises:
        ValueError: if other processes cannot import it.

    Example:
        >>> from fractions import Fraction
        >>> name_of(Fraction)
        'fractions:Fraction'
    """
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        where = "a function" if "<locals>" in kind.__qualname__ else "a notebook cell or script"
        raise ValueError(
            f"{kind.__name__} is defined in {where}, where workers cannot import it; move it to a module (a .py file "
            "beside the notebook) and import it from there"
        )
    return f"{kind.__module__}:{kind.__qualname__}"
