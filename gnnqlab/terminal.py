"""Kind of the standard error stream: a screen that can replace a line, or a file in which every update remains."""

import sys

__all__ = ["is_screen"]


def is_screen() -> bool:
    """Return True if standard error is a terminal or the output of a notebook, which replaces a bar in place."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
