"""Theorems held against runs: the bound over measured gradient variance, and Theorem 2's terms over a descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.simulation.convergence_check import ConvergenceCheck
    from gnnqlab.simulation.run_check import TheoryCheck

__all__ = ["bound_chart", "bounds_by_width", "descent_chart"]


def bound_chart(check: TheoryCheck, *, dark: bool = False) -> Bundle:
    """Draw Theorem 3's bound and the measured gradient variance of every weight matrix.

    *Own* is what the theorem speaks of: only the messages that it counts for this weight are quantized. *Measured* has
    every message quantized, so that noise of other layers comes in through activations.
    """
    import plotly.graph_objects as go

    frame = check.to_frame()
    names = [
        "all weights" if row.layer < 0 else f"layer {row.layer + 1}<br>{row.weight}"
        for row in frame[["layer", "weight"]].itertuples()
    ]
    # A variance of R passes has itself a standard error; two of them either way, at least.
    error = 2 * (2 / max(check.repeats - 1, 1)) ** 0.5
    figure = go.Figure()
    for column, words, color, symbol, size in (
        ("worst", "worst case, D S²/4", OKABE_ITO["grey"], "line-ew-open", 26),
        ("bound", "bound of Theorem 3, D S²/6", OKABE_ITO["orange"], "triangle-down", 13),
        ("measured", "measured, every message quantized", OKABE_ITO["blue"], "circle-open", 13),
        ("own", "measured, only the messages it counts", OKABE_ITO["vermillion"], "x", 11),
    ):
        figure.add_scatter(
            x=names,
            y=[_positive(value) for value in frame[column]],
            mode="markers",
            error_y=(
                {"type": "data", "array": (error * frame[column]).tolist(), "thickness": 1.5}
                if column == "measured"
                else None
            ),
            marker={"symbol": symbol, "size": size, "color": color, "line": {"width": 3, "color": color}},
            name=words,
            hovertemplate=f"{words}: %{{y:.3g}}<extra>%{{x}}</extra>",
        )
    figure.update_xaxes(title_text="weight matrix", type="category")
    figure.update_yaxes(title_text="variance of the gradient<br>(squared unit of it)", type="log")
    whole = frame[frame["layer"] < 0].iloc[0]
    caption = (
        f"Gradient variance over {check.repeats} passes at fixed weights, {check.system}, {check.widths}. All weights: "
        f"measured {whole['measured']:.2e}, bound {whole['bound']:.2e}, so {100 * whole['ratio']:.0f} % of it."
    )
    finish(figure, title="Theorem 3 and what is measured", caption=caption, dark=dark, height=400, legend_rows=2)
    shown = frame[["own", "measured", "bound", "worst", "ratio", "bias", "standard_error", "norm"]].copy()
    shown.index = [name.replace("<br>", " ") for name in names]
    shown.index.name = "weight"
    return Bundle(figure, shown)


def bounds_by_width(checks: Mapping[int, TheoryCheck], *, dark: bool = False) -> Bundle:
    """Draw bound and measured variance of all weights together over the width of the messages.

    Args:
        checks: by bits of every message.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no check.
    """
    import pandas as pd
    import plotly.graph_objects as go

    if not checks:
        raise ValueError("a chart by width needs at least one check, got none; pass {2: check, 4: check}")
    widths = sorted(checks)
    frame = pd.DataFrame(
        {
            "measured": [checks[bits].measured["all"] for bits in widths],
            "bound": [checks[bits].bound["all"] for bits in widths],
            "own": [float(checks[bits].frame["own"].iloc[-1]) for bits in widths],
        },
        index=pd.Index(widths, name="bits"),
    )
    norm = float(checks[widths[0]].frame["norm"].iloc[-1]) ** 2
    frame["share of the squared gradient"] = frame["measured"] / norm
    figure = go.Figure()
    for column, words, color, dash, symbol in (
        ("bound", "bound of Theorem 3", OKABE_ITO["orange"], "dash", "triangle-down"),
        ("measured", "measured", OKABE_ITO["blue"], "solid", "circle-open"),
    ):
        figure.add_scatter(
            x=[str(bits) for bits in widths],
            y=frame[column].tolist(),
            mode="lines+markers",
            line={"color": color, "dash": dash, "width": 2},
            marker={"symbol": symbol, "size": 12, "color": color},
            name=words,
            customdata=[human_bits(bits) for bits in widths],
            hovertemplate=f"{words}, %{{customdata}}: %{{y:.3g}}<extra></extra>",
        )
    figure.add_scatter(
        x=[str(bits) for bits in widths],
        y=[norm] * len(widths),
        mode="lines",
        line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 2},
        name="squared gradient",
        hovertemplate="squared gradient: %{y:.3g}<extra></extra>",
    )
    figure.update_xaxes(title_text="bits of an element", type="category")
    figure.update_yaxes(title_text="variance of the gradient<br>(squared unit of it)", type="log")
    words = ", ".join(
        f"{human_bits(bits)} {frame['measured'][bits]:.1e} (bound {frame['bound'][bits]:.1e})" for bits in widths
    )
    caption = f"Gradient variance of all weights together by width: {words}; the squared gradient is {norm:.1e}."
    finish(figure, title="How much noise a width makes", caption=caption, dark=dark, height=360)
    return Bundle(figure, frame)


def descent_chart(descent: ConvergenceCheck, *, dark: bool = False) -> Bundle:
    """Draw Theorem 2's two terms over a real descent, and the mean squared gradient that they bound.

    Raises:
        ValueError: if the descent's step was too long for the theorem to say anything.
    """
    import plotly.graph_objects as go

    if not descent.step_allowed:
        raise ValueError(
            f"the step must be below 2 / L_2 = {2 / descent.curvature:.3g} for the bound to be finite, got "
            f"{descent.step:.3g}; descend with a shorter step"
        )
    frame: DataFrame = descent.frame
    epochs = (frame["epoch"] + 1).tolist()
    figure = go.Figure()
    for column, words, color, dash, symbol in (
        ("bound", "bound: both terms", OKABE_ITO["grey"], "solid", "triangle-down"),
        ("descent", "descent term, falls as 1/T", OKABE_ITO["orange"], "dash", "square"),
        ("noise", "noise term, stays", OKABE_ITO["purple"], "dot", "diamond"),
        ("mean_square", "measured: mean of ‖∇L‖²", OKABE_ITO["blue"], "solid", "circle"),
        ("noise_square", "measured: ‖g̃ − ∇L‖² of one epoch", OKABE_ITO["vermillion"], "dashdot", "x"),
    ):
        figure.add_scatter(
            x=epochs,
            y=[_positive(value) for value in frame[column]],
            mode="lines+markers",
            line={"color": color, "dash": dash, "width": 2},
            marker={"symbol": symbol, "size": 7, "maxdisplayed": 9, "color": color},
            name=words,
            hovertemplate=f"{words}: %{{y:.3g}}<extra>T = %{{x}}</extra>",
        )
    figure.update_xaxes(title_text="epochs T")
    figure.update_yaxes(title_text="squared norm<br>(squared unit of the gradient)", type="log")
    last = frame.iloc[-1]
    caption = (
        f"Theorem 2 over {len(frame)} epochs with step {descent.step:.3g}: L₂ at most {descent.curvature:.3g} where it "
        f"was measured, Q² = {descent.variance:.2e}. In the end mean ‖∇L‖² is {last['mean_square']:.2e}, "
        f"its bound {last['bound']:.2e}, of which noise is {last['noise']:.1e}."
    )
    finish(figure, title="Theorem 2 over a real descent", caption=caption, dark=dark, height=420, legend_rows=3)
    columns = ["loss", "gradient_square", "mean_square", "descent", "noise", "bound", "noise_square"]
    return Bundle(figure, frame.set_index("epoch")[columns])


def _positive(value: float) -> float | None:
    """A logarithm has no zero."""
    return float(value) if value > 0 else None
