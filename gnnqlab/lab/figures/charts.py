"""Charts of a table in the common theme: lines, points, bars and lanes of time, and panels of them.

A table has its series in one of two ways: ``y`` names one column per series, or one column of values and ``by`` the
column that names the series of each row. If ``frame.attrs["units"]`` has the unit of a column, its axis shows it.
A chart with a ``title`` is finished; one without is a part for :func:`panels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from gnnqlab.lab.figures.bundle import show
from gnnqlab.lab.figures.chart_parts import (
    STYLES,
    Axis,
    Page,
    Series,
    Styles,
    assign_styles,
    begin_chart,
    end_chart,
    hover_of,
    panel_axis,
    panel_reference,
    series_of,
    split_styles,
)
from gnnqlab.lab.figures.static_image import save
from gnnqlab.lab.figures.theme import hatch_marker

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["add_slider", "bars", "lanes", "lines", "panels", "save", "scatter", "show"]


def lines(
    frame: DataFrame,
    *,
    x: str | None = None,
    y: str | Sequence[str] | Mapping[Any, str | tuple[str, str]],
    by: str | None = None,
    names: Mapping[Any, str] | str = "{}",
    styles: Styles = STYLES,
    mode: str = "lines+markers",
    shape: str = "linear",
    size: int = 8,
    opacity: float = 1.0,
    error: str | Mapping[str, str] | None = None,
    band: tuple[str, str] | None = None,
    text: str | None = None,
    details: str | None = None,
    hover: str = "",
    levels: Mapping[str, float] | None = None,
    x_axis: Axis = "",
    y_axis: Axis = "",
    log: str = "",
    zero: str = "",
    figure: Figure | None = None,
    **page: Unpack[Page],
) -> Figure:
    """Draw a line for each series.

    Args:
        frame: the table.
        x: column of the horizontal axis; by default the index.
        y: column of values; or columns, one per series, in a mapping with their names, or names and styles.
        by: column that names the series of each row, if ``y`` is one column.
        names: names of the series by value of ``by``, or a pattern: ``"{} workers"``.
        styles: colour, dash and marker of each series, such as ``"blue dash square"``; or a function of its name.
        mode, shape, size, opacity: Plotly's settings of lines and markers.
        error: column of half the error bar; a mapping by column of ``y`` if only some have one.
        band: columns of the lower and upper end of a shaded band.
        text: column of labels next to the points.
        details: column of further words of the hover text.
        hover: Plotly's template of the hover text after the name; by default both values.
        levels: label -> height of a dotted horizontal line.
        x_axis, y_axis: title with unit, or Plotly's settings.
        log, zero: ``"x"``, ``"y"`` or both: axes that are logarithmic, and those that show zero.
        figure: chart to draw on; by default a new one.
        page: ``title``, ``caption`` (description for a screen reader), ``dark``, ``height`` (pixels), ``legend_rows``,
            ``legend_below`` (under the figure).

    Returns:
        The figure. On a logarithmic axis values without a logarithm are left out.

    Raises:
        KeyError: if the table lacks a column.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"epoch": [0, 1], "loss": [2.0, 1.0]})
        >>> table.attrs["units"] = {"loss": "nats"}
        >>> figure = lines(table, x="epoch", y="loss", title="A descent")
        >>> figure.layout.yaxis.title.text, figure.layout.meta["caption"]
        ('loss (nats)', 'A descent: loss 2 to 1.')
    """
    y, styles = split_styles(y, styles)
    figure, x_set, y_set = begin_chart(frame, x, y, x_axis, y_axis, figure)
    # Zero and negative values have no logarithm: they become gaps.
    is_log = "y" in log or "log" in (y_set.get("type"), figure.layout.yaxis.type)
    values = hover or f"{_plain(y_set)} %{{y:.4g}}, {_plain(x_set)} %{{x}}"
    for series, (color, dash, symbol) in assign_styles(series_of(frame, x, y, by, names), styles):
        y_drawn = [value if value is not None and value > 0 else None for value in series.y] if is_log else series.y
        if band is not None:
            _add_band(figure, series, band, color)
        halves = error.get(series.key) if isinstance(error, Mapping) else error
        edge = {"width": 2 if symbol.endswith("open") else 0, "color": color}
        figure.add_scatter(
            x=series.x,
            y=y_drawn,
            name=series.name,
            mode=mode if text is None else f"{mode}+text",
            line={"color": color, "dash": dash, "width": 2, "shape": shape} if "lines" in mode else None,
            marker={"symbol": symbol, "size": size, "color": color, "line": edge} if "markers" in mode else None,
            opacity=opacity,
            error_y=None if halves is None else _error(series, halves),
            text=None if text is None else series.rows[text].tolist(),
            textposition=None if text is None else "top center",
            **hover_of(series.name, series.rows, details, values),
        )
    return end_chart(figure, page, x_set, y_set, log=log, zero=zero, levels=levels)


def scatter(frame: DataFrame, *, mode: str = "markers", **settings: Any) -> Figure:
    """Draw a point for each row; takes the settings of :func:`lines`.

    Example:
        >>> import pandas as pd
        >>> figure = scatter(pd.DataFrame({"error": [0.2, 0.1]}, index=[3, 9]), y="error", x_axis="degree")
        >>> figure.data[0].mode, figure.layout.xaxis.title.text
        ('markers', 'degree')
    """
    return lines(frame, mode=mode, **settings)


def bars(
    frame: DataFrame,
    *,
    x: str | None = None,
    y: str | Sequence[str] | Mapping[Any, str | tuple[str, str]],
    by: str | None = None,
    names: Mapping[Any, str] | str = "{}",
    styles: Styles = STYLES,
    stacked: bool = False,
    horizontal: bool = False,
    error: str | None = None,
    text: str | Mapping[str, str] | None = None,
    details: str | None = None,
    hover: str = "",
    levels: Mapping[str, float] | None = None,
    x_axis: Axis = "",
    y_axis: Axis = "",
    log: str = "",
    zero: str = "",
    figure: Figure | None = None,
    **page: Unpack[Page],
) -> Figure:
    """Draw grouped or stacked bars, distinguished by colour and pattern.

    Args:
        frame, x, y, by, names, error, details, hover, levels, x_axis, y_axis, log, zero, figure, page: as for
            :func:`lines`; the values of ``x`` are categories, in groups if the index has two levels.
        styles: colour and pattern of each series, such as ``"blue /"``.
        stacked: True to stack the bars of a category.
        horizontal: True for bars from left to right, the first row on top; ``x_axis`` is still the horizontal axis.
        text: column of labels at the ends of the bars; a mapping by column of ``y`` if only some have one.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"codes": [8, 4], "scales": [1, 1]}, index=["8 bits", "4 bits"])
        >>> figure = bars(table, y=["codes", "scales"], stacked=True, title="Bytes of a row", y_axis="bytes")
        >>> figure.layout.barmode, [bar.name for bar in figure.data]
        ('stack', ['codes', 'scales'])
    """
    y, styles = split_styles(y, styles)
    words, amounts = (y_axis, x_axis) if horizontal else (x_axis, y_axis)
    figure, word_set, amount_set = begin_chart(frame, x, y, words, amounts, figure)
    nested = x is None and frame.index.nlevels > 1  # two levels: groups of categories
    kind = {} if nested else {"type": "category"}
    # Plotly counts categories from below; reversed, the first is on top.
    word_set = {**kind, **({"autorange": "reversed"} if horizontal else {}), **word_set}
    numbers = word_set.get("type") == "linear"
    values = hover or f"%{{{'y' if horizontal else 'x'}}}, {_plain(amount_set)} %{{{'x' if horizontal else 'y'}:.4g}}"
    for series, (color, _, pattern) in assign_styles(series_of(frame, x, y, by, names), styles, bar=True):
        labels = list(map(list, zip(*series.x))) if nested else [value if numbers else str(value) for value in series.x]
        halves = None if error is None else _error(series, error)
        text_column = text.get(series.key) if isinstance(text, Mapping) else text
        figure.add_bar(
            **({"x": series.y, "y": labels, "error_x": halves} if horizontal else {"x": labels, "y": series.y}),
            **({"orientation": "h"} if horizontal else {"error_y": halves}),
            name=series.name,
            marker=hatch_marker(color, pattern),
            text=None if text_column is None else series.rows[text_column].tolist(),
            textposition=None if text_column is None else "outside",
            **hover_of(series.name, series.rows, details, values),
        )
    figure.update_layout(barmode="stack" if stacked else "group")
    x_set, y_set = (amount_set, word_set) if horizontal else (word_set, amount_set)
    return end_chart(figure, page, x_set, y_set, log=log, zero=zero, levels=levels)


def lanes(
    frame: DataFrame,
    *,
    lane: str,
    start: str,
    end: str,
    by: str,
    names: Mapping[Any, str] | str = "{}",
    styles: Styles = STYLES,
    order: Sequence[Any] | None = None,
    width: float = 0.8,
    opacity: float = 1.0,
    details: str | None = None,
    hover: str = "%{x:.2f} ms from %{base:.2f} ms",
    x_axis: Axis = "milliseconds",
    y_axis: Axis = "",
    figure: Figure | None = None,
    **page: Unpack[Page],
) -> Figure:
    """Draw spans of time: one lane per worker, one bar from start to end per row of the table.

    Args:
        frame: table with one row per span.
        lane: column of lanes.
        start, end: columns of times, in the unit of the axis.
        by: column of activities, each of which has a colour and a pattern.
        styles: styles of the activities; a mapping sets their order, and rows of other activities are left out.
        order, width, opacity: lanes from top to bottom; settings of a bar, where a width of 1 fills its lane.
        names, details, hover, x_axis, y_axis, figure, page: as for :func:`lines`.

    Example:
        >>> import pandas as pd
        >>> spans = pd.DataFrame({"rank": [0, 1], "what": ["encode", "wait"], "from": [0.0, 1.0], "to": [1.0, 3.0]})
        >>> figure = lanes(spans, lane="rank", start="from", end="to", by="what", title="An epoch")
        >>> [(bar.name, list(bar.base), list(bar.x)) for bar in figure.data]
        [('encode', [0.0], [1.0]), ('wait', [1.0], [2.0])]
    """
    is_new_figure = figure is None
    figure, y_set, x_set = begin_chart(frame, lane, end, y_axis or " ", x_axis, figure)
    spans = list(series_of(frame, lane, end, by, names))
    if isinstance(styles, Mapping):
        ranks = {key: rank for rank, key in enumerate(styles)}
        spans = sorted((series for series in spans if series.key in ranks), key=lambda series: ranks[series.key])
    for series, (color, _, pattern) in assign_styles(iter(spans), styles, bar=True):
        starts = series.rows[start].tolist()
        figure.add_bar(
            x=[end_time - start_time for end_time, start_time in zip(series.y, starts, strict=True)],
            base=starts,
            y=series.x,
            orientation="h",
            width=width,
            name=series.name,
            marker=hatch_marker(color, pattern, opacity=opacity),
            **hover_of(series.name, series.rows, details, hover, extra="%{y}"),
        )
    figure.update_layout(barmode="overlay", legend={"traceorder": "normal"})
    if is_new_figure:
        y_set = {"autorange": "reversed", "showgrid": False, **y_set}
    if order is not None:
        y_set = {"categoryorder": "array", "categoryarray": list(order), **y_set}
    return end_chart(figure, page, x_set, {**y_set, "title_text": y_axis or None})


def panels(
    parts: Mapping[str, Figure | None] | Sequence[Figure | None],
    *,
    rows: int = 1,
    share_x: bool | str = False,
    share_y: bool | str = False,
    gap: float | tuple[float, float] | None = None,
    sizes: Sequence[float] | None = None,
    **page: Unpack[Page],
) -> Figure:
    """Arrange charts in rows and columns, with one legend for all.

    An axis title that the panel to the left, or below, has too is written once.

    Args:
        parts: charts, in a mapping by their titles if they have some; ``None`` leaves a place empty.
        rows: number of rows.
        share_x, share_y: one scale per column or row, or for ``"all"``.
        gap: space between columns, or between rows if there is one column, as a share of the figure; or both.
        sizes: relative widths of the columns, or heights of the rows if there is one column.
        page: as for :func:`lines`.

    Raises:
        ValueError: if there is no chart.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"loss": [2.0, 1.0], "score": [0.1, 0.9]})
        >>> figure = panels([lines(table, y=name) for name in table], title="A training")
        >>> [trace.xaxis for trace in figure.data], figure.layout.yaxis2.title.text
        (['x', 'x2'], 'score')
    """
    from plotly.subplots import make_subplots

    charts = list(parts.values() if isinstance(parts, Mapping) else parts)
    if not any(chart is not None for chart in charts):
        raise ValueError("panels need at least one chart, got none; pass [lines(table, y=column)]")
    columns = -(-len(charts) // rows)  # rounded up
    has_one_column = columns == 1
    spacings = gap if isinstance(gap, tuple) else (None, gap) if has_one_column else (gap, None)
    gaps = dict(zip(("horizontal_spacing", "vertical_spacing"), spacings))
    figure = make_subplots(
        rows=rows, cols=columns, shared_xaxes=share_x, shared_yaxes=share_y,
        **gaps,
        **({"subplot_titles": [t if parts[t] else "" for t in parts]} if isinstance(parts, Mapping) else {}),
        **({"row_heights" if has_one_column else "column_widths": list(sizes)} if sizes else {}),
    )  # fmt: skip
    legend_groups: set[str] = set()
    for number, chart in enumerate(charts):
        if chart is None:
            continue
        row, column = divmod(number, columns)
        cell = {"row": row + 1, "col": column + 1}
        for trace in chart.data:
            group = trace.legendgroup or trace.name
            # One entry in the legend per group, from the first panel that has it.
            is_first_of_group = bool(group) and group not in legend_groups and trace.showlegend is not False
            legend_groups |= {group} if is_first_of_group else set()
            figure.add_trace(trace.update(legendgroup=group, showlegend=is_first_of_group), **cell)
        left_chart = charts[number - 1] if column else None
        lower_chart = charts[number + columns] if row + 1 < rows and number + columns < len(charts) else None
        figure.update_xaxes(panel_axis(chart.layout.xaxis, lower_chart and lower_chart.layout.xaxis), **cell)
        figure.update_yaxes(panel_axis(chart.layout.yaxis, left_chart and left_chart.layout.yaxis), **cell)
        # Plotly hides tick labels of shared axes; next to an empty place no other panel shows them.
        figure.update_xaxes({"showticklabels": True} if share_x and lower_chart is None else {}, **cell)
        figure.update_yaxes({"showticklabels": True} if share_y and left_chart is None else {}, **cell)
        for add_item, items in (
            (figure.add_shape, chart.layout.shapes),
            (figure.add_annotation, chart.layout.annotations),
        ):
            for item in items:
                add_item(item.update({f"{way}ref": panel_reference(item[f"{way}ref"], way, number) for way in "xy"}))
        figure.update_layout(
            {key: chart.layout[key] for key in ("barmode", "bargap", "scattermode") if chart.layout[key]}
        )
    if len(legend_groups) < 2:
        figure.update_traces(showlegend=False)
    end_chart(figure, page)
    if "title" in page and isinstance(parts, Mapping) and len(legend_groups) > 1 and not page.get("legend_below"):
        # A legend above the titles of panels, 26 pixels over the plot.
        room = figure.layout.height - figure.layout.margin.t - 60
        figure.update_layout(legend={"y": 1 + 26 / room}, margin={"t": figure.layout.margin.t + 24})
    return figure


def add_slider(
    figure: Figure,
    steps: Mapping[Any, Mapping[str, list[Any]]],
    *,
    start: Any,
    prefix: str,
    traces: Sequence[int] | None = None,
) -> Figure:
    """Add a slider below a figure that switches values of its traces.

    Args:
        figure: finished figure, whose bottom margin grows.
        steps: step -> attribute -> its values, one per trace.
        start: the step whose values are drawn at first.
        prefix: words before the name of the step.
        traces: indices of the traces; by default all.

    Example:
        >>> import pandas as pd
        >>> figure = lines(pd.DataFrame({"loss": [2.0, 1.0]}), y="loss", title="A descent")
        >>> steps = {lr: {"y": [[2.0, end]]} for lr, end in ((0.1, 1.0), (0.2, 0.5))}
        >>> add_slider(figure, steps, start=0.1, prefix="lr = ").layout.sliders[0].steps[1].label
        '0.2'
    """
    indices = [] if traces is None else [list(traces)]
    marks = [
        {"label": str(mark), "method": "restyle", "args": [dict(values), *indices]} for mark, values in steps.items()
    ]
    start_index = list(steps).index(start)
    slider = {"steps": marks, "active": start_index, "currentvalue": {"prefix": prefix}, "pad": {"t": 55}}
    return figure.update_layout(sliders=[slider], margin={"b": 125})


def _plain(axis: Mapping[str, Any]) -> str:
    return str(axis.get("title_text") or "").replace("<br>", " ")


def _error(series: Series, column: str) -> dict[str, Any]:
    return {"type": "data", "array": series.rows[column].tolist(), "thickness": 1.5}


def _add_band(figure: Figure, series: Series, band: tuple[str, str], color: str) -> None:
    low, high = (series.rows[column].tolist() for column in band)
    figure.add_scatter(
        # Along the upper edge and back along the lower one.
        x=series.x + series.x[::-1], y=high + low[::-1], fill="toself", fillcolor=color, opacity=0.2, mode="lines",
        line={"width": 0}, hoverinfo="skip", showlegend=False, legendgroup=series.name, name=series.name,
    )  # fmt: skip
