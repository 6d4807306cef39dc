"""Backends that this machine can run, for tests that compare them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gnnqlab.kernels import native
from tests.cases import each

_STATUS = native.status()
AVAILABLE: list[str] = _STATUS["isas"]

EVERY = ["reference", *AVAILABLE]
"""Every backend that runs here; test_native.py skips, with the reason, the other instruction sets."""


def on_native(test: Callable) -> Callable:
    """Call a test on each instruction set of the compiled kernels; skip it if there are none."""
    here = pytest.mark.skipif(not AVAILABLE, reason=f"no compiled kernels: {_STATUS['reason']}")
    return here(each("backend", AVAILABLE or ["none"])(test))


def use(name: str):
    """Return the context of a backend by its name, for a ``with`` block."""
    return native.use("reference") if name == "reference" else native.use("native", isa=name)
