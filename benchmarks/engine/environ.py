"""Temporary environment variables, inherited by child processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["environ"]


@contextmanager
def environ(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the duration of the block, then restore their old values.

    Example:
        >>> with environ({"GNNQLAB_EXAMPLE": "1"}):
        ...     os.environ["GNNQLAB_EXAMPLE"]
        '1'
        >>> "GNNQLAB_EXAMPLE" in os.environ
        False
    """
    old_values = {name: os.environ.get(name) for name in values}  # None for a variable that was not set
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in old_values.items():
            if value is None:
                os.environ.pop(name, None)  # restore "not set" as well
            else:
                os.environ[name] = value
