"""A figure as a picture that stays sharp on every screen and small in a notebook.

Drawn as lines and letters (SVG), most figures take less than a photograph of them. One with thousands of points takes
far more; it becomes a photograph with two pixels to one of the page, in a table of colours, framed as SVG so that it
stands as large as the others. A picture cannot follow a page from light to dark: no ink has a contrast of 4.5 with both
white and JupyterLab's #111, whose own contrast is 18.9, below 4.5 squared. So it brings its ground with it.
"""

from __future__ import annotations

import atexit
import base64
import functools
import os
import re
import shutil
import zlib
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.indexed_png import indexed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["svg_of"]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_WIDTH = 720
"""Pixels of a picture: a page of 900 has the room beside JupyterLab's own, which cuts wider ones off."""
_MANY = 30_000
"""Letters from which a photograph may be smaller."""
_OWN_NAME = re.compile(r'id="defs-([0-9a-f]+)"')


def svg_of(figure: Figure) -> str | None:
    """Return the figure as SVG, or ``None`` with ``GNNQLAB_PICTURES=off``, without a browser, or if drawing fails.

    A figure without a height is 360 pixels high, as its place on a page would be. The same figure is the same text.
    """
    if not _picture_server():
        return None
    height = int(figure.layout.height or 360)
    try:
        drawn = _same_names(_draw(figure, "svg", height, 1).decode())
        if len(drawn) > _MANY:
            drawn = min(drawn, _framed(indexed(_draw(figure, "png", height, 2)), height), key=len)
        return drawn
    except Exception:
        return None


def _draw(figure: Figure, kind: str, height: int, scale: int) -> bytes:
    import kaleido

    size = {"format": kind, "width": _WIDTH, "height": height, "scale": scale}
    return bytes(kaleido.calc_fig_sync(figure.to_dict(), opts=size))


def _same_names(svg: str) -> str:
    """Plotly names what a drawing refers to by chance; one by content stays, and is this figure's alone."""
    chance = _OWN_NAME.search(svg)
    if chance is None:
        return svg
    plain = svg.replace(chance[1], "")
    return svg.replace(chance[1], f"{zlib.crc32(plain.encode()):08x}")


def _framed(png: bytes, height: int) -> str:
    data = base64.b64encode(png).decode()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">'
        f'<image width="{_WIDTH}" height="{height}" href="data:image/png;base64,{data}"/></svg>'
    )


@functools.cache
def _picture_server() -> bool:
    """Start kaleido's browser once per process (a picture then takes 0.3 s instead of 3); whether there is one."""
    if os.environ.get("GNNQLAB_PICTURES") == "off":
        return False
    browser = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        return False
    try:
        import kaleido

        kaleido.start_sync_server(path=browser, silence_warnings=True)
        atexit.register(kaleido.stop_sync_server, silence_warnings=True)
    except Exception:
        return False
    return True
