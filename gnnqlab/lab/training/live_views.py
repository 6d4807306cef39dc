"""Figure of the live view: its traces stay the same while a run trains, so that updates change values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.policy import WIDTHS
from gnnqlab.lab.figures.byte_axis import byte_ticks
from gnnqlab.lab.figures.theme import OKABE_ITO, PHASES, finish, hatch_marker
from gnnqlab.lab.training.live_model import AGES, DIRECTIONS, LiveModel
from gnnqlab.lab.training.live_traces import (
    bit_width_values,
    line_values,
    pair_bytes,
    phases_by_epoch,
    phases_by_worker,
    volume_by_epoch,
)
from gnnqlab.units import human_seconds

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["caption_of_live", "draw_live", "live_axes", "live_frame", "live_values"]

_SCORES = (("train_score", "training"), ("val_score", "validation"), ("test_score", "test"))
_ROWS = 24
"""Most rows of the table."""
_RIGHT = 0.56
"""Left end of the right panels, as a share of the width."""
_EPOCHS_AXIS, _VOLUME_AXIS = "yaxis3", "yaxis8"
_AGE_WORDS = {"staleness": "staleness of halo rows", "epsilon": "threshold ε of the cache"}
_AGE_AXES = {"staleness": "staleness (epochs)", "epsilon": "ε (no unit)"}
_MESSAGE_TITLES = (
    "Bits per element", "Elements by bit-width", "Bytes from worker to worker", "Bytes sent per epoch, all workers",
)  # fmt: skip
# Cividis, from few to many bits
_WIDTH_COLORS = ("#00224e", "#35456c", "#4e576c", "#666970", "#948e77", "#c8b866", "#fee838")
_ROW, _GAP, _TOP, _FOOT = 186, 124, 34, 72
"""Heights in pixels: of a panel, of the gap between two, above the first, below the last."""
_LEGEND = 36
"""Pixels from a panel down to its legend, below the ticks and the title of the axis."""
_WORDS = 0.25
"""Width of the label of a bar, as a share of its panel."""
_OUTLIER = 3.0
"""Epochs longer than this times the median, for example with an assignment, are labelled and do not set the scale."""


def live_values(model: LiveModel, *, worker: int | None = None) -> list[dict[str, Any]]:
    """Return the values of all traces in their order, as plain lists of numbers and words.

    Args:
        model: model of the run.
        worker: worker whose epochs are broken down; the mean of all if not given.
    """
    records = model.records[0]
    epochs = records["epoch"]
    return [
        line_values(epochs, records["loss"]),
        *(line_values(epochs, 100 * records[column]) for column, _ in _SCORES),
        *(line_values(epochs, 100 * records[column]) for column in model.also),
        *phases_by_epoch(model, worker),
        *phases_by_worker(model),
        *([*bit_width_values(model), pair_bytes(model), *volume_by_epoch(model)] if _exchanges(model) else []),
        _outlier_labels(model, worker),
        *(line_values(*model.ages.get(column, (np.zeros(0), np.zeros(0)))) for column in _age_columns(model)),
        *(line_values(epochs, 100 * share) for epochs, share in model.sent_shares.values()),
    ]


def draw_live(model: LiveModel, *, worker: int | None = None, dark: bool = False) -> Figure:
    """Draw the whole figure.

    Args:
        model: model of the run.
        worker: worker whose epochs are broken down; the mean of all if not given.
        dark: colours for a dark page.
    """
    from plotly.subplots import make_subplots

    if not model.has_epochs:
        return _draw_nothing_yet(model, dark=dark)
    ages = _age_columns(model)
    last_row = _last_row(model)
    rows = last_row if ages or model.sent_shares else last_row - 1
    height = _TOP + _FOOT + rows * _ROW + (rows - 1) * _GAP
    inner_height = height - _TOP - _FOOT  # pixels from the first panel to the last
    titles = [
        "Training loss", _scores_title(model), "Time per epoch by phase",
        "Time by worker, newest epochs", *(_MESSAGE_TITLES if _exchanges(model) else []),
        *(_AGE_WORDS[column].capitalize() for column in ages), *(["Rows sent, by layer"] if model.sent_shares else []),
    ]  # fmt: skip
    figure = make_subplots(
        rows=rows, cols=2, subplot_titles=titles, horizontal_spacing=0.12, vertical_spacing=_GAP / inner_height
    )
    for style, data in zip(_styles(model), live_values(model, worker=worker), strict=True):
        figure.add_trace({**style["trace"], **data}, row=style["row"], col=style["column"])
    finish(figure, title="", caption=caption_of_live(model), dark=dark, height=height)
    figure.update_annotations(font_size=13)
    figure.update_layout(barmode="stack", bargap=0.0, margin={"t": _TOP, "l": 58, "r": 14, "b": _FOOT})
    figure.update_layout(font={"size": 11})
    legends = {"legend": _legend_below(0, 1, inner_height), "legend2": _legend_below(_RIGHT, 0, inner_height)}
    if _exchanges(model):
        places = ((0, 2), (_RIGHT, 2), (_RIGHT, 3))
        legends |= {f"legend{number}": _legend_below(*place, inner_height) for number, place in enumerate(places, 3)}
    if model.sent_shares:
        legends["legend6"] = _legend_below(_RIGHT if ages else 0, last_row - 1, inner_height)
    for name, legend in legends.items():
        figure.update_layout({name: {"font": {"size": 10}, "traceorder": "normal", "orientation": "h"} | legend})
    _name_axes(figure, model)
    figure.update_layout(live_axes(model, worker=worker))
    return figure


def _scores_title(model: LiveModel) -> str:
    """Return the names of all scores."""
    names = [model.score[0].upper() + model.score[1:], *(words.split()[-1] for words in model.also.values())]
    return " and ".join(dict.fromkeys(names))


def caption_of_live(model: LiveModel) -> str:
    """Return a description of the figure in words."""
    epoch_seconds = model.records[0]["epoch_s"][1:]  # the first epoch includes set-up
    words = f"{model.system} on {model.workers} worker{'' if model.workers == 1 else 's'}: {model.sentence}."
    words += "" if _exchanges(model) else " One worker waits for no rows and sends none."
    return words + (f" Median epoch {human_seconds(float(np.median(epoch_seconds)))}." if len(epoch_seconds) else "")


def live_frame(model: LiveModel) -> DataFrame:
    """Return the numbers of evenly spaced epochs, always including the newest."""
    import pandas as pd

    records = model.records[0]
    names = {"loss": "loss", "val_score": "val_score", "epoch_s": "epoch_s", "wait_s": "wait_s"}
    frame = pd.DataFrame({name: records[column] for name, column in names.items()}).set_index(
        pd.Index(records["epoch"].astype(int), name="epoch")
    )
    frame["bytes"] = records["bytes_payload"] + records["bytes_params"]
    step = max(1, -(-len(frame) // _ROWS))  # rounded up
    # Counted from the end, so that the newest is included.
    return frame[(len(frame) - 1) % step :: step] if len(frame) else frame


def _exchanges(model: LiveModel) -> bool:
    """Return True if there are messages; a single worker has none, and no panels of messages."""
    return model.workers > 1


def _last_row(model: LiveModel) -> int:
    """Return the row of the panels that only some systems have, below all others."""
    return 5 if _exchanges(model) else 3


def _age_columns(model: LiveModel) -> tuple[str, ...]:
    return tuple(column for column in AGES if column in model.ages)


def live_axes(model: LiveModel, *, worker: int | None = None) -> dict[str, dict[str, Any]]:
    """Return the settings of axes that change while the run trains: scale of usual epochs, ticks of bytes."""
    _, totals = _totals(model, worker)
    # Without rare long epochs, which would flatten all others.
    heights = totals[totals <= _OUTLIER * np.median(totals)] if len(totals) else totals
    axes = {_EPOCHS_AXIS: {"range": [0.0, 1.12 * float(heights.max())]} if len(heights) else {"rangemode": "tozero"}}
    if _exchanges(model):
        sent_bytes = np.nan_to_num(np.sum([trace["y"] for trace in volume_by_epoch(model)], axis=0, dtype=float))
        axes[_VOLUME_AXIS] = byte_ticks(float(sent_bytes.max()), count=4) if len(sent_bytes) else {}
    return axes


def _draw_nothing_yet(model: LiveModel, *, dark: bool) -> Figure:
    """Draw a line of words instead of panels without data."""
    from plotly.graph_objects import Figure

    words = model.status.activity or "no epoch was recorded"
    figure = finish(Figure(), title="", caption=caption_of_live(model), dark=dark, height=90)
    figure.add_annotation(
        text=f"Before the first epoch ends: {words}", showarrow=False, font_size=13, x=0, xanchor="left"
    )
    hidden_axis = {"visible": False, "range": [0, 1]}
    return figure.update_layout(xaxis=hidden_axis, yaxis=hidden_axis, margin={"t": 8, "b": 8, "l": 8, "r": 8})


def _legend_below(x: float, rows_above: int, inner_height: int) -> dict[str, Any]:
    """Return the place of a legend below a panel, where it covers no line."""
    offset = rows_above * (_ROW + _GAP) + _ROW + _LEGEND  # pixels below the top of the first panel
    return {"x": x, "y": 1 - offset / inner_height, "xanchor": "left", "yanchor": "top"}


def _totals(model: LiveModel, worker: int | None) -> tuple[list[float], NDArray[np.float64]]:
    """Return the centres and the heights (ms) of the bars of epochs."""
    traces = phases_by_epoch(model, worker)
    return traces[0]["x"], np.sum([trace["y"] for trace in traces], axis=0, dtype=float)


def _outlier_labels(model: LiveModel, worker: int | None) -> dict[str, Any]:
    """Return the labels at the top of bars that are higher than their panel."""
    centers, totals = _totals(model, worker)
    top = live_axes(model, worker=worker)[_EPOCHS_AXIS].get("range", [0.0, np.inf])[1]
    high_bars = [(x, total) for x, total in zip(centers, totals.tolist(), strict=True) if total > top]
    middle, width = ((centers[0] + centers[-1]) / 2, centers[-1] - centers[0]) if len(centers) else (0.0, 0.0)

    def start(x: float) -> float:
        """Return the left end of a bar's label, which is to its right in the left half, to its left in the other."""
        return x - _WORDS * width if x > middle else x

    # Of bars whose labels would overlap, only the highest is labelled.
    high_bars = [
        (x, total)
        for x, total in high_bars
        if all(total >= height for place, height in high_bars if abs(start(place) - start(x)) < _WORDS * width)
    ]
    return {
        "x": [x for x, _ in high_bars],
        "y": [0.99 * top] * len(high_bars),
        "text": [f"↑ {total:.0f} ms" for _, total in high_bars],
        "textposition": [f"bottom {'left' if x > middle else 'right'}" for x, _ in high_bars],  # inside the panel
    }


