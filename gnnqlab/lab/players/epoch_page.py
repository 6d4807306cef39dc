"""An epoch as a page that plays without a kernel or a network."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnnqlab.atomic import write_text
from gnnqlab.lab.figures.offline import PAGE_POLICY, page_script, plotly_element, script_json
from gnnqlab.lab.players.epoch_views import draw_epoch_step, moving, title_of
from gnnqlab.lab.players.epoch_walk import WAYS, EpochWalk
from gnnqlab.lab.players.epoch_words import say_step

__all__ = ["write_page"]

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
#words { min-height: 4.5em; max-width: 70em; margin: 0.6rem 0; }
"""


def write_page(walks: Sequence[EpochWalk], path: str | Path, *, first: str) -> Path:
    """Write a page that plays an epoch in several ways: buttons, a slider, and the keys ← → and space.

    Args:
        walks: the epoch in each way.
        path: the file to write, ``.html``; an existing one is replaced as a whole.
        first: the way that is shown first.

    Returns:
        The path that was written.

    Raises:
        ValueError: if the file has another ending.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"an epoch is exported as a page, its name must end in .html, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    ways = {walk.way: _way(walk) for walk in walks}
    chosen = "".join(
        f'<label><input type="radio" name="way" value="{html.escape(name)}"{" checked" * (name == first)}> '
        f"{html.escape(WAYS[name].label)}</label>"
        for name in ways
    )
    write_text(
        path,
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{PAGE_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>One epoch · gnnqlab</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>One training epoch</h1>
<fieldset><legend hidden>Way to train</legend>{chosen}</fieldset>
<div id="moves">
<button id="back">← Back</button><button id="play">Play</button><button id="next">Next →</button>
<input id="step" type="range" min="0" value="0" aria-label="Step">
</div>
<p id="words" role="status"></p>
<div id="figure" role="img"></div>
<script type="application/json" id="epoch">{script_json(ways)}</script>
{plotly_element()}
<script>{page_script(Path(__file__).with_name("epoch_page.js"))}</script>
</body>
</html>
""",
    )
    return path


def _way(walk: EpochWalk) -> dict[str, Any]:
    """Return a way's figure, and what changes in it from step to step, for a light and for a dark page."""
    found: dict[str, Any] = {"words": [say_step(walk, step) for step in walk.steps]}
    for name, dark in (("light", False), ("dark", True)):
        figure = json.loads(draw_epoch_step(walk, walk.steps[0], dark=dark).figure.to_json())
        titles = [title_of(step) for step in walk.steps]
        frames = [moving(walk, step, dark=dark) for step in walk.steps]
        found[name] = {"data": figure["data"], "layout": figure["layout"], "frames": frames, "titles": titles}
    return found
