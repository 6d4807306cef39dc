"""The law of distributed training, to be looked at: exact messages change nothing but who computes what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, panels
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.training.snapshot import RunLike, take

if TYPE_CHECKING:
    pass

__all__ = ["draw_agreement"]

_STYLES = ("sky solid", "vermillion dash", "grey dot", "green dashdot")
_WIDTHS = (9, 3.5, 2, 1.5)
"""Of the lines, which lie on each other."""
_EPSILON = 2.0**-24  # half a unit in the last place of a float32 near 1


def draw_agreement(runs: Sequence[RunLike], *, dark: bool = False) -> Bundle:
    """Draw the losses of runs on each other, and how far each is from the first.

    Raises:
        ValueError: if there are fewer than two runs, or more than four.
    """
    import pandas as pd

    if not 2 <= len(runs) <= len(_STYLES):
        raise ValueError(f"two to {len(_STYLES)} runs are laid on each other, got {len(runs)}")
    losses = {}
    for run in map(take, runs):
        workers = run.summary["workers"]
        name = f"{run.summary['system']}, {workers} worker" + ("" if workers == 1 else "s")
        losses[name if name not in losses else f"{name} (again)"] = by_epoch(run.records).set_index("epoch")["loss"]
    table = pd.DataFrame(losses)
    first, *others = losses
    apart = table[others].sub(table[first], axis=0).abs()
    left = lines(
        table,
        y=list(table),
        styles=_STYLES,
        mode="lines",
        zero="y",
        x_axis="epoch",
        y_axis="training loss (cross-entropy)",
    )
    for trace, width in zip(left.data, _WIDTHS):
        trace.line.width = width
    right = lines(
        apart.clip(lower=1e-9),
        y=others,
        styles=_STYLES[1:],
        mode="lines",
        levels={"": _EPSILON},
        log="y",
        x_axis="epoch",
        y_axis="distance from the first (loss)",
    )
    caption = f"Losses of {', '.join(losses)}. Largest distance from {first} in any epoch: " + ", ".join(
        f"{name} {distance:.0e}" for name, distance in apart.max().items()
    )
    return Bundle(panels([left, right], gap=0.13, title="The same training?", caption=caption + ".", dark=dark), table)