def _name_axes(figure: Figure, model: LiveModel) -> None:
    axes = {
        (1, 1): ("epoch", "loss (cross-entropy)"),
        (1, 2): ("epoch", "%"),
        (2, 1): ("epoch", "ms per epoch"),
        (2, 2): ("ms per epoch", ""),
    }
    if _exchanges(model):
        axes |= {
            (3, 1): ("epoch", "mean bits"),
            (3, 2): ("epoch", "elements (%)"),
            (4, 1): ("receiver", "sender"),
            (4, 2): ("epoch", "sent per epoch"),
        }
    ages, last_row = _age_columns(model), _last_row(model)
    axes |= {(last_row, number + 1): ("epoch", _AGE_AXES[column]) for number, column in enumerate(ages)}
    axes |= {(last_row, len(ages) + 1): ("epoch", "rows sent (%)")} if model.sent_shares else {}
    for (row, column), (x, y) in axes.items():
        figure.update_xaxes(title_text=x, title_standoff=4, title_font_size=11, row=row, col=column)
        figure.update_yaxes(title_text=y, title_standoff=4, title_font_size=11, row=row, col=column)
        if (row, column) not in ((1, 1), (4, 1)):
            figure.update_yaxes(rangemode="tozero", row=row, col=column)
    figure.update_yaxes(autorange="reversed", row=2, col=2)
    if _exchanges(model):
        figure.update_yaxes(range=[0, 102], row=3, col=2)
        figure.update_yaxes(autorange="reversed", showgrid=False, row=4, col=1)
        figure.update_xaxes(showgrid=False, row=4, col=1)


