"""What a text names: a class or function as ``module:name``, which another process finds again by import; a word of a
list, which a slip of the hand may have missed.
"""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Iterable
from typing import Any

__all__ = ["load", "name_of", "near"]


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


def near(name: Any, known: Iterable[str]) -> str:
    """Return the end of a refusal that names the known word most like an unknown one; nothing if none is like it.

    Example:
        >>> near("Metsi", ["metis", "random"]), near(3, ["metis"])
        ('; did you mean metis', '')
    """
    written = {word.lower(): word for word in known}
    close = difflib.get_close_matches(str(name).lower(), written, n=1)
    return f"; did you mean {written[close[0]]}" if close else ""
