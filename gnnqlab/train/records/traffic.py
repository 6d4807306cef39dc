"""Read the messages of a run: of all epochs, the newest, or selected ones, without reading the others."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.train.config.config_file import NAME, read_config
from gnnqlab.train.records.json_lines import last_line, lines_at, read_lines, spread_lines
from gnnqlab.train.records.record import TRAFFIC_COLUMNS

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["TIERS", "read_traffic"]

TIERS = ("inner", "outer")
"""Tiers of messages: within a host, or over the link between hosts (CDFGNN section 6)."""
_DEFAULTS = (*[None] * (len(TRAFFIC_COLUMNS) - 3), 0, float("nan"))
"""Values of columns missing in a row: in files of versions without rounds, or without counted codes."""
_LINES = 256
"""Lines converted at once: as columns of numbers they take a tenth of the memory of plain objects."""


def read_traffic(
    folder: Path, *, epochs: Iterable[int] | None = None, last: int | None = None, spread: int | None = None
) -> pd.DataFrame:
    """Return one row per epoch, layer, direction, sender, receiver and bit-width; by default of all epochs.

    ``tier`` is ``inner`` for messages between workers of one host, ``outer`` for messages between hosts.

    Args:
        folder: the run folder.
        epochs: only these epochs; those not recorded have no row.
        last: only this number of newest epochs that all workers have written.
        spread: only about this number of evenly spread epochs.

    Raises:
        ValueError: if more than one selection of epochs is given, or a number is not positive.
    """
    import numpy as np
    import pandas as pd

    paths = sorted(folder.glob("traffic-rank*.jsonl"))
    selection = _selected_epochs(paths, epochs, last, spread)
    parts = [
        _columns(chunk)
        for path in paths
        for chunk in _chunk(_LINES, read_lines(path) if selection is None else lines_at(path, "epoch", selection))
    ]
    parts = [part for part in parts if part]  # a chunk without messages has no columns
    if not parts:
        empty_table = pd.DataFrame([], columns=list(TRAFFIC_COLUMNS))
        return empty_table.assign(tier=pd.Categorical([], categories=TIERS))
    # One column at a time, freeing its parts: never two copies of a long table in memory.
    columns = {name: np.concatenate([part.pop(name) for part in parts]) for name in TRAFFIC_COLUMNS}
    crosses_hosts = _host(columns["sender"], folder) != _host(columns["receiver"], folder)  # (rows,) bool
    tier = pd.Categorical.from_codes(crosses_hosts.astype(np.int8), categories=TIERS)  # 0: inner, 1: outer
    return pd.DataFrame({**columns, "tier": tier}, copy=False)


def _host(rank: NDArray[Any], folder: Path) -> NDArray[Any]:
    """Return the host of each worker; consecutive ranks share a host."""
    if not (folder / NAME).exists():
        return 0 * rank
    config = read_config(folder)
    return rank * (config["launch"].get("hosts") or 1) // config["workers"]


def _selected_epochs(
    paths: list[Path], epochs: Iterable[int] | None, last: int | None, spread: int | None
) -> list[int] | range | None:
    """Return the selected epochs, ascending; ``None`` for all."""
    selections = {"epochs": epochs, "last": last, "spread": spread}
    chosen_names = [name for name, value in selections.items() if value is not None]
    if len(chosen_names) > 1:
        raise ValueError(f"epochs must be selected in one way, got {' and '.join(chosen_names)}; leave out all but one")
    for name, count in (("last", last), ("spread", spread)):
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}; leave it out for all epochs")
    if epochs is not None:
        return epochs if isinstance(epochs, range) and epochs.step > 0 else sorted(set(epochs))
    if last is not None:
        # Workers write at different times: the newest epoch that is in all files.
        newest_epoch = min((line["epoch"] if (line := last_line(path)) else -1 for path in paths), default=-1)
        return range(max(0, newest_epoch + 1 - last), newest_epoch + 1)
    if spread is not None:
        return [line["epoch"] for line in spread_lines(paths[0], spread)] if paths else []
    return None


def _chunk(count: int, lines: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield lists of ``count`` lines."""
    lines = iter(lines)
    while chunk := list(itertools.islice(lines, count)):
        yield chunk


def _columns(lines: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the rows of some epochs as columns; empty if no message was sent."""
    import numpy as np

    # Short rows come from files without the last columns.
    columns = zip(*((line["epoch"], *row, *_DEFAULTS[len(row) :]) for line in lines for row in line["rows"]))
    columns_by_name = dict(zip(TRAFFIC_COLUMNS, columns))
    return {
        name: np.array([sys.intern(word) for word in values], dtype=object) if name == "direction" else np.array(values)
        for name, values in columns_by_name.items()
    }
