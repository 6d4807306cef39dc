"""Where workers find modules: where the process that launched them does, in its order. Standard library only."""

import json
import os
import sys

__all__ = ["VARIABLE", "follow", "told"]

VARIABLE = "GNNQLAB_PATH"


def told() -> dict[str, str]:
    """Return the variable that tells other processes where this one finds modules.

    The folder of a script or notebook and what was added to ``sys.path`` are among them; the interpreter's own
    variable could not say it, because it puts everything before the standard library.
    """
    return {VARIABLE: json.dumps([os.path.abspath(entry) for entry in sys.path])}


def follow() -> None:
    """Find modules where the process that launched this one does, and only then where this one did."""
    if VARIABLE in os.environ:
        theirs: list[str] = json.loads(os.environ[VARIABLE])
        sys.path[:] = [*theirs, *(entry for entry in sys.path if entry not in theirs)]
