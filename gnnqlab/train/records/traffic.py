"""The messages of a run read back: of all epochs, of the newest, of some, at the cost of what is read."""

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
"""What a message crosses: a host's own memory, or the link between hosts (CDFGNN section 6)."""
_LACKING = (*[None] * (len(TRAFFIC_COLUMNS) - 3), 0, float("nan"))
"""What stands for columns that a row lacks: written before there were rounds, or without counted codes."""
_LINES = 256
"""Lines that are plain objects at a time; in columns of numbers they take a tenth of the memory."""


def read_traffic(
    folder: Path, *, epochs: Iterable[int] | None = None, last: int | None = None, spread: int | None = None
) -> pd.DataFrame:
    """Return one row per epoch, layer, direction, sender, receiver and bit-width, of all epochs if not said otherwise.

    ``tier`` says what a message crossed: ``inner`` between workers of one host, ``outer`` between hosts.

    Args:
        folder: the run folder.
        epochs: only these; one that was not recorded has no row.
        last: only so many, the newest of which all workers have written.
        spread: about so many, evenly spread.

    Raises:
        ValueError: if more than one choice of epochs is given, or a number that is not positive.
    """
    import numpy as np
    import pandas as pd

    paths = sorted(folder.glob("traffic-rank*.jsonl"))
    wanted = _wanted(paths, epochs, last, spread)
    parts = [
        _columns(some)
        for path in paths
        for some in _by(_LINES, read_lines(path) if wanted is None else lines_at(path, "epoch", wanted))
    ]
    parts = [part for part in parts if part]
    if not parts:
        none = pd.DataFrame([], columns=list(TRAFFIC_COLUMNS))
        return none.assign(tier=pd.Categorical([], categories=TIERS))
    # A column at a time, and what it was made of is let go: never two copies of a long table.
    columns = {name: np.concatenate([part.pop(name) for part in parts]) for name in TRAFFIC_COLUMNS}
    crossed = _host(columns["sender"], folder) != _host(columns["receiver"], folder)
    tier = pd.Categorical.from_codes(crossed.astype(np.int8), categories=TIERS)
    return pd.DataFrame({**columns, "tier": tier}, copy=False)


def _host(rank: NDArray[Any], folder: Path) -> NDArray[Any]:
    """Return the host of workers: consecutive ones share one."""
    if not (folder / NAME).exists():
        return 0 * rank
    config = read_config(folder)
    return rank * (config["launch"].get("hosts") or 1) // config["workers"]


def _wanted(
    paths: list[Path], epochs: Iterable[int] | None, last: int | None, spread: int | None
) -> list[int] | range | None:
    """Return the epochs asked for, ascending; ``None`` for all."""
    given = {"epochs": epochs, "last": last, "spread": spread}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise ValueError(f"epochs must be chosen in one way, got {' and '.join(chosen)}; leave all but one out")
    for name, count in (("last", last), ("spread", spread)):
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}; leave it out for all epochs")
    if epochs is not None:
        return epochs if isinstance(epochs, range) and epochs.step > 0 else sorted(set(epochs))
    if last is not None:
        newest = min((line["epoch"] if (line := last_line(path)) else -1 for path in paths), default=-1)
        return range(max(0, newest + 1 - last), newest + 1)
    if spread is not None:
        return [line["epoch"] for line in spread_lines(paths[0], spread)] if paths else []
    return None


def _by(count: int, lines: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield lists of so many lines."""
    lines = iter(lines)
    while some := list(itertools.islice(lines, count)):
        yield some


def _columns(lines: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the rows of some epochs as columns; empty if nobody sent anything."""
    import numpy as np

    columns = zip(*((line["epoch"], *row, *_LACKING[len(row) :]) for line in lines for row in line["rows"]))
    found = dict(zip(TRAFFIC_COLUMNS, columns))
    return {
        name: np.array([sys.intern(word) for word in values], dtype=object) if name == "direction" else np.array(values)
        for name, values in found.items()
    }
