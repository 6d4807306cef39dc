"""Timeouts of nbval, which runs the notebooks, are long enough for a busy machine."""

from __future__ import annotations

import pytest

from tests.slow_down import HANG_S


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Replace the 5 s in which a cell must show its output, and the 60 s in which a kernel must start."""
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = HANG_S
    if hasattr(config.option, "nbval_kernel_startup_timeout"):
        config.option.nbval_kernel_startup_timeout = HANG_S
