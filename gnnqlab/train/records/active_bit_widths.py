"""Tables of callbacks in force on each worker, on disk; for AdaQP, the bit-width of every row of a run's messages.

``assigned-rankR.npz`` holds the rows that worker R sends, one array per message named ``layer-direction-receiver``; a
new assignment replaces the whole file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnnqlab.atomic import replacing
from gnnqlab.bits.assigner.assigned import Assigned, AssignedWidths

__all__ = ["load_widths", "save_tables"]


def save_tables(folder: Path, rank: int, tables: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Write the tables of a worker, each to ``NAME-rankR.npz``, replacing the previous file."""
    for name, table in tables.items():
        with replacing(folder / f"{name}-rank{rank}.npz") as partial_path, partial_path.open("wb") as file:
            np.savez(file, **{key: tensor.numpy() for key, tensor in table.items()})  # type: ignore[arg-type]


def load_widths(folder: Path, settings: Assigned) -> AssignedWidths | None:
    """Return the last assignment of a run, of all workers; ``None`` if there was none."""
    table = {}
    for path in sorted(folder.glob("assigned-rank*.npz")):
        sender = int(path.stem.removeprefix("assigned-rank"))
        with np.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                layer, direction, receiver = name.split("-")
                table[int(layer), direction, sender, int(receiver)] = torch.from_numpy(arrays[name])
    if not table:
        return None
    widths = AssignedWidths(settings)
    widths.install(table)
    return widths
