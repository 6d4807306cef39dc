"""Theorems compared with runs: bound and measured gradient variance, and Theorem 2's terms over a descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, scatter

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.simulation.convergence_check import ConvergenceCheck
    from gnnqlab.simulation.run_check import TheoryCheck

__all__ = ["bound_chart", "bounds_by_width", "descent_chart"]


def bound_chart(check: TheoryCheck, *, dark: bool = False) -> FigureData:
    """Draw Theorem 3's bound and the measured gradient variance of every weight matrix.

    *Own* is the case of the theorem: only the messages that it counts for this weight are quantized. In *measured*
    every message is quantized, so noise of other layers enters through activations.
    """
    frame = check.to_frame()
    names = [
        "all weights" if row.layer < 0 else f"layer {row.layer + 1}<br>{row.weight}"
        for row in frame[["layer", "weight"]].itertuples()
    ]
    total_row = frame[frame["layer"] < 0].iloc[0]  # layer -1: all weights together
    caption = (
        f"Gradient variance over {check.repeats} passes at fixed weights, {check.system}, {check.widths}. All weights: "
        f"measured {total_row['measured']:.2e}, bound {total_row['bound']:.2e}, so {100 * total_row['ratio']:.0f} % of "
        "it."
    )
    # Relative standard error of a variance over R passes, sqrt(2 / (R - 1)) for normal noise; the bars show two.
    error = 2 * (2 / max(check.repeats - 1, 1)) ** 0.5
    columns = {
        "worst": ("worst case, D S²/4", "grey line-ew-open"),
        "bound": ("bound of Theorem 3, D S²/6", "orange triangle-down"),
        "measured": ("measured, every message quantized", "blue circle-open"),
        "own": ("measured, only the messages it counts", "vermillion x"),
    }
    figure = scatter(
        frame.assign(half=error * frame["measured"], place=names),
        x="place",
        y=columns,
        error={"measured": "half"},
        size=14,
        log="y",
        x_axis={"title_text": "weight matrix", "type": "category"},
        y_axis="variance of the gradient<br>(squared unit of the gradient)",
        title="Theorem 3 and the measured variance",
        caption=caption,
        dark=dark,
        height=400,
        legend_rows=2,
    )
    figure.data[0].marker.size = 26  # a wider line for the worst case
    table = frame[["own", "measured", "bound", "worst", "ratio", "bias", "standard_error", "norm"]].copy()
    table.index = [name.replace("<br>", " ") for name in names]
    table.index.name = "weight"
    return FigureData(figure, table)


def bounds_by_width(checks: Mapping[int, TheoryCheck], *, dark: bool = False) -> FigureData:
    """Draw bound and measured variance of all weights together over the bit-width of the messages.

    Args:
        checks: bit-width of every message -> check.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no check.
    """
    import pandas as pd

    if not checks:
        raise ValueError("a chart by bit-width needs at least one check, got none; pass {2: check, 4: check}")
    widths = sorted(checks)
    frame = pd.DataFrame(
        {
            "measured": [checks[bits].measured["all"] for bits in widths],
            "bound": [checks[bits].bound["all"] for bits in widths],  # last row: all weights together
            "own": [float(checks[bits].frame["own"].iloc[-1]) for bits in widths],
        },
        index=pd.Index(widths, name="bits"),
    )
    # squared norm of the gradient, the same for all bit-widths
    norm = float(checks[widths[0]].frame["norm"].iloc[-1]) ** 2
    frame["share of the squared gradient"] = frame["measured"] / norm
    words = ", ".join(
        f"{human_bits(bits)} {frame['measured'][bits]:.1e} (bound {frame['bound'][bits]:.1e})" for bits in widths
    )
    rows = frame.rename(index=str).assign(norm=norm)
    names = {"bound": "bound of Theorem 3", "measured": "measured"}
    figure = lines(rows, y=names, styles=["orange dash triangle-down", "blue circle-open"], size=12)
    lines(
        rows,
        y={"norm": ("squared gradient", "grey dot")},
        mode="lines",
        figure=figure,
        log="y",
        x_axis={"title_text": "bits per element", "type": "category"},
        y_axis="variance of the gradient<br>(squared unit of the gradient)",
        title="Gradient variance by bit-width",
        caption=f"Gradient variance of all weights together: {words}; the squared gradient is {norm:.1e}.",
        dark=dark,
    )
    return FigureData(figure, frame)


def descent_chart(descent: ConvergenceCheck, *, dark: bool = False) -> FigureData:
    """Draw Theorem 2's two terms over a real descent, and the mean squared gradient that they bound.

    Raises:
        ValueError: if the step was too long for the theorem to hold.
    """
    if not descent.step_allowed:
        raise ValueError(
            f"the step must be below 2 / L_2 = {2 / descent.curvature:.3g} for the bound to be finite, got "
            f"{descent.step:.3g}; descend with a shorter step"
        )
    frame: DataFrame = descent.frame
    last_row = frame.iloc[-1]
    caption = (
        f"Theorem 2 over {len(frame)} epochs with step {descent.step:.3g}: measured L₂ up to {descent.curvature:.3g}, "
        f"Q² = {descent.variance:.2e}. At the end mean ‖∇L‖² is {last_row['mean_square']:.2e}, "
        f"its bound {last_row['bound']:.2e}, of which {last_row['noise']:.1e} is noise."
    )
    curves = {
        "bound": ("bound: both terms", "grey solid triangle-down"),
        "descent": ("descent term, falls as 1/T", "orange dash square"),
        "noise": ("noise term, constant", "purple dot diamond"),
        "mean_square": ("measured: mean of ‖∇L‖²", "blue solid circle"),
        "noise_square": ("measured: ‖g̃ − ∇L‖² of one epoch", "vermillion dashdot x"),
    }
    figure = lines(
        frame.assign(T=frame["epoch"] + 1),  # T counts epochs, from 1
        x="T",
        y=curves,
        size=7,
        log="y",
        x_axis="epochs T",
        y_axis="squared norm<br>(squared unit of the gradient)",
        title="Theorem 2 over a real descent",
        caption=caption,
        dark=dark,
        height=420,
        legend_rows=3,
    )
    figure.update_traces(marker={"maxdisplayed": 9})  # markers on some epochs only
    columns = ["loss", "gradient_square", "mean_square", "descent", "noise", "bound", "noise_square"]
    return FigureData(figure, frame.set_index("epoch")[columns])
