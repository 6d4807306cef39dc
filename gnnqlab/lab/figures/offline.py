"""What pages that open without a network have inside: Plotly's script, packed, and values as JSON."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

__all__ = ["PAGE_POLICY", "page_script", "plotly_element", "script_json"]

# Nothing may be fetched: the page is the same in ten years, in a plane, and tells no one that it was read.
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""What such a page may load: what stands in it."""


def plotly_element() -> str:
    """The element that holds Plotly's script, packed to two fifths; :func:`page_script` unpacks it."""
    from plotly.offline import get_plotlyjs

    packed = base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
    return f'<script type="application/gzip+base64" id="plotly">{packed}</script>'


def page_script(path: Path) -> str:
    """Return a page's own script, in front of it the function ``unpack`` that it calls before it draws."""
    return Path(__file__).with_name("offline.js").read_text(encoding="utf-8") + path.read_text(encoding="utf-8")


def script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in.

    Example:
        >>> script_json({"a": "</script>"}).count("<")
        0
    """
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
