"""A progress bar for a run that trains elsewhere: epoch, loss, scores, time left."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from gnnqlab.launch import folder as files

__all__ = ["Progress"]

_SHOWN = ("loss", "train_score", "val_score", "test_score")


class Progress:
    """A tqdm bar on standard error, or nothing at all.

    Args:
        folder: the run folder.
        epochs: epochs in all.
        shown: whether there is a bar.
    """

    def __init__(self, folder: Path, epochs: int, *, shown: bool) -> None:
        self._folder = folder
        self._bar: Any = None
        if shown:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=epochs, unit="epoch", desc="starting", dynamic_ncols=True)

    def show(self, epoch: int, trouble: str) -> None:
        """Move the bar; ``epoch`` is the one that runs, so that many are complete."""
        if self._bar is None:
            return
        record = _last_record(self._folder / "records-rank0.jsonl")
        done = max(int(record.get("epoch", -1)) + 1, self._bar.n)
        if epoch >= 0:
            self._bar.set_description_str("training", refresh=False)
        figures = {name: record[name] for name in _SHOWN if isinstance(record.get(name), float)}
        self._bar.set_postfix({name: f"{value:.4f}" for name, value in figures.items()}, refresh=False)
        if trouble:
            self._bar.set_description_str(trouble, refresh=False)
        self._bar.update(done - self._bar.n)
        self._bar.refresh()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def _last_record(path: Path) -> dict[str, Any]:
    for line in reversed(files.tail(path, 16384).splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # half written yet
        if isinstance(record, dict):
            return record
    return {}
