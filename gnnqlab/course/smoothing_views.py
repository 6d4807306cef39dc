"""Smoothed staleness, trained: PipeGCN with its rows, its gradients or both averaged over epochs, beside Vanilla."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gnnqlab.course.experiments.smoothing import WHAT
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_smoothing"]

_COLORS = {0.0: "#56b4e9", 0.5: "#0072b2", 0.95: "#003c5f"}


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
    from plotly.subplots import make_subplots

    from gnnqlab.lab.figures.frames import by_epoch

    panels = [what for what in WHAT if any(key[0] == what for key in records)]
    if not panels:
        raise ValueError(f"a smoothed run is needed, got {list(records)}; see train_smoothed")
    losses = {key: by_epoch(frame).set_index("epoch")["loss"] for key, frame in records.items()}
    figure = make_subplots(
        rows=1, cols=len(panels), shared_yaxes=True, horizontal_spacing=0.03,
        subplot_titles=[f"{panel} smoothed" if panel != "both" else "both smoothed" for panel in panels],
    )  # fmt: skip
    for column, panel in enumerate(panels, start=1):
        at = {"row": 1, "col": column}
        if fresh is not None:
            line = {"color": OKABE_ITO["grey"], "width": 2, "dash": "dot"}
            _add(figure, by_epoch(fresh).set_index("epoch")["loss"], "fresh rows", line, at)
        for key in sorted((key for key in losses if key[0] in ("nothing", panel)), key=lambda key: key[1]):
            gamma = key[1]
            color = _COLORS.get(gamma, OKABE_ITO["purple"])
            line = {"color": color, "width": 2, "dash": "dash" if gamma else "solid"}
            _add(figure, losses[key], f"γ = {gamma:g}", line, at)
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(type="log")
    figure.update_yaxes(title_text="training loss (cross-entropy)", row=1, col=1)
    words = ", ".join(
        f"{what} γ = {gamma:g}: {loss.iloc[-1]:.3g}" if gamma else f"unsmoothed {loss.iloc[-1]:.3g}"
        for (what, gamma), loss in losses.items()
    )
    ends = "" if fresh is None else f" fresh rows {by_epoch(fresh)['loss'].iloc[-1]:.3g},"
    caption = f"Training loss with rows one epoch old, by what is smoothed. At the end:{ends} {words}."
    finish(figure, title="Smoothed and unsmoothed rows of yesterday", caption=caption, dark=dark, height=380)
    figure.update_layout(legend={"y": -0.22, "yanchor": "top"}, margin={"t": 76, "b": 90})
    return Bundle(figure, pd.DataFrame({f"{what}, γ = {gamma:g}": loss for (what, gamma), loss in losses.items()}))


def _add(figure: Any, values: Any, name: str, line: dict[str, Any], at: dict[str, int]) -> None:
    figure.add_scatter(
        x=values.index.tolist(),
        y=values.tolist(),
        mode="lines",
        name=name,
        legendgroup=name,
        showlegend=at["col"] == 1,
        line=line,
        hovertemplate=f"{name}: %{{y:.3g}} · epoch %{{x}}<extra></extra>",
        **at,
    )
