"""Progress of a run in other processes: a bar on a screen, lines in a file, with epoch, loss, scores and time."""

import html
import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from gnnqlab.run import folder as files
from gnnqlab.run.waiting import in_notebook
from gnnqlab.terminal import is_screen

__all__ = ["Progress"]

_SHOWN = {"loss": "loss", "train_score": "train", "val_score": "val", "test_score": "test"}
_UPDATE_S = 0.1
"""Seconds between updates of a bar, which replace each other; lines, which all remain, are one per tenth of the run."""


class Progress:
    """Optional progress: a bar on a terminal's standard error or in a notebook, lines in a file or pipe.

    Args:
        folder: the run folder.
        epochs: total number of epochs.
        shown: True to show it.
    """

    def __init__(self, folder: Path, epochs: int, *, shown: bool) -> None:
        self._folder = folder
        self._bar: Any = None
        self._updated_s = float("-inf")
        if shown and in_notebook():
            self._bar = _Output(epochs)
        elif shown and is_screen():
            from tqdm import tqdm

            self._bar = tqdm(total=epochs, unit="epoch", desc="starting", dynamic_ncols=True, mininterval=_UPDATE_S)
        elif shown:
            self._bar = _Lines(epochs)

    def show(self, epoch: int, trouble: str) -> None:
        """Update the bar.

        Args:
            epoch: present epoch; -1 before the first.
            trouble: cause of a stall, shown in place of the description; empty if there is none.
        """
        if self._bar is None:
            return
        record = _last_record(self._folder / "records-rank0.jsonl")
        # The bar never moves back when the last record is not readable yet.
        num_epochs = max(int(record.get("epoch", -1)) + 1, self._bar.n)
        if epoch >= 0:
            self._bar.set_description_str("training", refresh=False)
        figures = {label: record[name] for name, label in _SHOWN.items() if isinstance(record.get(name), float)}
        self._bar.set_postfix({name: f"{value:.4f}" for name, value in figures.items()}, refresh=False)
        if trouble:
            self._bar.set_description_str(trouble, refresh=False)
        self._bar.n = num_epochs
        if time.monotonic() - self._updated_s >= _UPDATE_S:
            self._updated_s = time.monotonic()
            self._bar.refresh()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


class _Text:
    """Progress as text, with the methods of tqdm that :class:`Progress` calls."""

    def __init__(self, epochs: int) -> None:
        self.n = 0
        self._epochs = epochs
        self._start_s = time.monotonic()
        self._first: tuple[int, float] | None = None
        """Number of epochs when some were first complete, and the time of it."""
        self._description, self._figures = "starting", ""

    def set_description_str(self, description: str, refresh: bool) -> None:
        self._description = description

    def set_postfix(self, figures: dict[str, str], refresh: bool) -> None:
        self._figures = "".join(f", {name} {value}" for name, value in figures.items())

    def _text(self) -> str:
        now_s = time.monotonic()
        left = ""
        if self.n and self._first is None:
            self._first = self.n, now_s
        elif self._first is not None and self._first[0] < self.n < self._epochs:
            first_epoch, first_s = self._first
            rate_s = (now_s - first_s) / (self.n - first_epoch)  # without the start of the workers
            left = f", about {rate_s * (self._epochs - self.n):.0f} s left"
        seconds = f"{now_s - self._start_s:.0f} s{left}"
        return f"{self._description}: epoch {self.n} of {self._epochs}{self._figures}, {seconds}"


class _Lines(_Text):
    """Lines in a file, one per tenth of the run and per description."""

    _written = ("", -1)
    """Description and number of tenths of the last line."""

    def refresh(self) -> None:
        state = self._description, 10 * self.n // max(self._epochs, 1)
        if state != self._written:
            self._written = state
            print(self._text(), file=sys.stderr, flush=True)

    def close(self) -> None:
        self.refresh()


class _Output(_Text):
    """One output of a notebook's cell that is replaced; after the end a line of text, also in a saved notebook."""

    def __init__(self, epochs: int) -> None:
        super().__init__(epochs)
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML(self._page()), display_id=True)

    def _page(self) -> str:
        bar = f"<progress value='{self.n}' max='{self._epochs}' aria-label='epochs'></progress> "
        return bar + html.escape(self._text())

    def refresh(self) -> None:
        self._handle.update(self._html(self._page()))

    def close(self) -> None:
        self._handle.update(self._html(html.escape(self._text())))


def _last_record(path: Path) -> dict[str, Any]:
    for line in reversed(files.tail(path, 16384).splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # not written completely yet
        if isinstance(record, dict):
            return record
    return {}
