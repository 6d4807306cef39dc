"""The assignment in force, on disk: which width each row of a run's messages had at the end.

``assigned-rankR.npz`` holds the rows that worker R sends, one array a message named ``layer-direction-receiver``; a
new assignment replaces the file as a whole.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from gnnqlab.bits.assigned import Assigned, AssignedWidths

__all__ = ["load_widths", "save_widths"]


def save_widths(folder: Path, rank: int, widths: AssignedWidths) -> None:
    """Write the widths of the rows that a worker sends; those it receives are written by their senders."""
    arrays = {
        f"{layer}-{direction}-{receiver}": rows.numpy()
        for (layer, direction, sender, receiver), rows in widths.table.items()
        if sender == rank
    }
    partial = folder / f".assigned-rank{rank}.partial"
    with partial.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    partial.replace(folder / f"assigned-rank{rank}.npz")


def load_widths(folder: Path, settings: Assigned) -> AssignedWidths | None:
    """Return the last assignment of a run, of all its workers; ``None`` if there was none."""
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
