"""Voilà serves the tuner notebook: a page of its own, without the code."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from tests.slow_down import HANG_S

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("voila") is None,
    reason="serving a notebook needs the package voila; make test installs it",
)
NOTEBOOK = Path(__file__).parent.parent.parent / "notebooks" / "22_tuner.ipynb"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Voilà, serving the notebook, of which it runs and shows the tuner and its table of controls."""
    import nbformat

    home = tmp_path_factory.mktemp("voila")
    book = nbformat.read(NOTEBOOK, as_version=4)
    for cell in book.cells:
        # No launched timing while a browser runs on this machine.
        cell.source = cell.source.replace("epochs=40", "epochs=40, hidden=32, measure=False")
    nbformat.write(book, home / "tuner.ipynb")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "HOME": str(home), "GNNQLAB_RUNS": str(home / "runs")}
    environment.pop("GNNQLAB_STATIC", None)
    environment["PYTHONPATH"] = os.pathsep.join([str(NOTEBOOK.parent.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "voila", "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1", "tuner.ipynb"]
    # Voilà's own template loads icons from the internet; the settings in the notebooks' folder prevent that.
    shutil.copy(NOTEBOOK.parent.parent / "voila.json", home)
    with open(home / "voila.log", "w") as log:
        process = subprocess.Popen(
            command, cwd=home, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )  # fmt: skip
    try:
        until = time.monotonic() + HANG_S
        while not _answers(port):
            assert process.poll() is None and time.monotonic() < until, (home / "voila.log").read_text()[-3000:]
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def test_the_tuner_works_on_a_page_of_its_own(address: str, browser: Any, screenshots: Path) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 1900})
    elsewhere: list[str] = []
    page.on("requestfinished", lambda request: elsewhere.append(request.url))
    page.on(
        "requestfailed", lambda request: elsewhere.append(request.url) if "csp" not in str(request.failure) else None
    )
    page.goto(address, wait_until="commit")
    handle = page.get_by_role("slider", name="λ", exact=True)
    handle.wait_for()
    page.wait_for_function("() => document.querySelector('.js-plotly-plot')?.data?.[0]?.x?.length === 11")
    handle.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.js-plotly-plot').data[1].customdata[0] === 0.51")
    assert page.get_by_text("gq.Tuner(").count() == 0, "no code on the page"
    assert [each.inner_text() for each in page.get_by_role("heading").all()] == ["Change the settings"]
    assert page.get_by_role("button", name=re.compile(r"(^|\W)Train$")).is_enabled()
    page.screenshot(path=screenshots / "voila.png")
    page.close()
    local = ("127.0.0.1", None)
    assert [url for url in elsewhere if urlparse(url).hostname not in local] == []
