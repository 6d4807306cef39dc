"""What the papers prove, as pure functions of tensors and numbers.

These verbs are done above this room and found here too: ``gq.theory.check(run)`` holds Theorem 3 against gradients that
are measured (`gnnqlab.simulation.run_check`), ``gq.theory.convergence(graph)`` Theorem 2 against a descent
(`gnnqlab.simulation.convergence_check`). ``gq.theory.cache_error(graph)`` tracks what a cache does to the
gradient beside CDFGNN's Theorem 1 (`gnnqlab.simulation.cache_check`).
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
