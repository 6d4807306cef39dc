"""One open notebook in JupyterLab, with the page's requests and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

__all__ = ["GIVEN_UP", "LabPage", "lab_fixture", "lives"]

_PANEL = "[...window.jupyterapp.shell.widgets('main')].find((each) => each.sessionContext && each.content)"
_READY = f"""() => {{
  if (!window.jupyterapp?.shell) return false;
  const context = {_PANEL}?.sessionContext;
  return Boolean(context?.isReady && context.session?.kernel?.status === "idle");
}}"""
# Records when Plotly has finished a drawing, the λ of its chosen point, and its width.
_LISTEN = """() => {
  const graph = document.querySelector(".js-plotly-plot");
  window.drawn = [];
  const note = () => window.drawn.push([performance.now(), graph.data[1].customdata[0], graph._fullLayout.width]);
  graph.on("plotly_afterplot", note);
  window.pressed = [];
  const press = () => window.pressed.push(performance.now());
  for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, press, true);
}"""


GIVEN_UP = "[anywidget] Failed to initialize model."
"""Message of anywidget if a page took more than 2 s to import a module, as on a busy machine.

Such a model receives no more messages; ours need none, since changes are stored in models of Jupyter itself.
"""


@dataclass(eq=False)
class LabPage:
    """A page of JupyterLab, with its errors, its requests and its times."""

    page: Any
    address: str
    errors: list[str] = field(default_factory=list)
    """Errors on the browser's console, and of scripts."""
    elsewhere: list[str] = field(default_factory=list)
    """Requests to other addresses than 127.0.0.1."""
    loaded_s: float = 0.0
    """Seconds from the start of the cell to the end of its imports."""
    seen_s: float = 0.0
    """Seconds from the start of the cell to the first control on the screen."""
    drawn_s: float = 0.0
    """Seconds from the start of the cell to the first figure."""
    whole_s: float = 0.0
    """Seconds from the start of the cell to the complete figure."""

    @classmethod
    def of(cls, page: Any, address: str, path: Path, cells: list[str]) -> LabPage:
        """Write a notebook, open it alone on the screen, and wait for its kernel."""
        import nbformat

        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(book, path)
        found = cls(page, address)
        page.on("console", lambda message: found._complained(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: found._complained(str(error)))
        page.on("request", found._requested)
        page.on("websocket", found._requested)
        page.goto(f"{address}doc/tree/{path.name}")
        found.wait_for_kernel()
        return found

    def wait_for_kernel(self) -> None:
        """Wait until the notebook is open and its kernel is idle."""
        self.page.wait_for_function(_READY, polling=200)

    def run_all(self) -> None:
        """Start all cells; return at once."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def command(self, name: str, **arguments: Any) -> None:
        """Run a command of JupyterLab."""
        self.page.evaluate("([name, given]) => window.jupyterapp.commands.execute(name, given)", [name, arguments])

    def python(self, source: str) -> str:
        """Return the output of some lines, run in the notebook's kernel outside its cells."""
        return str(
            self.page.evaluate(
                "async (code) => { const panel = " + _PANEL + ";"
                """
                  const future = panel.sessionContext.session.kernel.requestExecute({ code, store_history: false });
                  let text = "";
                  future.onIOPub = (message) => {
                    if (message.header.msg_type === "stream") text += message.content.text;
                    if (message.header.msg_type === "error") text += message.content.traceback.join("\\n");
                  };
                  await future.done;
                  return text;
                }""",
                source,
            )
        )

    def run_cell(self, index: int, source: str) -> None:
        """Replace the source of a cell and start it with all outputs cleared; return at once."""
        self.page.evaluate(
            """([index, source]) => {
              const book = """
            + _PANEL
            + """.content;
              book.widgets[index].model.sharedModel.setSource(source);
              book.activeCellIndex = index;
              window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs');
              window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            [index, source],
        )

    def restart(self) -> None:
        """Restart the kernel, as the button does, and wait for it."""
        self.page.evaluate("async () => { await " + _PANEL + "?.sessionContext.session.kernel.restart(); }")
        self.wait_for_kernel()

    def listen(self) -> None:
        """Record from now on when keys are pressed and when the figure has been drawn."""
        self.page.evaluate(_LISTEN)

    def close(self) -> None:
        """End the kernel and the page."""
        self.page.evaluate(f"async () => {{ await {_PANEL}?.sessionContext.shutdown(); }}")
        self.page.close()

    def save(self) -> None:
        """Save the notebook, as the button does."""
        self.page.evaluate(f"async () => {{ await {_PANEL}.context.save(); }}")

    def reload(self) -> None:
        """Save the notebook and reload the page, as a user does; the kernel stays."""
        self.save()
        self.page.reload()
        self.wait_for_kernel()

    def _complained(self, text: str) -> None:
        if GIVEN_UP not in text:
            self.errors.append(text)

    def _requested(self, request: Any) -> None:
        url = urlparse(request.url)
        if url.scheme in ("http", "https", "ws", "wss") and url.hostname != "127.0.0.1":
            self.elsewhere.append(request.url)


def lives(pid: int) -> bool:
    """Return True if a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def lab_fixture(name: str, cells: list[str], ready: str) -> Any:
    """Return a module's fixture: the notebook of these cells, run, on a page where a condition in JavaScript holds."""

    @pytest.fixture(scope="module")
    def lab(open_notebook: Any) -> LabPage:
        lab: LabPage = open_notebook(name, cells)
        lab.run_all()
        lab.page.wait_for_function(f"() => {ready}")
        return lab

    return lab
