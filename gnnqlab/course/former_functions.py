"""Former names of the course's functions, which notebooks of readers may still import."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["former_functions"]


def former_functions(module: str, present: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module that finds its functions by former names, with a ``DeprecationWarning``.

    Args:
        module: ``__name__`` of the module.
        present: former name -> present name.

    Example:
        >>> find = former_functions("math", {"root": "sqrt"})
        >>> with warnings.catch_warnings(record=True) as found:
        ...     warnings.simplefilter("always")
        ...     find("root")(4.0), str(found[0].message)
        (2.0, 'math.root is math.sqrt now; the former name is accepted until version 1.0')
    """

    def find(name: str) -> Any:
        if name not in present:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is {module}.{present[name]} now; the former name is accepted until version 1.0"
        warnings.warn(text, DeprecationWarning, stacklevel=2)  # the line that uses the former name
        return getattr(sys.modules[module], present[name])

    return find
