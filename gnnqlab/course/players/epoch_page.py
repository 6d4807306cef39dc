"""Self-contained HTML page that plays an epoch without a kernel or a network."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.atomic import write_text
from gnnqlab.lab.figures.light.choice_page import check_page_name
from gnnqlab.lab.figures.light.light_chart import light_figure, looks
from gnnqlab.lab.figures.light.light_page import light_page

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["page_way", "write_page"]

_PACE = """<label>An epoch in <select id="pace">
<option value="10">10 s</option><option value="20" selected>20 s</option><option value="90">90 s</option>
</select></label>"""
_ZOOM = """<div id="zoom" role="group" aria-label="Time axis">
<button id="closer">Zoom in</button><button id="wider">Zoom out</button>
<button id="earlier">Earlier</button><button id="later">Later</button><button id="whole">Whole epoch</button>
<output id="span"></output>
<small>Drag to move. Ctrl and wheel, or two fingers, zoom. Keys here: + − ← → 0; anywhere: Shift and ← →.</small>
</div>"""


def write_page(
    ways: Mapping[str, dict[str, Any]],
    path: str | Path,
    *,
    first: str,
    labels: Mapping[str, str] | None = None,
    title: str = "One training epoch",
    unit: str = "",
) -> Path:
    """Write a page that plays an epoch: buttons, a slider, and the keys ← → Home End and space.

    Args:
        ways: the epoch in each way, from :func:`page_way`, with ``times`` of its steps, ``tracks`` (one entry per
            marker: times and positions of sending and arrival), and perhaps ``span``, the end of the time axis. It
            plays in these times, slowed down.
        path: the file to write, ``.html``; an existing one is replaced as a whole.
        first: the way shown first.
        labels: labels of the switch between ways; ``None`` for no switch.
        title: title of the page.
        unit: unit of the time axis, for a page with zoom; empty for a page without.

    Returns:
        The written path.

    Raises:
        ValueError: if the file name does not end in ``.html`` or ``.htm``.
    """
    path = check_page_name(path)
    # One radio button per way; names and labels are text of the caller, so they are escaped.
    buttons = "".join(
        f'<label><input type="radio" name="way" value="{html.escape(name)}"{" checked" * (name == first)}> '
        f"{html.escape(label)}</label>"
        for name, label in (labels or {}).items()
    )
    switch = f"<fieldset><legend hidden>Way to train</legend>{buttons}</fieldset>" if buttons else ""
    body = f"""<h1>{html.escape(title)}</h1>
{switch}
<div id="moves">
<button id="back">← Back</button><button id="play">Play</button><button id="next">Next →</button>
<input id="step" type="range" min="0" value="0" aria-label="Step">{_PACE}
</div>
<h2 id="title"></h2>
<p id="words" role="status"></p>
<div class="held"><div id="figure" role="img"></div></div>
{_ZOOM if unit else ""}"""
    # the scripts are next to this module
    scripts = [Path(__file__).with_name(name) for name in ("time_axis.js", "epoch_page.js")]
    values = {"ways": ways, "looks": looks(), "unit": unit}
    write_text(path, light_page(scripts, body, title=title, values=values))
    return path


def page_way(
    *,
    words: Sequence[str],
    titles: Sequence[str],
    first_figure: Callable[[bool], Figure],
    changes: Callable[[bool], list[list[dict[str, Any]]]],
) -> dict[str, Any]:
    """Return the page's data of an epoch in one way, for light and dark pages.

    Args:
        words, titles: description and title of every step.
        first_figure: returns the figure of the first step, for a light (False) or a dark page (True).
        changes: returns the changes of the last traces, for every step.
    """
    data: dict[str, Any] = {"words": list(words)}
    frames = {dark: changes(dark) for dark in (False, True)}  # stored once if both pages share them
    for name, dark in (("light", False), ("dark", True)):
        figure = light_figure(first_figure(dark))
        figure["layout"].pop("title", None)  # a heading of the page instead
        data[name] = {**figure, "titles": list(titles)}
        if frames[False] != frames[True]:  # frames of each colour scheme only if they differ
            data[name]["frames"] = frames[dark]
    return data if frames[False] != frames[True] else {**data, "frames": frames[False]}
