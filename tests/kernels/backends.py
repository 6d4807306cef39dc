"""Which backends this machine can run, for tests that compare them."""

from __future__ import annotations

import pytest

from gnnqlab.kernels import native

_STATUS = native.status()
AVAILABLE: list[str] = _STATUS["isas"]

NATIVE = [
    pytest.param(name, marks=[] if name in AVAILABLE else pytest.mark.skip(reason=f"no {name}: {_STATUS['reason']}"))
    for name in native.ISAS
]
"""One parameter for each instruction set; those that cannot run are skipped with the reason."""

EVERY = [pytest.param("reference"), *NATIVE]


def use(name: str):
    """The backend of one of these parameters, for a ``with`` block."""
    return native.use("reference") if name == "reference" else native.use("native", isa=name)
