"""The facts that a launcher passes to its processes: the function of the workers, and where to find modules.

Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

from gnnqlab import by_name

__all__ = ["FIT", "VARIABLE", "argument", "apply_search_path", "import_path", "load", "target_of", "search_path"]

FIT = "gnnqlab.train.loop.fit:fit"
"""The training loop, ``module:function``."""
VARIABLE = "GNNQLAB_PATH"
"""Environment variable: ``sys.path`` of the launching process as JSON."""
_OPTION = "--fit="


def argument(fit: str) -> str:
    """Return the argument by which a worker is told.

    Example:
        >>> target_of(["runs/1", argument("package.module:function")])
        'package.module:function'
    """
    return _OPTION + fit


def target_of(arguments: Iterable[str]) -> str:
    """Return what a worker's arguments name; the training loop if they name nothing."""
    return next((given.removeprefix(_OPTION) for given in arguments if given.startswith(_OPTION)), FIT)


def load(fit: str) -> Callable[..., None]:
    """Import the function that ``module:function`` names."""
    function: Callable[..., None] = by_name.load(fit)
    return function


def search_path() -> dict[str, str]:
    """Return the variable that tells other processes where this one finds modules.

    The folder of a script or notebook and what was added to ``sys.path`` are among them; the interpreter's own
    variable could not say it, because it puts everything before the standard library.
    """
    return {VARIABLE: json.dumps([os.path.abspath(entry) for entry in sys.path])}


def apply_search_path() -> None:
    """Find modules where the process that launched this one does, and only then where this one did."""
    if VARIABLE in os.environ:
        theirs: list[str] = json.loads(os.environ[VARIABLE])
        sys.path[:] = [*theirs, *(entry for entry in sys.path if entry not in theirs)]


def import_path() -> dict[str, str]:
    """Return the ``PYTHONPATH`` with which other processes find this very package; empty where they find it anyway."""
    here = str(Path(__file__).resolve().parents[2])
    if here in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return {}
    given = os.environ.get("PYTHONPATH", "")
    return {} if here in given.split(os.pathsep) else {"PYTHONPATH": os.pathsep.join(filter(None, (here, given)))}
