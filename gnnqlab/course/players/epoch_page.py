"""Self-contained HTML page that plays an epoch without a kernel or a network."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.atomic import write_text
from gnnqlab.lab.figures.offline import page

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["page_way", "write_page"]

_STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1f2328; --line: #8c959f; --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171a; --ink: #e6e8ea; --line: #6c757d; --accent: #56b4e9; }
}
body { margin: 0 auto; max-width: 100rem; padding: 1rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 0.6rem; }
fieldset { border: 0; margin: 0 0 0.6rem; padding: 0; display: flex; flex-wrap: wrap; gap: 0.4rem 1.2rem; }
#moves { display: flex; gap: 0.5rem; align-items: center; }
#moves input { flex: 1; accent-color: var(--accent); }
button { font: inherit; min-width: 5.5rem; color: inherit; background: none; border: 1px solid var(--line);
  border-radius: 6px; padding: 0.25rem 0.7rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
#moves label { white-space: nowrap; }
select { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 6px; }
#words { min-height: 6em; max-width: 70em; margin: 0.6rem 0; }
@media (max-width: 60rem) { #moves { flex-wrap: wrap; } #moves input { flex-basis: 100%; order: 9; } }
"""
_PACE = """<label>An epoch in <select id="pace">
<option value="10">10 s</option><option value="30" selected>30 s</option><option value="90">90 s</option>
</select></label>"""


def write_page(
    ways: Mapping[str, dict[str, Any]],
    path: str | Path,
    *,
    first: str,
    labels: Mapping[str, str] | None = None,
    title: str = "One training epoch",
) -> Path:
    """Write a page that plays an epoch: buttons, a slider, and the keys ← → Home End and space.

    Args:
        ways: the epoch in each way, from :func:`page_way`. A way with ``times`` (of its steps, in milliseconds) and
            ``tracks`` (one entry per marker: times and positions of sending and arrival) plays in its own time, slowed
            down.
        path: the file to write, ``.html``; an existing one is replaced as a whole.
        first: the way shown first.
        labels: labels of the switch between ways; ``None`` for no switch.
        title: title of the page.

    Returns:
        The written path.

    Raises:
        ValueError: if the file name does not end in ``.html`` or ``.htm``.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"an epoch is exported as a page, so its name must end in .html, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # One radio button per way; names and labels are text of the caller, so they are escaped.
    buttons = "".join(
        f'<label><input type="radio" name="way" value="{html.escape(name)}"{" checked" * (name == first)}> '
        f"{html.escape(label)}</label>"
        for name, label in (labels or {}).items()
    )
    switch = f"<fieldset><legend hidden>Way to train</legend>{buttons}</fieldset>" if buttons else ""
    pace = _PACE if any("times" in way for way in ways.values()) else ""  # a choice of speed only if steps have times
    body = f"""<h1>{html.escape(title)}</h1>
{switch}
<div id="moves">
<button id="back">← Back</button><button id="play">Play</button><button id="next">Next →</button>
<input id="step" type="range" min="0" value="0" aria-label="Step">{pace}
</div>
<p id="words" role="status"></p>
<div id="figure" role="img"></div>"""
    script = Path(__file__).with_name("epoch_page.js")  # the script is next to this module
    write_text(path, page(script, body, title="One epoch", style=_STYLE, name="epoch", values=ways))
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
        figure = json.loads(first_figure(dark).to_json())  # through JSON, because figures hold arrays
        data[name] = {"data": figure["data"], "layout": figure["layout"], "titles": list(titles)}
        if frames[False] != frames[True]:  # frames of each colour scheme only if they differ
            data[name]["frames"] = frames[dark]
    return data if frames[False] != frames[True] else {**data, "frames": frames[False]}
