"""The law of distributed training, to be looked at: exact messages change nothing but who computes what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.figures.theme import OKABE_ITO, finish
from gnnqlab.lab.training.snapshot import RunLike, take

if TYPE_CHECKING:
    pass

__all__ = ["draw_agreement"]

_LOOKS = (
    (OKABE_ITO["sky"], "solid", 9),
    (OKABE_ITO["vermillion"], "dash", 3.5),
    ("#1f2328", "dot", 2),
    (OKABE_ITO["green"], "dashdot", 1.5),
)
_EPSILON = 2.0**-24  # half a unit in the last place of a float32 near 1


def draw_agreement(runs: Sequence[RunLike], *, dark: bool = False) -> Bundle:
    """Draw the losses of runs on each other, and how far each is from the first.

    Raises:
        ValueError: if there are fewer than two runs, or more than four.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    if not 2 <= len(runs) <= len(_LOOKS):
        raise ValueError(f"two to {len(_LOOKS)} runs are laid on each other, got {len(runs)}")
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.13)
    losses = {}
    for run, (color, dash, width) in zip(map(take, runs), _LOOKS):
        workers = run.summary["workers"]
        name = f"{run.summary['system']}, {workers} worker" + ("" if workers == 1 else "s")
        table = by_epoch(run.records).set_index("epoch")["loss"]
        losses[name if name not in losses else f"{name} (again)"] = table
        line = {"color": color if not dark or width != 2 else "#e6e8ea", "dash": dash, "width": width}
        figure.add_scatter(x=table.index.tolist(), y=table.tolist(), mode="lines", line=line, name=name, row=1, col=1)
        if len(losses) > 1:
            apart = (table - next(iter(losses.values()))).abs().clip(lower=1e-9)
            figure.add_scatter(
                x=apart.index.tolist(),
                y=apart.tolist(),
                mode="lines",
                line={**line, "width": 2},
                name=name,
                showlegend=False,
                row=1,
                col=2,
            )
    figure.add_hline(y=_EPSILON, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1}, row=1, col=2)
    first, *others = losses
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="training loss (cross-entropy)", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="distance from the first (loss)", type="log", row=1, col=2)
    worst = {name: float((losses[name] - losses[first]).abs().max()) for name in others}
    caption = f"Losses of {', '.join(losses)}. Largest distance from {first} in any epoch: " + ", ".join(
        f"{name} {distance:.0e}" for name, distance in worst.items()
    )
    finish(figure, title="The same training?", caption=caption + ".", dark=dark, height=360)
    return Bundle(figure, pd.DataFrame(losses))
