"""Effects of errors in papers and released code: the factor of each, and charts of two of them.

All values are measured by the functions behind :func:`gnnqlab.course.errata.errata`; the factors are ratios of their
figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.errata import MEASUREMENTS
from gnnqlab.course.experiments.moving_widths import replay
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines, panels, scatter

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["FACTORS", "descent", "draw_descent", "draw_factors", "draw_variance", "factors", "variance_shares"]

Figures = Mapping[str, float]

FACTORS: dict[str, tuple[str, Callable[[Figures], float]]] = {
    "AQ-2": ("squared error of 8-bit codes, parameters rounded after encoding", lambda f: f["mse_ratio_8"]),
    "AQ-14": ("bound of Theorem 3 at 1 bit, as printed", lambda f: f["bits_1"]),
    "AQ-15": ("Theorem 1's variance over the true one, 1 bit, after ReLU", lambda f: 1 / f["relu_1"]),
    "AQ-17": ("noise of rows that several neighbours aggregate, over Eq. 25", lambda f: f["ratio"]),
    "AQ-18": ("variance over its bound, ReLU, 8 bits", lambda f: f["relu_8"]),
    "AQ-22": ("objective of Eq. 12 without θ, one slow link", lambda f: f["slow"]),
    "SY-1": ("final bit-width, by the two signs of the descent rate", lambda f: f["descent"] / f["written"]),
    "SY-2": ("bits per element by halves, over those that Table XII implies", lambda f: f["halves"] / f["quarters"]),
    "CD-2": ("error of copies after 100 deltas, sender caches its own value", lambda f: f["own"] / f["decoded"]),
    "CD-4": ("error of totals instead of differences, 4 bits", lambda f: f["totals"] / f["differences"]),
    "CD-5": ("mean of ||∇L||² over the bound as printed", lambda f: f["mean"] / f["printed"]),
    "CD-7": ("inter-host connections saved with homes, over those as printed", lambda f: f["home"] / f["copies"]),
    "TG-4": ("relative error of Eq. 4 over its largest value, 1", lambda f: f["error"]),
    "TG-5": ("error of attention, quantized logits, 8 bits", lambda f: f["codes_8"] / f["exact_8"]),
}
"""Id -> the quantity in error, and its factor as a function of the measured figures."""
# First two letters of an id -> paper and its style.
_PAPERS = {"AQ": ("AdaQP", "vermillion circle"), "SY": ("SYLVIE", "green square")}
_PAPERS |= {"CD": ("CDFGNN", "sky diamond"), "TG": ("TANGO", "orange star")}


def factors() -> DataFrame:
    """Measure the factor of every error that has one (takes some seconds in the first call).

    Returns:
        One row per error, the largest last, index ``id``; columns ``paper``, ``what``, ``factor``.

    Example:
        >>> found = factors()
        >>> bool(found["factor"].is_monotonic_increasing), float(found.loc["SY-1", "factor"])
        (True, 8.0)
    """
    import pandas as pd

    rows = [  # one measurement per factor, cached by the function that computes it
        {
            "id": name,
            "paper": _PAPERS[name[:2]][0],
            "what": description,
            "factor": factor_of(MEASUREMENTS[name]().figures),
        }
        for name, (description, factor_of) in FACTORS.items()
    ]
    return pd.DataFrame(rows).set_index("id").sort_values("factor")


def draw_factors(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`factors` on a logarithmic axis, one line per error, one colour and marker per paper.

    Raises:
        ValueError: if there is no row.
    """
    import pandas as pd

    if frame.empty:
        raise ValueError("factors of at least one erratum are needed, got none; see factors")
    # the id becomes a column, for the axis of categories
    rows = frame.assign(words=[f"{factor:.3g} ×" for factor in frame["factor"]]).reset_index(names="id")
    # Three points per error, 1, its factor and a gap, so that one trace draws separate horizontal lines.
    ends = pd.concat([rows.assign(end=1.0), rows.assign(end=rows["factor"]), rows.assign(end=None)])
    ends = ends.sort_index(kind="stable")
    figure = lines(ends, x="end", y="id", by="paper", styles=dict(_PAPERS.values()), mode="lines", hover="%{y}")
    figure.update_traces(showlegend=False)
    for name, description in frame["what"].items():
        figure.add_annotation(
            x=0.02,
            y=name,
            text=description,
            xanchor="left",
            yanchor="bottom",
            yshift=9,
            showarrow=False,
            font={"size": 12},
        )
    largest_row = frame.iloc[-1]
    caption = (
        f"{len(frame)} errata and their factors, from {frame['factor'].iloc[0]:.2f} to {largest_row['factor']:.3g}; "
        f"the largest is in {largest_row['paper']}: {largest_row['what']}."
    )
    scatter(
        rows,  # the quantity in error, above its line
        x="factor",
        y="id",
        by="paper",
        styles=dict(_PAPERS.values()),
        size=11,
        text="words",
        details="what",
        figure=figure,
        hover="%{y} · %{customdata}: %{x:.3g} ×",
        log="x",
        x_axis={"title_text": "off by this factor", "range": [0, 2], "tickvals": [1, 2, 5, 10, 20, 50, 100]},
        y_axis={"categoryorder": "array", "categoryarray": frame.index.tolist(), "range": [-0.6, len(frame)]},
        title="Off by how much?",
        caption=caption,
        dark=dark,
        height=150 + 44 * len(frame),
    )
    figure.update_traces(textposition="middle right")
    return FigureData(figure, frame)


