"""HTML pages that work offline: Plotly's script is embedded compressed, and values as JSON."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
from pathlib import Path

__all__ = ["document", "page", "script_json"]

# No requests: the page works without a network and in later years, and no server learns that it was opened.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""Content security policy of a page: only embedded content is loaded."""


def page(script: Path, body: str, *, title: str, style: str, name: str, values: object) -> str:
    """Return a complete HTML page that makes no requests.

    Args:
        script: file of the page's own script, which calls ``unpack`` before it draws.
        body: HTML of its content.
        title: text of the title bar.
        style: CSS of the page.
        name: id of the element that holds the values.
        values: data for the script, serializable as JSON.
    """
    # The common script first, because the page's own one calls it.
    code = Path(__file__).with_name("offline.js").read_text(encoding="utf-8") + script.read_text(encoding="utf-8")
    held = f'<script type="application/json" id="{name}">{script_json(values)}</script>\n{_plotly_element()}'
    return document(f"{body}\n{held}", title=title, style=style, code=code)


def document(body: str, *, title: str, style: str, code: str) -> str:
    """Return a complete HTML page with its style and script, whose policy allows no requests.

    Args:
        body: HTML of its content, and the elements with its values.
        title: text of the title bar.
        style: CSS of the page.
        code: script, run after the content has been read.

    Example:
        >>> document("<p>rows</p>", title="a & b", style="", code="").count("<title>a &amp; b · gnnqlab</title>")
        1
    """
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
<script>{code}</script>
</body>
</html>
"""


@functools.cache  # 5 MB to compress
def _plotly_element() -> str:
    """Return the element that holds Plotly's script, compressed to two fifths."""
    from plotly.offline import get_plotlyjs

    # Without a time stamp (mtime) the same script gives the same bytes.
    packed_script = base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
    return f'<script type="application/gzip+base64" id="plotly">{packed_script}</script>'


def script_json(value: object) -> str:
    """Return JSON that cannot end the script element around it.

    Example:
        >>> script_json({"a": "</script>"}).count("<")
        0
    """
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
