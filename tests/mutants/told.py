"""A pytest plugin: the result of each test, and whether it failed by an assertion, as lines of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

VARIABLE = "GNNQLAB_PLANTED_TOLD"
"""File to which the lines are written."""
_CANNOT_RUN = (ImportError, SyntaxError, NameError)
"""Errors of code that does not run: no test is needed to notice these."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" or report.outcome != "passed":
        error = None if call.excinfo is None else call.excinfo.value
        line = {
            "test": item.nodeid,
            "outcome": report.outcome,
            "asserted": report.outcome == "failed" and _is_assertion(error),
            "error": "" if error is None else f"{type(error).__name__}: {error}"[:2000],
        }
        with Path(os.environ[VARIABLE]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return report


def _is_assertion(error: BaseException | None) -> bool:
    """Return True if an assertion failed here or in a worker, except for code that cannot run."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_assertion, error.exceptions))
    if not isinstance(error, AssertionError | pytest.fail.Exception):
        return False
    return not any(f"{kind.__name__}: " in str(error) for kind in _CANNOT_RUN)
