"""Pages that open without a network: Plotly's script is inside, packed, and values as JSON."""

from __future__ import annotations

import base64
import gzip
import html
import json
from pathlib import Path

__all__ = ["page", "script_json"]

# Nothing may be fetched: the page is the same in ten years, in a plane, and tells no one that it was read.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""What such a page may load: what stands in it."""


def page(script: Path, body: str, *, title: str, style: str, name: str, values: object) -> str:
    """Return a whole page, which fetches nothing.

    Args:
        script: file of the page's own script, which calls ``unpack`` before it draws.
        body: its HTML.
        title: of the page.
        style: its CSS.
        name: id of the element that holds the values.
        values: what the script reads, as JSON takes it.
    """
    code = Path(__file__).with_name("offline.js").read_text(encoding="utf-8") + script.read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} · gnnqlab</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="{name}">{script_json(values)}</script>
{_plotly_element()}
<script>{code}</script>
</body>
</html>
"""


def _plotly_element() -> str:
    """Return the element that holds Plotly's script, packed to two fifths."""
    from plotly.offline import get_plotlyjs

    packed = base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
    return f'<script type="application/gzip+base64" id="plotly">{packed}</script>'


def script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in.

    Example:
        >>> script_json({"a": "</script>"}).count("<")
        0
    """
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
