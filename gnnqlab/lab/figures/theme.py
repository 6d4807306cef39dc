"""Theme of all figures: a fixed colour, dash and marker per system, one template for light and dark pages.

Colours are those of Okabe and Ito, which people with any kind of colour vision can distinguish; each comes with a dash
and a marker, so that a figure also works in grey. Yellow is not used for lines (too faint on white), and black is
replaced by a grey that is visible on both backgrounds.
"""

from __future__ import annotations

import functools
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.log_ticks import name_powers

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "ACTIVITY_NAMES", "ACTIVITY_STYLES", "GROUNDS", "UNRECORDED", "OKABE_ITO", "PHASES", "Phase", "Style",
    "dark_rules", "finish",
    "hatch_marker", "set_each", "set_template", "style_of", "styles_of", "template",
]  # fmt: skip

OKABE_ITO = {
    "grey": "#7d7d7d",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "green": "#009e73",
    "blue": "#0072b2",
    "vermillion": "#d55e00",
    "purple": "#cc79a7",
}
GROUNDS = ("#ffffff", "#14171a")
"""Backgrounds of light and dark pages."""
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star")
_SHADES = ("", "#ffffff", "#000000")
"""Colours mixed in turn into the colour of a system that appears several times; the first is none."""
_SHADE = 0.4


@dataclass(frozen=True, kw_only=True)
class Style:
    """Style of one system in all figures."""

    color: str
    dash: str
    symbol: str


_SYSTEMS = {
    "vanilla": Style(color=OKABE_ITO["grey"], dash="solid", symbol="circle"),
    "fixed-bits": Style(color=OKABE_ITO["blue"], dash="dash", symbol="square"),
    "random-bits": Style(color=OKABE_ITO["sky"], dash="dot", symbol="diamond"),
    "adaqp": Style(color=OKABE_ITO["vermillion"], dash="solid", symbol="triangle-up"),
    "adaqp-q": Style(color=OKABE_ITO["orange"], dash="dash", symbol="triangle-up"),
    "sylvie": Style(color=OKABE_ITO["green"], dash="solid", symbol="x"),
    "pipegcn": Style(color=OKABE_ITO["purple"], dash="dashdot", symbol="cross"),
    "cdfgnn": Style(color=OKABE_ITO["sky"], dash="dashdot", symbol="star"),
    "tango": Style(color=OKABE_ITO["orange"], dash="solid", symbol="star"),
    "tango-int4": Style(color=OKABE_ITO["orange"], dash="dash", symbol="star"),
    "exact": Style(color=OKABE_ITO["blue"], dash="solid", symbol="square"),
    "sancus": Style(color=OKABE_ITO["purple"], dash="dot", symbol="square"),
    "bns-gcn": Style(color=OKABE_ITO["green"], dash="dot", symbol="triangle-up"),
    "adaqp-r": Style(color=OKABE_ITO["vermillion"], dash="dot", symbol="triangle-down"),
    "sylvie-r": Style(color=OKABE_ITO["green"], dash="dash", symbol="x"),
    "low-rank": Style(color=OKABE_ITO["sky"], dash="solid", symbol="diamond"),
    "feature-parallel": Style(color=OKABE_ITO["purple"], dash="dash", symbol="diamond"),
    "gradients-only": Style(color=OKABE_ITO["purple"], dash="solid", symbol="triangle-down"),
    "sar": Style(color=OKABE_ITO["blue"], dash="dashdot", symbol="circle"),
}


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Phase of an epoch: its column in the records, its label and its colour."""

    column: str
    label: str
    color: str
    pattern: str = ""
    """Plotly's shape of its hatch; empty for none."""


# Order of the bars: computation, coding, waiting, then phases that take place once per epoch. Any two colours differ by
# more than 10 (CIE ΔE) for every kind of colour vision, and no two neighbours have the same pattern.
PHASES = (
    Phase(column="central_s", label="central rows", color="#009e73"),
    Phase(column="marginal_s", label="marginal rows", color="#7fceb9", pattern="/"),
    Phase(column="dense_s", label="dense layers", color="#56b4e9"),
    Phase(column="encode_s", label="encode", color="#cc79a7", pattern="x"),
    Phase(column="decode_s", label="decode", color="#f3d9e8", pattern="."),
    Phase(column="wait_s", label="wait for messages", color="#d55e00"),
    Phase(column="reduce_s", label="sum gradients", color="#e69f00", pattern="\\"),
    Phase(column="optimizer_s", label="optimizer", color="#0072b2", pattern="-"),
    Phase(column="assign_s", label="assign bits", color="#4b2e83", pattern="|"),
    Phase(column="other_s", label="other", color="#5f5f5f", pattern="+"),
)

