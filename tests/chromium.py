"""Debian's Chromium, headless: one for all tests of a process, since Playwright runs once in each."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.slow_down import HANG_S

__all__ = ["Browser", "browser", "missing"]

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


class Browser:
    """A running browser whose pages wait until `HANG_S`: Playwright's own 30 s are too short on a busy machine."""

    def __init__(self, running: Any) -> None:
        self._running = running

    def new_page(self, **settings: Any) -> Any:
        """Open a page; see Playwright's ``Browser.new_page`` for the settings."""
        page = self._running.new_page(**settings)
        page.set_default_timeout(1e3 * HANG_S)
        return page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=1e3 * HANG_S)
        yield Browser(running)
        running.close()
