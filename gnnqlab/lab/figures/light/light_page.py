"""Complete HTML pages without Plotly: values are compressed, and the pages make no requests."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from gnnqlab.lab.figures.offline import document

__all__ = ["light_page"]

_STYLE = """
:root { color-scheme: light; --ground: #ffffff; --ink: #1f2328; --line: #8c959f; --accent: #0072b2; }
:root[data-theme="dark"] {
  color-scheme: dark; --ground: #14171a; --ink: #e6e8ea; --line: #6c757d; --accent: #56b4e9;
}
body { margin: 0 auto; max-width: 100rem; padding: 0.75rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.3rem; margin: 0 0 0.5rem; }
h2 { font-size: 1rem; margin: 0.3rem 0 0; }
fieldset { border: 0; margin: 0 0 0.5rem; padding: 0; display: flex; flex-wrap: wrap; gap: 0.2rem 1rem;
  align-items: center; }
fieldset > span { font-weight: 600; }
label { white-space: nowrap; min-height: 1.9rem; display: inline-flex; align-items: center; gap: 0.35rem; }
input { accent-color: var(--accent); margin: 0.2rem; }
input[type="range"] { min-width: 8rem; flex: 1; height: 1.9rem; }
#moves, #zoom { display: flex; flex-wrap: wrap; gap: 0.4rem; align-items: center; }
button { font: inherit; min-width: 5.5rem; min-height: 2rem; color: inherit; background: none;
  border: 1px solid var(--line); border-radius: 6px; padding: 0.2rem 0.6rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
select { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 6px;
  min-height: 1.9rem; max-width: 100%; }
#zoom { margin-top: 0.4rem; }
.held { position: relative; }
.hold { position: absolute; cursor: grab; touch-action: pan-y; }
#words { min-height: 4.5em; max-width: 70em; margin: 0.3rem 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0.5rem; }
.figures > div { min-width: 0; }
.table { overflow: auto; max-height: 15rem; }
[hidden] { display: none !important; }
table { border-collapse: collapse; font-size: 0.85rem; }
caption { text-align: left; padding: 0.2rem 0; }
th, td { padding: 0.15rem 0.5rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child { text-align: left; font-weight: 400; }
@media (max-width: 40rem) { #moves input { flex-basis: 100%; order: 9; } }
"""


def light_page(scripts: Sequence[Path], body: str, *, title: str, values: object) -> str:
    """Return a complete HTML page whose script draws with ``light_chart.js``.

    Args:
        scripts: files of the page's own script, which awaits ``readValues()`` before it draws.
        body: HTML of its content.
        title: text of the title bar.
        values: data for the script, serializable as JSON.
    """
    folder = Path(__file__).parent
    # Common scripts first, because the page's own ones call them.
    code = "".join(
        path.read_text(encoding="utf-8") for path in (folder / "light_chart.js", folder / "light_page.js", *scripts)
    )
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    # Without a time stamp (mtime) the same values give the same bytes.
    packed = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
    held = f'<script type="application/gzip+base64" id="values">{packed}</script>'
    return document(f"{body}\n{held}", title=title, style=_STYLE, code=code)
