"""Debian's Chromium, headless: one for all tests of a process, since Playwright runs once in each."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["browser", "missing"]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def missing() -> str | None:
    """Return the reason why tests in a browser cannot run here, or ``None``."""
    for name in ("playwright", "jupyterlab", "ipywidgets", "anywidget"):
        if importlib.util.find_spec(name) is None:
            return f"the browser tests need the package {name}; make test installs it"
    if shutil.which("chromium") is None:
        return "the browser tests need Chromium; make test installs Debian's where it may (root and apt)"
    return None


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield running
        running.close()
