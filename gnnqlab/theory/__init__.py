"""Theorems of the papers as pure functions of tensors and numbers.

Three functions are implemented in higher packages and attached here: ``gq.theory.check(run)`` compares Theorem 3 with
measured gradients (`gnnqlab.simulation.run_check`), ``gq.theory.convergence(graph)`` compares Theorem 2 with a gradient
descent (`gnnqlab.simulation.convergence_check`), and ``gq.theory.cache_error(graph)`` compares the gradient error of a
cache with CDFGNN's Theorem 1 (`gnnqlab.simulation.cache_check`).
"""

import importlib
from typing import Any

from gnnqlab.attached import attached

_ATTACHED = ("CacheError", "TheoryCheck", "cache_error", "check")
_MODULES = ("cache", "convergence", "cost", "limits", "variance")
__all__ = [*_ATTACHED, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ATTACHED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return attached(f"theory.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ATTACHED, *_MODULES])
