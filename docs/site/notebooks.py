"""A notebook as it was saved, with its figures as pictures that Plotly takes over where scripts run."""

from __future__ import annotations

import base64
import html
import json
import re
from typing import Any

__all__ = ["drawn"]

_PLOTLY = "application/vnd.plotly.v1+json"


def drawn(notebook: str) -> str:
    """Return the JSON of a notebook in which every figure of Plotly is a piece of HTML.

    It holds the picture that was saved with the figure, and the figure itself for `figures.js`.
    """
    content = json.loads(notebook)
    for cell in content["cells"]:
        for output in cell.get("outputs", ()):
            if _PLOTLY in output.get("data", {}):
                output["data"] = {"text/html": _figure(output)}
                output["metadata"] = {}
            elif "text/html" in output.get("data", {}):  # links between notebooks are links between pages
                page = "".join(output["data"]["text/html"])
                output["data"]["text/html"] = re.sub(r'href="(\d\d_\w+)\.ipynb"', r'href="\1.html"', page)
    return json.dumps(content, ensure_ascii=False)


def _figure(output: dict[str, Any]) -> str:
    data = output["data"]
    figure, said = data[_PLOTLY], html.escape("".join(data.get("text/plain", "")), quote=True)
    picture = ""
    if "image/svg+xml" in data:
        svg = base64.b64encode("".join(data["image/svg+xml"]).encode()).decode()
        picture = f'<img src="data:image/svg+xml;base64,{svg}" alt="{said}" loading="lazy">'
    elif "image/png" in data:
        png = "".join(data["image/png"]).replace("\n", "")
        picture = f'<img src="data:image/png;base64,{png}" alt="{said}" loading="lazy">'
    # Inside a script only the end of one needs care.
    held = json.dumps(figure, ensure_ascii=False).replace("</", "<\\/")
    height = int(figure.get("layout", {}).get("height") or 360)
    return (
        f'<div class="plotly-figure" role="img" aria-label="{said}" style="min-height: {height}px">{picture}'
        f'<script type="application/json">{held}</script></div>'
    )
