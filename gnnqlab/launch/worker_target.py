"""Information that a launcher passes to its processes: the workers' function, and the module search path.

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
    """Return the command-line argument that names the workers' function.

    Example:
        >>> target_of(["runs/1", argument("package.module:function")])
        'package.module:function'
    """
    return _OPTION + fit


def target_of(arguments: Iterable[str]) -> str:
    """Return the function named in a worker's arguments; by default the training loop."""
    return next((word.removeprefix(_OPTION) for word in arguments if word.startswith(_OPTION)), FIT)


def load(fit: str) -> Callable[..., None]:
    """Import the function that ``module:function`` names."""
    function: Callable[..., None] = by_name.load(fit)
    return function


def search_path() -> dict[str, str]:
    """Return the environment variable with this process's module search path, for other processes.

    It includes the folder of a script or notebook, and additions to ``sys.path``; ``PYTHONPATH`` would not do, because
    it puts all entries before the standard library.
    """
    return {VARIABLE: json.dumps([os.path.abspath(entry) for entry in sys.path])}  # the entry "" is the working folder


def apply_search_path() -> None:
    """Search modules first in the path of the launching process, then in that of this process."""
    if VARIABLE in os.environ:
        launcher_path: list[str] = json.loads(os.environ[VARIABLE])
        # In place, because other modules may hold a reference to the list.
        sys.path[:] = [*launcher_path, *(entry for entry in sys.path if entry not in launcher_path)]


def import_path() -> dict[str, str]:
    """Return the ``PYTHONPATH`` with which other processes find this package; empty if it is installed."""
    # An installed package needs no path; a checkout must be in the path of other processes.
    root = str(Path(__file__).resolve().parents[2])
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        return {}
    paths = os.environ.get("PYTHONPATH", "")
    return {} if root in paths.split(os.pathsep) else {"PYTHONPATH": os.pathsep.join(filter(None, (root, paths)))}
