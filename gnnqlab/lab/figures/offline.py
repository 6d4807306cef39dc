"""What pages that open without a network have inside: Plotly's script, packed, and values as JSON."""

from __future__ import annotations

import base64
import gzip
import json

__all__ = ["PAGE_POLICY", "packed_plotly", "script_json"]

# Nothing may be fetched: the page is the same in ten years, in a plane, and tells no one that it was read.
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""What such a page may load: what stands in it."""


def packed_plotly() -> str:
    """Plotly's script, packed to two fifths; the page's own script unpacks it."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in.

    Example:
        >>> script_json({"a": "</script>"}).count("<")
        0
    """
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
