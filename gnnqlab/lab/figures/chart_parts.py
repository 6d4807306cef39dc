"""Shared parts of all charts: series of a table, styles, hover text, axes and layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from gnnqlab.lab.figures.theme import OKABE_ITO, Style, finish, set_template

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = [
    "STYLES", "Axis", "Page", "Series", "Styles", "begin_chart", "end_chart", "hover_of", "split_styles", "panel_axis",
    "panel_reference", "series_of", "assign_styles",
]  # fmt: skip

STYLES = (
    "blue solid circle", "vermillion dash square", "green dot diamond", "orange dashdot triangle-up",
    "purple longdash x", "sky solid star", "grey dash cross",
)  # fmt: skip
"""Colour, dash and marker of a chart's series in their order; bars use the colours only."""
_PATTERNS = ("", "/", "x", ".", "\\", "-", "+")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

Styles = Mapping[Any, Any] | Callable[[str], Style] | Sequence[str]
"""Styles by column, value or name of a series, or in their order: ``"blue dash square"``, for a bar ``"blue /"``."""
Axis = str | Mapping[str, Any]
"""Title of an axis with its unit, or Plotly's settings of the axis including ``title_text``."""


class Page(TypedDict, total=False):
    """Settings of a figure as a whole."""

    title: str
    caption: str
    dark: bool
    height: int
    legend_rows: int
    legend_below: bool


class Series(NamedTuple):
    """One line, point cloud or set of bars: key, name, values, and rows of the table."""

    key: Any
    name: str
    x: list[Any]
    y: list[Any]
    rows: DataFrame


def begin_chart(
    frame: DataFrame, x: str | None, y: Any, x_axis: Axis, y_axis: Axis, figure: Figure | None
) -> tuple[Figure, dict[str, Any], dict[str, Any]]:
    """Return the figure to draw on and the settings of both axes; a new figure's titles are columns with units."""
    import plotly.graph_objects as go

    units = frame.attrs.get("units", {})

    def settings(axis: Axis, column: Any) -> dict[str, Any]:
        axis_settings = {"title_text": axis} if isinstance(axis, str) else dict(axis)
        if not axis_settings.get("title_text"):
            axis_settings.pop("title_text", None)
            if figure is None and isinstance(column, str):
                axis_settings["title_text"] = f"{column} ({units[column]})" if column in units else column
        return axis_settings

    x_column = frame.index.name if x is None else x
    return go.Figure() if figure is None else figure, settings(x_axis, x_column), settings(y_axis, y)


def split_styles(y: Any, styles: Styles) -> tuple[Any, Styles]:
    """Split a mapping of columns to pairs of name and style into two mappings; return other arguments unchanged."""
    if not isinstance(y, Mapping) or not all(isinstance(name, tuple) for name in y.values()):
        return y, styles
    # Column -> name, column -> style.
    return {key: name for key, (name, _) in y.items()}, {key: style for key, (_, style) in y.items()}


def series_of(
    frame: DataFrame, x: str | None, y: str | Sequence[str] | Mapping[Any, Any], by: str | None, names: Any
) -> Iterator[Series]:
    """Yield the series of a table in its order: one per column of ``y``, or one per value of ``by``."""
    if by is None:
        columns = {y: y} if isinstance(y, str) else y if isinstance(y, Mapping) else {name: str(name) for name in y}
        for column, name in columns.items():
            yield Series(column, name, (frame.index if x is None else frame[x]).tolist(), frame[column].tolist(), frame)
        return
    for key, rows in frame.groupby(by, sort=False, observed=True):  # in the order of first appearance
        name = names.format(key) if isinstance(names, str) else str(names.get(key, key))
        yield Series(key, name, (rows.index if x is None else rows[x]).tolist(), rows[y].tolist(), rows)


def assign_styles(
    series: Iterator[Series], styles: Styles, *, bar: bool = False
) -> Iterator[tuple[Series, tuple[str, str, str]]]:
    """Yield each series with its colour, dash and marker; for a bar with its colour, an empty string, its pattern."""
    in_order = STYLES if callable(styles) or isinstance(styles, Mapping) else styles
    for member, words, pattern in zip(series, cycle(in_order), cycle(_PATTERNS)):  # styles repeat if there are too few
        style: Any = words
        if callable(styles):
            style = styles(member.name)
        elif isinstance(styles, Mapping):
            style = styles.get(member.key, styles.get(member.name, words))
        if isinstance(style, Style):
            yield member, (style.color, "" if bar else style.dash, "" if bar else style.symbol)
            continue
        color_name, *rest = style.split(" ")
        color = OKABE_ITO.get(color_name, color_name)
        if bar:
            yield member, (color, "", pattern if style is words and styles is STYLES else "".join(rest))
        else:
            dash = next((word for word in rest if word in _DASHES), "solid")
            yield member, (color, dash, next((word for word in rest if word not in _DASHES), "circle"))


