"""Progress of a run in other processes: a bar on a screen, lines in a file, with epoch, loss, scores and time."""

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from gnnqlab.run import folder as files
from gnnqlab.terminal import is_screen

__all__ = ["Progress"]

_SHOWN = {"loss": "loss", "train_score": "train", "val_score": "val", "test_score": "test"}
_TERMINAL_S, _FILE_S = 0.1, 10.0
"""Seconds between updates: of the bar on a screen, where they replace each other, and of lines, which all remain."""


class Progress:
    """Optional progress on standard error: a tqdm bar, or lines if it is a file or pipe.

    Args:
        folder: the run folder.
        epochs: total number of epochs.
        shown: True to show it.
    """

    def __init__(self, folder: Path, epochs: int, *, shown: bool) -> None:
        self._folder = folder
        self._bar: Any = None
        self._updated_s = float("-inf")
        self._every_s = _TERMINAL_S if is_screen() else _FILE_S
        if shown and is_screen():
            from tqdm.auto import tqdm

            self._bar = tqdm(total=epochs, unit="epoch", desc="starting", dynamic_ncols=True, mininterval=self._every_s)
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
        if time.monotonic() - self._updated_s >= self._every_s:
            self._updated_s = time.monotonic()
            self._bar.refresh()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


class _Lines:
    """Progress as lines of text, with the methods of tqdm that :class:`Progress` calls."""

    def __init__(self, epochs: int) -> None:
        self.n = 0
        self._epochs = epochs
        self._start_s = time.monotonic()
        self._description, self._figures, self._written = "starting", "", ""

    def set_description_str(self, description: str, refresh: bool) -> None:
        self._description = description

    def set_postfix(self, figures: dict[str, str], refresh: bool) -> None:
        self._figures = "".join(f", {name} {value}" for name, value in figures.items())

    def refresh(self) -> None:
        state = f"{self._description}: epoch {self.n} of {self._epochs}{self._figures}"
        if state != self._written:  # an unchanged line is not repeated
            self._written = state
            print(f"{state}, {time.monotonic() - self._start_s:.0f} s", file=sys.stderr, flush=True)

    def close(self) -> None:
        self.refresh()


def _last_record(path: Path) -> dict[str, Any]:
    for line in reversed(files.tail(path, 16384).splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # not written completely yet
        if isinstance(record, dict):
            return record
    return {}
