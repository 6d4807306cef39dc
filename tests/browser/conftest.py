"""A real JupyterLab in a headless Chromium; skipped, with the reason, where one of them is missing.

Everything stays on this machine: the server listens on 127.0.0.1, and a request to any other place fails a test.
Screenshots go to ``$GNNQLAB_SCREENSHOTS`` if that is set, else to pytest's own temporary folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab_page import LabPage
from tests.chromium import missing
from tests.slow_down import HANG_S

VIEWPORT = {"width": 1320, "height": 1500}
CURRENT = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reason = missing()
    if reason is not None:
        for item in items:
            if CURRENT in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the screenshots."""
    asked = os.environ.get("GNNQLAB_SCREENSHOTS")
    folder = Path(asked).absolute() if asked else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"\nscreenshots: {folder}")
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield address and folder of a JupyterLab that the tests start."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    folder.mkdir()
    own = {name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
    environment = {
        **os.environ,
        **own,
        "HOME": str(home),
        "GNNQLAB_RUNS": str(home / "runs"),
        "PYTHONPATH": os.pathsep.join([str(CURRENT.parent.parent), os.environ.get("PYTHONPATH", "")]),
    }
    environment.pop("GNNQLAB_STATIC", None)
    asks = Path(
        own["JUPYTER_CONFIG_DIR"], "lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    )
    asks.parent.mkdir(parents=True)
    asks.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    kernels = Path(sys.prefix, "share", "jupyter", "kernels")
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"),
        *("--IdentityProvider.token=", f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"),
    ]
    with open(home / "server.log", "w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        assert kernels.exists(), "the environment has a kernel of its own"
        yield _address(Path(own["JUPYTER_RUNTIME_DIR"]), process, home / "server.log"), folder
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(runtime: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + HANG_S
    while time.monotonic() < until and process.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            try:
                return str(json.loads(path.read_text())["url"])
            except ValueError:
                continue  # not complete yet
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def open_notebook(server: tuple[str, Path], browser: Any) -> Iterator[Any]:
    """Opens a notebook of the given cells in JupyterLab: ``open_notebook("name", [source, ...]) -> LabPage``.

    ``before`` is a script that the page runs before any of its own.
    """
    address, folder = server
    opened: list[LabPage] = []

    def open_one(name: str, cells: list[str], *, before: str = "") -> LabPage:
        page = browser.new_page(viewport=VIEWPORT)
        page.add_init_script(before)
        opened.append(LabPage.of(page, address, folder / f"{name}.ipynb", cells))
        return opened[-1]

    yield open_one
    for page in opened:
        page.close()