def hover_of(name: str, rows: DataFrame, details: str | None, words: str, *, extra: str = "") -> dict[str, Any]:
    """Return Plotly's settings of the hover text: name, values, and words from the table.

    Args:
        name: name of the series.
        rows: its rows of the table.
        details: column of further words; they replace ``%{customdata}``, or follow the values.
        words: Plotly's template of the values.
        extra: Plotly's template of the second hover box.
    """
    if details is None:
        return {"hovertemplate": f"{name}: {words}<extra>{extra}</extra>"}
    suffix = "" if "customdata" in words else ", %{customdata}"
    return {"customdata": rows[details].tolist(), "hovertemplate": f"{name}: {words}{suffix}<extra>{extra}</extra>"}


def end_chart(
    figure: Figure,
    page: Page,
    x_set: Mapping[str, Any] | None = None,
    y_set: Mapping[str, Any] | None = None,
    *,
    log: str = "",
    zero: str = "",
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Set the axes, draw dotted lines at ``levels``, and finish the figure if it has a title.

    Args:
        figure: figure with its traces.
        page: title, caption and other settings of the whole figure.
        x_set, y_set: Plotly's settings of the axes.
        log, zero: ``"x"``, ``"y"`` or both: axes that are logarithmic, and those that show zero.
        levels: label -> height of a line.
    """
    for way, settings, update in (("x", x_set, figure.update_xaxes), ("y", y_set, figure.update_yaxes)):
        update({
            **({"type": "log"} if way in log else {}), **({"rangemode": "tozero"} if way in zero else {}),
            **(settings or {}),
        })  # fmt: skip
    for words, level in (levels or {}).items():
        figure.add_hline(y=level, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1.5})
        if words:
            figure.add_annotation(
                text=words, x=1, xref="x domain", xanchor="right", yref="y", yanchor="bottom", showarrow=False,
                y=level,
            )  # fmt: skip
    dark = page.get("dark", False)
    set_template(figure, dark=dark)
    if "title" not in page:
        return figure
    title, height, rows = page["title"], page.get("height", 360), page.get("legend_rows", 1)
    caption = page.get("caption") or _describe_ends(figure, title)
    finish(figure, title=title, caption=caption, dark=dark, height=height, legend_rows=rows)
    if page.get("legend_below"):
        top = 76 if any(annotation.yref == "paper" for annotation in figure.layout.annotations) else 50
        # About 60 pixels below the plot, whose height is that of the figure less margins.
        figure.update_layout(legend={"y": -60 / (height - 150), "yanchor": "top"}, margin={"t": top, "b": 100})
    return figure


def panel_axis(axis: Any, neighbour: Any) -> dict[str, Any]:
    """Return the settings of a panel's axis, without its title if the neighbouring panel has the same one."""
    settings: dict[str, Any] = axis.to_plotly_json()
    if neighbour and neighbour.title.text == axis.title.text:
        settings.pop("title", None)
    return settings


def panel_reference(place: str | None, way: str, number: int) -> str:
    """Return the axis reference of a panel's shape or annotation in the whole figure.

    Args:
        place: reference in the panel alone; ``None`` for the axis itself.
        way: ``"x"`` or ``"y"``.
        number: index of the panel, from 0.
    """
    return f"{way}{number + 1 if number else ''}{' domain' if place and 'domain' in place else ''}"


def _describe_ends(figure: Figure, title: str) -> str:
    """Return the default caption of a figure: the first and the last value of each series."""
    ends = []
    for trace in figure.data:
        values = trace["x" if trace.orientation == "h" else "y"] or ()
        known_values = [value for value in values if isinstance(value, int | float) and value == value]  # without NaN
        if known_values and trace.name and trace.showlegend is not False:
            ends.append(f"{trace.name} {known_values[0]:.4g} to {known_values[-1]:.4g}")
    return f"{title}: {'; '.join(ends)}." if ends else f"{title}."