def _styles(model: LiveModel) -> list[dict[str, Any]]:
    """Return the settings of all traces that do not change while the run trains."""
    blue, orange, green = OKABE_ITO["blue"], OKABE_ITO["vermillion"], OKABE_ITO["green"]

    def place(row: int, column: int, **trace: Any) -> dict[str, Any]:
        return {"row": row, "column": column, "trace": trace}

    def line(row: int, column: int, color: str, dash: str, symbol: str, **trace: Any) -> dict[str, Any]:
        marker = {"symbol": symbol, "size": 6, "maxdisplayed": 8, "color": color}
        style = {"type": "scatter", "mode": "lines+markers", "line": {"color": color, "dash": dash, "width": 2}}
        return place(row, column, **style, marker=marker, **trace)

    def area(row: int, column: int, group: str, color: str, **trace: Any) -> dict[str, Any]:
        style = {"type": "scatter", "mode": "lines", "stackgroup": group, "fillcolor": color}
        return place(row, column, **style, line={"color": "#7d7d7d", "width": 0.5}, **trace)

    def bar(row: int, column: int, color: str, pattern: str, **trace: Any) -> dict[str, Any]:
        return place(row, column, type="bar", marker=hatch_marker(color, pattern), **trace)

    styles = zip(_SCORES, (blue, orange, green), ("dot", "solid", "dash"), ("square", "circle", "diamond"))
    phases = [(phase, phase.pattern) for phase in PHASES]
    last_row = _last_row(model)
    of_messages = [
        *(
            line(3, 1, color, dash, symbol, name=direction, legend="legend3",
                 hovertemplate=f"epoch %{{x}}: %{{y:.2f}} bits<extra>{direction}</extra>")
            for direction, color, dash, symbol in zip(DIRECTIONS, (blue, orange), ("solid", "dash"), ("circle", "x"))
        ),
        *(
            area(3, 2, "widths", color, name=human_bits(width), legend="legend4",
                 showlegend=bool(width in _legend_widths(model)),
                 hovertemplate=f"epoch %{{x}}: %{{y:.1f}} % in {human_bits(width)}<extra></extra>")
            for width, color in zip(WIDTHS, _WIDTH_COLORS, strict=True)
        ),
        place(4, 1, type="heatmap", colorscale="Cividis", zmin=0, xgap=2, ygap=2, hoverongaps=False, showscale=False,
              texttemplate="%{text}", hovertemplate="%{y} to %{x}: %{z:.4s}B per epoch<extra></extra>"),
        area(4, 2, "volume", blue, name="payload", legend="legend5",
             hovertemplate="epoch %{x}: %{y:.4s}B<extra>payload</extra>"),
        area(4, 2, "volume", OKABE_ITO["orange"], name="parameters (scales, zero-points)", legend="legend5",
             hovertemplate="epoch %{x}: %{y:.4s}B<extra>parameters</extra>"),
    ]  # fmt: skip
    return [
        line(1, 1, blue, "solid", "circle", hovertemplate="epoch %{x}: %{y:.4g}<extra>loss</extra>", showlegend=False),
        *(
            line(1, 2, color, dash, symbol, name=name, legend="legend2",
                 hovertemplate=f"epoch %{{x}}: %{{y:.1f}} %<extra>{name}</extra>")
            for (_, name), color, dash, symbol in styles
        ),
        *(
            line(1, 2, orange if name.startswith("validation") else green, "dashdot", "cross", name=name,
                 legend="legend2", hovertemplate=f"epoch %{{x}}: %{{y:.1f}} %<extra>{name}</extra>")
            for name in model.also.values()
        ),
        *(
            bar(2, 1, phase.color, pattern, name=phase.label, legendgroup=phase.column,
                hovertemplate=f"epoch %{{x}}: {phase.label} %{{y:.3g}} ms<extra></extra>")
            for phase, pattern in phases
        ),
        *(
            bar(2, 2, phase.color, pattern, name=phase.label, legendgroup=phase.column, showlegend=False,
                orientation="h", width=0.7, hovertemplate=f"{phase.label} %{{x:.3g}} ms<extra>%{{y}}</extra>")
            for phase, pattern in phases
        ),
        *(of_messages if _exchanges(model) else []),
        place(2, 1, type="scatter", mode="text", showlegend=False, hoverinfo="skip"),
        *(
            line(last_row, number + 1, OKABE_ITO["purple"], "solid", "circle", showlegend=False, line_shape="hv",
                 hovertemplate=f"epoch %{{x}}: {_AGE_WORDS[column]} %{{y:.4g}}<extra></extra>")
            for number, column in enumerate(_age_columns(model))
        ),
        *(
            line(last_row, len(_age_columns(model)) + 1, list(OKABE_ITO.values())[layer % len(OKABE_ITO)], "solid",
                 "circle", name=f"layer {layer}", legend="legend6",
                 hovertemplate=f"epoch %{{x}}: %{{y:.0f}} % of the rows<extra>layer {layer}</extra>")
            for layer in model.sent_shares
        ),
    ]  # fmt: skip


def _legend_widths(model: LiveModel) -> set[int]:
    """Return the bit-widths that the system may choose, and those of the newest messages."""
    widths = set(model.choices)
    for traffic in model.traffic:
        for elements in list(traffic.elements.values())[-1:]:
            widths |= {width for width, count in zip(WIDTHS, elements.sum(axis=0), strict=True) if count}
    return widths
