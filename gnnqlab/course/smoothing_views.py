"""Smoothed staleness, trained: PipeGCN with its rows, its gradients or both averaged over epochs, beside Vanilla."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.course.experiments.smoothing import WHAT
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, panels

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_smoothing"]

_COLORS = {0.0: "#56b4e9", 0.5: "#0072b2 dash", 0.95: "#003c5f dash"}


def draw_smoothing(
    records: Mapping[tuple[str, float], DataFrame], *, fresh: DataFrame | None = None, dark: bool = False
) -> Bundle:
    """Draw the loss by epoch, a panel for rows, gradients and both, a line for each γ.

    Args:
        records: ``run.records`` by what is smoothed and γ; ``("nothing", 0.0)`` is drawn in every panel.
        fresh: those of a run without staleness, grey in every panel.
        dark: colours for a dark page.

    Raises:
        ValueError: if no smoothed run is there.
    """
    import pandas as pd

    from gnnqlab.lab.figures.frames import by_epoch

    parts = [what for what in WHAT if any(key[0] == what for key in records)]
    if not parts:
        raise ValueError(f"a smoothed run is needed, got {list(records)}; see train_smoothed")
    losses = {key: by_epoch(frame).set_index("epoch")["loss"] for key, frame in records.items()}
    none = {} if fresh is None else {"fresh rows": by_epoch(fresh).set_index("epoch")["loss"]}
    styles = {f"γ = {gamma:g}": _COLORS.get(gamma, "purple dash") for _, gamma in records} | {"fresh rows": "grey dot"}
    charts = {}
    for part in parts:
        shown = sorted(
            ((gamma, loss) for (what, gamma), loss in losses.items() if what in ("nothing", part)),
            key=lambda one: one[0],
        )
        table = pd.DataFrame({**none, **{f"γ = {gamma:g}": loss for gamma, loss in shown}})
        charts[f"{part} smoothed"] = lines(
            table,
            y=list(table),
            styles=styles,
            mode="lines",
            log="y",
            x_axis="epoch",
            y_axis="training loss (cross-entropy)",
        )
    words = ", ".join(
        f"{what} γ = {gamma:g}: {loss.iloc[-1]:.3g}" if gamma else f"unsmoothed {loss.iloc[-1]:.3g}"
        for (what, gamma), loss in losses.items()
    )
    ends = "" if fresh is None else f" fresh rows {by_epoch(fresh)['loss'].iloc[-1]:.3g},"
    figure = panels(
        charts,
        share_y=True,
        gap=0.03,
        title="Smoothed and unsmoothed rows of yesterday",
        caption=f"Training loss with rows one epoch old, by what is smoothed. At the end:{ends} {words}.",
        dark=dark,
        height=380,
        legend_below=True,
    )
    return Bundle(figure, pd.DataFrame({f"{what}, γ = {gamma:g}": loss for (what, gamma), loss in losses.items()}))
