"""Which function the workers of a run call: training, unless the launcher names another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gnnqlab import by_name

__all__ = ["FIT", "argument", "load", "named"]

FIT = "gnnqlab.train.loop.fit:fit"
"""The training loop, ``module:function``."""
_OPTION = "--fit="


def argument(fit: str) -> str:
    """Return the argument by which a worker is told.

    Example:
        >>> named(["runs/1", argument("package.module:function")])
        'package.module:function'
    """
    return _OPTION + fit


def named(arguments: Iterable[str]) -> str:
    """Return what a worker's arguments name; the training loop if they name nothing."""
    return next((given.removeprefix(_OPTION) for given in arguments if given.startswith(_OPTION)), FIT)


def load(fit: str) -> Callable[..., None]:
    """Import the function that ``module:function`` names."""
    function: Callable[..., None] = by_name.load(fit)
    return function