UNRECORDED = "between"
"""Time between recorded parts of an epoch: dense layers, loss, all-reduce of weight gradients."""

_COLORS = {phase.column.removesuffix("_s"): phase.color for phase in PHASES}
_ACTIVITIES = {
    "encode": ("encode", _COLORS["encode"]),
    "post": ("post", "#555555"),
    "central": ("central rows", f"{_COLORS['central']} /"),
    "wait": ("wait", f"{_COLORS['wait']} x"),
    "decode": ("decode", f"{_COLORS['decode']} ."),
    "marginal": ("marginal rows", f"{_COLORS['marginal']} \\"),
    UNRECORDED: ("between exchanges", f"{OKABE_ITO['sky']} -"),
    "loss": ("loss", f"{_COLORS['dense']} |"),
    "reduce": ("sum gradients", f"{_COLORS['reduce']} +"),
    "update": ("optimizer", _COLORS["optimizer"]),
    "optimizer": ("optimizer", _COLORS["optimizer"]),
}
ACTIVITY_NAMES = {what: name for what, (name, _) in _ACTIVITIES.items()}
"""Label of each activity of a timeline."""
ACTIVITY_STYLES = {what: style for what, (_, style) in _ACTIVITIES.items()}
"""Colour and pattern of each activity, in the order of legends."""


def style_of(label: str) -> Style:
    """Return colour, dash and marker of a system; the first word of the label is its name, in any case of letters.

    The style of an unknown system is derived from its name, so it is the same in every figure and on every machine.

    Example:
        >>> style_of("vanilla").dash, style_of("Vanilla (run 2)") == style_of("vanilla")
        ('solid', True)
    """
    system = label.split(" ")[0]
    if system.lower() in _SYSTEMS:
        return _SYSTEMS[system.lower()]
    number = zlib.crc32(system.encode())  # not hash(), which differs between processes
    colors = list(OKABE_ITO.values())[1:]  # grey is the baseline's
    return Style(
        color=colors[number % len(colors)],
        dash=_DASHES[(number >> 8) % len(_DASHES)],
        symbol=_SYMBOLS[(number >> 16) % len(_SYMBOLS)],
    )


def styles_of(labels: Iterable[str]) -> dict[str, Style]:
    """Return colour, dash and marker of each label in one figure, in which a system may appear several times.

    Its first label has the system's own style, later ones a lighter or darker colour, another dash and another marker,
    so that runs of one system, as in a sweep of λ, can be distinguished and still be recognized as this system's.

    Example:
        >>> first, second = styles_of(["adaqp (λ 0.2)", "adaqp (λ 0.8)"]).values()
        >>> first == style_of("adaqp"), first.symbol, second.symbol, second.color
        (True, 'triangle-up', 'x', '#e69e66')
    """
    label_counts: Counter[str] = Counter()  # number of labels of each system so far
    styles: dict[str, Style] = {}
    for label in dict.fromkeys(labels):
        system = label.split(" ")[0]
        styles[label] = _vary(style_of(label), label_counts[system])
        label_counts[system] += 1
    return styles


def _vary(style: Style, times: int) -> Style:
    """Return the style of a system that has appeared this number of times before."""

    def rotate(kinds: tuple[str, ...], kind: str) -> str:
        # A style outside the list counts as the first.
        return kinds[((kinds.index(kind) if kind in kinds else 0) + times) % len(kinds)] if times else kind

    return Style(
        color=_mix(style.color, _SHADES[times % len(_SHADES)]),
        dash=rotate(_DASHES, style.dash),
        symbol=rotate(_SYMBOLS, style.symbol),
    )


def _mix(color: str, shade: str) -> str:
    if not shade:
        return color
    # "#rrggbb" -> red, green and blue of both colours.
    pairs = ((int(color[start : start + 2], 16), int(shade[start : start + 2], 16)) for start in (1, 3, 5))
    return "#" + "".join(f"{round((1 - _SHADE) * channel + _SHADE * target):02x}" for channel, target in pairs)


