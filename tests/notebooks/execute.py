"""`make notebooks`: run every notebook in place and store the outputs for readers without a kernel.

The stored file is the same after every run as far as possible: no run times, no widget state, no counters.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}

PROGRESS = re.compile(r"^(?:<progress .*</progress> )?[\w ,]+: epoch \d+ of \d+")


def execute(path: Path) -> None:
    """Run one notebook in a new kernel and write it back."""
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(
        book,
        timeout=None,  # a cell that trains takes as long as the machine needs
        startup_timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
    )
    client.execute()
    clean(book)
    nbformat.write(book, path)


def clean(book: nbformat.NotebookNode) -> None:
    """Remove the time and the machine of the notebook's execution."""
    book.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    count = 0
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        # Standard error is about this machine (warnings, progress), not part of the lesson.
        cell.outputs = [
            output for output in cell.outputs if output.get("name") != "stderr" and not _is_progress(output)
        ]
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            text = output.get("text", "") + "".join(map(str, output.get("data", {}).values()))
            if found := re.search(r"(/(home|root|tmp|Users)/[^\s\"'<]+)", text):
                raise ValueError(f"outputs must name no path of this machine, got {found[1]}; end the cell otherwise")


def _is_progress(output: nbformat.NotebookNode) -> bool:
    """Return True for the line of a run's progress, which has seconds of this machine."""
    return PROGRESS.search("".join(output.get("data", {}).get("text/html", ""))) is not None


def main(names: list[str]) -> None:
    os.environ["GNNQLAB_STATIC"] = "1"
    with tempfile.TemporaryDirectory() as runs:
        os.environ["GNNQLAB_RUNS"] = runs
        for path in [Path(name) for name in names] or sorted(FOLDER.glob("*.ipynb")):
            start = time.monotonic()
            execute(path)
            print(f"{path.name}: {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
