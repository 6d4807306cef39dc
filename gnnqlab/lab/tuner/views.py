"""Figure of the tuner: six panels of one position, with fixed traces, so that an update changes values only.

Time against variance with the current point; bits between workers; rows by bit-width; time per epoch by phase; the
bound of Theorem 3 by layer; measured epochs and the predicted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.theme import OKABE_ITO, PHASES, finish, set_each
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.settings import OFFERED
from gnnqlab.units import format_power

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["CURRENT", "Measurement", "TunerNumbers", "draw_panel", "draw_tuner", "show_tuner", "values"]

CURRENT = 1
"""Index of the trace of the current point."""
_TITLES = (
    "Time against variance",
    "Bits from worker to worker",
    "Rows by bit-width",
    "Time per epoch by phase",
    "Bound of Theorem 3",
    "Epochs of this run",
)
_NOTE_BEFORE_RUN = "<br>predicted: {:.0f} ms<br>Train shows measured<br>epochs as dots here"
_CURRENT_HOVER = "%{x:.2f} ms, V %{y:.3g}<extra>current settings</extra>"
_HATCH = {"size": 5, "solidity": 0.25, "fillmode": "overlay"}
_MAP = (0.372, 0.596)
"""Left and right end of the heat map as shares of the figure; then follow its colour bar and a gap."""
_BAR = {
    "ticks": "", "x": _MAP[1] + 0.008, "xanchor": "left", "y": 1, "yanchor": "top", "len": 0.42,
    "thickness": 9, "tickvals": [1, 8], "outlinewidth": 0,
}  # fmt: skip
_STATED = tuple(phase for phase in PHASES if phase.column != "assign_s")
"""Phases of an epoch without assignment; waiting for messages is ``wire`` in a forecast."""


def _axis(title: str, **settings: Any) -> dict[str, Any]:
    return {"title": title, "settings": settings}


_AXES = {
    # Plotly's own ticks, because the range follows the knobs.
    (1, 1): (
        _axis("predicted epoch (ms)"),
        _axis("gradient variance V (no unit)", type="log", tickformat="~g", nticks=4),
    ),
    (1, 2): (_axis("receiver", showgrid=False), _axis("sender", autorange="reversed", showgrid=False)),
    (1, 3): (_axis("bits per element", type="category"), _axis("rows per epoch (%)", range=[0, 118])),
    (2, 1): (_axis("ms per epoch", rangemode="tozero"), _axis("", autorange="reversed")),
    (2, 2): (
        _axis("layer", type="category"),
        _axis("bound of the variance", rangemode="tozero", tickformat="~e", nticks=5),
    ),
    (2, 3): (_axis("epoch", rangemode="tozero"), _axis("ms per epoch", rangemode="tozero")),
}
"""(row, column) -> x and y axis of a panel."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Measurements of a launched run."""

    epochs: tuple[int, ...] = ()
    epoch_s: tuple[float, ...] = ()
    """Seconds of each epoch without assignment."""
    phases: Mapping[str, float] | None = None
    """Seconds per epoch by phase, once the run has ended."""
    lam: float | None = None
    """λ of the run."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TunerNumbers:
    """All numbers of the figure, each of which may be unknown."""

    lams: tuple[float, ...] = ()
    front_s: tuple[float, ...] = ()
    front_variance: tuple[float, ...] = ()
    lam: float | None = None
    epoch_s: float | None = None
    variance: float | None = None
    pair_bits: NDArray[np.float64] | None = None
    rows: Mapping[int, int] | None = None
    vanilla: Mapping[str, float] | None = None
    """Seconds per epoch of Vanilla by phase."""
    phases: Mapping[str, float] | None = None
    """Seconds per epoch of these settings by phase."""
    bounds: Mapping[int, float] | None = None
    """Layer from 0 -> bound."""
    measurement: Measurement = Measurement()
    caption: str = "No prediction yet: the graph is being probed."

    @classmethod
    def from_model(
        cls, model: TunerModel, *, measurement: Measurement | None = None, front: bool = True
    ) -> TunerNumbers:
        """Return the numbers of a model's position.

        Args:
            model: model with the position to show.
            measurement: measurements of a run, if there is one.
            front: True to compute the front too, eleven forecasts if none is cached.
        """
        forecast = model.forecast
        line = model.front if front else []  # eleven forecasts, λ from 0 to 1
        words = f"{model.title}. {model.position}: {model.sentence}."
        return cls(
            lams=tuple(each.lam for each in line if each.lam is not None),
            front_s=tuple(each.epoch_s for each in line),
            front_variance=tuple(each.total_variance for each in line),
            lam=forecast.lam,
            epoch_s=forecast.epoch_s,
            variance=None if forecast.no_variance else forecast.total_variance,
            pair_bits=forecast.pair_bits,
            rows=forecast.rows,
            vanilla=model.vanilla.phases,
            phases=forecast.phases,
            bounds=model.bound_per_layer,
            measurement=measurement or Measurement(),
            caption=words,
        )


def values(shown: TunerNumbers) -> list[dict[str, Any]]:
    """Return the values of all traces in their order, as plain lists of numbers and words."""
    return [
        _front(shown),
        _current_point(shown),
        _pairs(shown),
        _widths(shown),
        *_phases(shown),
        _bounds(shown),
        *_epochs(shown),
    ]


def draw_tuner(shown: TunerNumbers, *, dark: bool = False) -> Figure:
    """Draw the whole figure.

    Args:
        shown: numbers of the figure.
        dark: colours for a dark page.
    """
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=2, cols=3, subplot_titles=_TITLES, horizontal_spacing=0.115, vertical_spacing=0.2, row_heights=[0.5, 0.5]
    )
    for style, data in zip(_styles(dark), values(shown), strict=True):
        figure.add_trace({**style["trace"], **data}, row=style["row"], col=style["column"])
    finish(figure, title="", caption=shown.caption, dark=dark, height=600)
    figure.update_annotations(font_size=13)
    figure.update_annotations(selector={"text": _TITLES[1]}, x=sum(_MAP) / 2)
    figure.update_layout(
        barmode="stack", margin={"t": 34, "l": 58, "r": 12, "b": 92}, font={"size": 11},
        legend={"x": 0, "xanchor": "left", "y": -0.13, "yanchor": "top", "font": {"size": 10}, "traceorder": "normal"},
    )  # fmt: skip
    for (row, column), (x, y) in _AXES.items():
        titles = {"title_standoff": 6, "title_font_size": 11, "row": row, "col": column}
        figure.update_xaxes({"title_text": x["title"], **x["settings"]}, **titles)
        figure.update_yaxes({"title_text": y["title"], **y["settings"]}, **{**titles, "title_standoff": 4})
    figure.update_xaxes(domain=_MAP, row=1, col=2)
    return figure


def draw_panel(shown: TunerNumbers, row: int, column: int, *, dark: bool = False) -> Figure:
    """Draw one panel as a figure of its own.

    Args:
        shown: numbers of the figure.
        row, column: place of the panel in the whole figure, from 1.
        dark: colours for a dark page.
    """
    import plotly.graph_objects as go

    figure = go.Figure([
        {**style["trace"], **data}
        for style, data in zip(_styles(dark), values(shown), strict=True)
        if (style["row"], style["column"]) == (row, column)
    ])  # fmt: skip
    title = _TITLES[3 * (row - 1) + column - 1]
    finish(figure, title=title, caption=f"{title}. {shown.caption}", dark=dark, height=330)
    x, y = _AXES[row, column]
    settings = {
        "barmode": "stack", "legend": {"y": -0.2, "yanchor": "top"},
        "xaxis": {"title": {"text": x["title"]}, **x["settings"]},
        "yaxis": {"title": {"text": y["title"]}, **y["settings"]},
    }  # fmt: skip
    set_each(figure.layout, settings)
    return figure


def show_tuner(model: TunerModel, *, measurement: Measurement | None = None, dark: bool = False) -> FigureData:
    """Return the figure with the numbers of the front, for pages without a kernel."""
    return FigureData(draw_tuner(TunerNumbers.from_model(model, measurement=measurement), dark=dark), model.to_frame())


def _front(numbers: TunerNumbers) -> dict[str, Any]:
    return {
        "x": [1e3 * seconds for seconds in numbers.front_s],
        "y": [_positive(each) for each in numbers.front_variance],
        "customdata": list(numbers.lams),
    }


def _current_point(numbers: TunerNumbers) -> dict[str, Any]:
    is_known = numbers.epoch_s is not None and numbers.variance is not None
    return {
        "x": [1e3 * numbers.epoch_s] if is_known else [],  # type: ignore[operator]
        "y": [_positive(numbers.variance)] if is_known else [],
        "customdata": [numbers.lam] if is_known else [],
        "hovertemplate": ("" if numbers.lam is None else "λ %{customdata:.2f}: ") + _CURRENT_HOVER,
        "textposition": f"middle {_side(numbers)}",
    }


def _side(numbers: TunerNumbers) -> str:
    """Return the side of the point on which its label fits."""
    if not numbers.front_s or numbers.epoch_s is None:
        return "right"
    return "right" if numbers.epoch_s <= (min(numbers.front_s) + max(numbers.front_s)) / 2 else "left"


def _pairs(numbers: TunerNumbers) -> dict[str, Any]:
    if numbers.pair_bits is None:
        return {"z": [], "x": [], "y": [], "text": []}
    bits = [[None if value != value else round(value, 3) for value in line] for line in numbers.pair_bits.tolist()]
    names = [f"w{rank}" for rank in range(len(bits))]
    text = [["" if value is None else f"{value:.1f}" for value in line] for line in bits]
    return {"z": bits, "x": names, "y": names, "text": text}


def _widths(numbers: TunerNumbers) -> dict[str, Any]:
    rows = numbers.rows or {}
    total = sum(rows.values()) or 1
    widths = sorted({*OFFERED, *rows})  # fixed bars, so that updates do not move them
    shares = [round(100 * rows.get(width, 0) / total, 2) for width in widths]
    return {"x": [str(width) for width in widths], "y": shares, "text": [f"{share:.0f} %" for share in shares]}


def _phases(numbers: TunerNumbers) -> list[dict[str, Any]]:
    bars = [
        ("Vanilla", numbers.vanilla),
        ("predicted", numbers.phases),
        *([("measured", numbers.measurement.phases)] if numbers.measurement.phases else []),
    ]
    rows = [(name, phases) for name, phases in bars if phases is not None]
    traces = []
    for phase in _STATED:
        # A forecast has the transfer, a record the wait.
        key = "wire" if phase.column == "wait_s" else phase.column.removesuffix("_s")
        traces.append({"y": [name for name, _ in rows], "x": [1e3 * phases.get(key, 0.0) for _, phases in rows]})
    return traces


def _bounds(numbers: TunerNumbers) -> dict[str, Any]:
    bounds = {layer: bound for layer, bound in (numbers.bounds or {}).items() if bound > 0}
    return {
        "x": [f"{layer + 1}" for layer in bounds],
        "y": list(bounds.values()),
        "text": [format_power(bound) for bound in bounds.values()],
    }


def _epochs(numbers: TunerNumbers) -> list[dict[str, Any]]:
    """Return measured epochs, thinned if there are many, and the predicted one as a line."""
    measurement = numbers.measurement
    step = max(1, len(measurement.epochs) // 300)  # about 300 dots at most
    epochs, seconds = measurement.epochs[::step], measurement.epoch_s[::step]
    dots = {"x": list(epochs), "y": [1e3 * each for each in seconds]}
    if numbers.epoch_s is None:
        return [dots, {"x": [], "y": [], "text": []}]
    epoch_ms = 1e3 * numbers.epoch_s
    if not measurement.epochs:
        return [dots, {"x": [0, 0.5, 1], "y": [epoch_ms] * 3, "text": ["", _NOTE_BEFORE_RUN.format(epoch_ms), ""]}]
    return [dots, {"x": [0, max(measurement.epochs[-1], 1)], "y": [epoch_ms] * 2, "text": ["", ""]}]


def _positive(value: float | None) -> float | None:
    """Return a positive value, else None: zero variance cannot be drawn on a logarithmic axis."""
    return value if value is not None and value > 0 else None


def _styles(dark: bool) -> list[dict[str, Any]]:
    """Return the settings of all traces that do not change with the knobs."""
    ink = "#e6e8ea" if dark else "#1f2328"
    orange, blue, green = OKABE_ITO["vermillion"], OKABE_ITO["sky" if dark else "blue"], OKABE_ITO["green"]
    no_legend = {"showlegend": False}

    def place(row: int, column: int, **trace: Any) -> dict[str, Any]:
        return {"row": row, "column": column, "trace": trace}

    bars = [
        place(
            2, 1, type="bar", orientation="h", name=phase.label, legendgroup="phases",
            marker={"color": phase.color, "pattern": {**_HATCH, "shape": phase.pattern}},
            hovertemplate=f"{phase.label} %{{x:.3g}} ms<extra>%{{y}}</extra>",
        )
        for phase in _STATED
    ]  # fmt: skip
    return [
        place(
            1, 1, type="scatter", mode="lines+markers", line={"color": blue, "width": 2},
            marker={"symbol": "circle-open", "size": 7, "color": blue},
            hovertemplate="λ %{customdata:.1f}: %{x:.2f} ms, V %{y:.3g}<extra></extra>", **no_legend,
        ),
        place(
            1, 1, type="scatter", mode="markers+text", text=["current"],
            textfont={"color": ink}, marker={"symbol": "star", "size": 15, "color": orange, "line": {"width": 1}},
            cliponaxis=False, **no_legend,
        ),
        place(
            1, 2, type="heatmap", colorscale="Cividis", zmin=1, zmax=8, xgap=2, ygap=2, hoverongaps=False,
            texttemplate="%{text}", colorbar=_BAR,
            hovertemplate="%{y} to %{x}: %{z:.2f} bits per element<extra></extra>",
        ),
        place(
            1, 3, type="bar", marker={"color": blue}, texttemplate="%{text}", textposition="outside", cliponaxis=False,
            hovertemplate="%{y:.1f} % of the rows at bit-width %{x}<extra></extra>", **no_legend,
        ),
        *bars,
        place(
            2, 2, type="bar", marker={"color": green}, texttemplate="%{text}", textposition="outside", textangle=0,
            cliponaxis=False,
            hovertemplate="layer %{x}: at most %{y:.3g}<extra></extra>", **no_legend,
        ),
        place(
            2, 3, type="scatter", mode="markers", marker={"symbol": "circle", "size": 5, "color": orange},
            hovertemplate="epoch %{x}: %{y:.1f} ms<extra>measured</extra>", name="measured epoch",
        ),
        place(
            2, 3, type="scatter", mode="lines+text", line={"color": blue, "dash": "dash", "width": 2},
            textfont={"color": ink}, textposition="bottom center",
            hovertemplate="predicted %{y:.1f} ms<extra></extra>", name="predicted epoch",
        ),
    ]  # fmt: skip