def template(*, dark: bool = False) -> dict[str, Any]:
    """Return the Plotly template of every figure, for a light or a dark page; the background is transparent."""
    ink, grid, axis = ("#e6e8ea", "#343a40", "#6c757d") if dark else ("#1f2328", "#e4e7eb", "#8c959f")
    axes = {
        "gridcolor": grid,
        "linecolor": axis,
        "tickcolor": axis,
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "automargin": True,
        "title": {"standoff": 10},
    }
    return {
        "layout": {
            "colorway": list(OKABE_ITO.values()),
            "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 13, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)",  # transparent, so that the page's own background shows
            "plot_bgcolor": "rgba(0,0,0,0)",
            "title": {"x": 0.0, "xanchor": "left", "xref": "paper", "font": {"size": 15}},
            "legend": {"orientation": "h", "x": 0.0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
            "margin": {"l": 56, "r": 16, "t": 64, "b": 52},
            "hovermode": "closest",
            "hoverlabel": {"bgcolor": "#22272e" if dark else "#ffffff", "font": {"color": ink}},
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": axis, "activecolor": ink},
            "xaxis": axes,
            "yaxis": axes,
        }
    }


def dark_rules(*, also: Iterable[str] = ()) -> list[tuple[str, str, str]]:
    """Return CSS properties, their colours on a light page, and those on a dark one, of text, grid, axes and ground.

    Args:
        also: properties in addition to ``fill`` and ``stroke``.

    Example:
        >>> dark_rules()[0]
        ('fill', 'rgb(31, 35, 40)', 'rgb(230, 232, 234)')
    """

    def colors(dark: bool) -> list[str]:
        layout = template(dark=dark)["layout"]
        names = [layout["font"]["color"], layout["xaxis"]["gridcolor"], layout["xaxis"]["linecolor"], GROUNDS[dark]]
        return [f"rgb({', '.join(str(int(name[start : start + 2], 16)) for start in (1, 3, 5))})" for name in names]

    pairs = list(zip(colors(False), colors(True), strict=True))
    return [(name, before, after) for before, after in pairs for name in ("fill", "stroke", *also)]


def set_template(figure: Figure, *, dark: bool = False) -> None:
    """Set the template of a figure, without merging and validating it for each figure, as ``update_layout`` does."""
    layout = figure.layout
    # Validated when it was merged; to validate it again would take longer than to draw most figures.
    layout._validate = False
    try:
        layout.template = _merged_template(dark)
    finally:
        layout._validate = True


@functools.cache
def _merged_template(dark: bool) -> Any:
    """Return Plotly's default template with our own one merged into it."""
    import plotly.graph_objects as go

    return go.Figure().update_layout(template=template(dark=dark)).layout.template


def hatch_marker(color: str, shape: str, **more: Any) -> dict[str, Any]:
    """Return the marker of a bar with a pattern, which distinguishes it without its colour, and without an outline.

    Args:
        color: colour of the bar.
        shape: Plotly's shape of the pattern; empty for none.
        more: further settings of the marker.

    Example:
        >>> hatch_marker("#e69f00", "/", opacity=0.5)["pattern"]["shape"]
        '/'
    """
    # "overlay" draws the pattern over the bar's own colour.
    pattern = {"shape": shape, "size": 5, "solidity": 0.25, "fillmode": "overlay"}
    return {"color": color, "pattern": pattern, "line": {"width": 0}, **more}


def finish(
    figure: Figure, *, title: str, caption: str, dark: bool = False, height: int = 360, legend_rows: int = 1
) -> Figure:
    """Set the title, the theme and the caption of a figure.

    The caption describes the figure in words. It is stored in ``layout.meta``, where pages and notebooks read it to
    print it and for screen readers. Logarithmic axes get tick labels too (``log_ticks.py``), so add all traces before.
    """
    # A single picture needs a background; a page with its own background makes it transparent again.
    background = GROUNDS[dark]
    set_template(figure, dark=dark)
    figure.layout.meta = {"caption": caption}
    settings = {
        "title": {"text": title, "yref": "container", "y": 0.98, "yanchor": "top", "automargin": True},
        "height": height + 20 * (legend_rows - 1),
        "margin": {"t": 46 + 20 * legend_rows},
        "paper_bgcolor": background,
        "plot_bgcolor": background,
    }
    set_each(figure.layout, settings)
    name_powers(figure)
    return figure


def set_each(part: Any, settings: Mapping[str, Any]) -> None:
    """Set properties of a part of a figure one by one; those of nested mappings too.

    ``update_layout`` does the same, several times more slowly: it copies what is there and lists the changes.

    Args:
        part: for instance ``figure.layout``.
        settings: names and values; other properties of the part, and of nested parts, stay.
    """
    for name, value in settings.items():
        if isinstance(value, Mapping):
            set_each(part[name], value)
        else:
            part[name] = value