def variance_shares() -> DataFrame:
    """Return the exact variance of decoded rows over Theorem 1's ``D S² / 6``, by bit-width and kind of row (AQ-15).

    Returns:
        Index ``bits``; columns ``N(0, 1)`` and ``after ReLU``.

    Example:
        >>> variance_shares().round(1).loc[1].tolist()
        [1.3, 0.5]
    """
    import pandas as pd

    figures = MEASUREMENTS["AQ-15"]().figures
    widths = (1, 2, 4, 8)  # bit-widths that AQ-15 measures
    kinds = {"N(0, 1)": "normal", "after ReLU": "relu"}
    # columns by kind of row, one element per bit-width
    table = {words: [figures[f"{kind}_{bits}"] for bits in widths] for words, kind in kinds.items()}
    return pd.DataFrame(table, index=pd.Index(widths, name="bits"))


def draw_variance(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`variance_shares`: bars by bit-width, and lines at the theorem's value and at the worst case.

    Raises:
        ValueError: if there is no row.
    """
    if frame.empty:
        raise ValueError("shares of at least one bit-width are needed, got none; see variance_shares")
    figure = bars(
        frame.rename(index=human_bits),
        y=list(frame),
        styles=["blue", "orange /"],
        levels={"D S² / 6, called the variance": 1.0, "D S² / 4, the worst case": 1.5},
        x_axis="bits per element",
        y_axis={"title_text": "variance over D S² / 6", "range": [0, 1.7]},
        title="Exact variance and Theorem 1",
        dark=dark,
        height=370,
    )
    return FigureData(figure, frame)


def descent(losses: Sequence[float]) -> DataFrame:
    """Return SYLVIE's base bit-widths for a loss curve, by its descent rate as written and by the opposite sign (SY-1).

    As written, ``(F_t - F_(t-1)) / time`` is negative while the loss falls, and *larger* when it falls more slowly;
    the text requires more bits when training slows down. All epochs take the same time.

    Args:
        losses: loss of each epoch.

    Returns:
        One row per epoch; columns ``loss``, ``as written``, ``opposite sign``.

    Raises:
        ValueError: if there is no loss.

    Example:
        >>> descent([0.2 + 0.9**epoch for epoch in range(61)])[["as written", "opposite sign"]].iloc[-1].tolist()
        [1, 8]
    """
    import pandas as pd

    if not losses:
        raise ValueError("losses of at least one epoch are needed, got none")
    seconds = [1.0] * len(losses)  # equal epochs: the sign alone makes the difference
    printed_base, opposite_base = (
        replay(losses, seconds, as_printed=as_printed)["base"] for as_printed in (True, False)
    )
    return pd.DataFrame(
        {"loss": list(losses), "as written": printed_base, "opposite sign": opposite_base}, index=printed_base.index
    )


def draw_descent(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`descent`: the loss above, the bit-widths by both signs below.

    Raises:
        ValueError: if there is no row.
    """
    if frame.empty:
        raise ValueError("bit-widths of at least one epoch are needed, got none; see descent")
    widths = lines(
        frame,
        y=["as written", "opposite sign"],
        styles=["vermillion dash", "blue"],
        mode="lines",
        shape="hv",  # steps: a bit-width holds until the next decision
        x_axis="epoch",
        y_axis={"title_text": "bits", "tickvals": [1, 2, 4, 8]},
        log="y",
    )
    figure = panels(
        [lines(frame, y="loss", styles=["grey"], mode="lines", x_axis="epoch"), widths],
        rows=2,
        share_x=True,
        sizes=[0.4, 0.6],
        gap=0.08,
        title="More bits or fewer, when training slows down?",
        dark=dark,
        height=430,
    )
    return FigureData(figure, frame)
