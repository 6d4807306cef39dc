"""Players of the site: pages that need no kernel, and the places where other pages embed them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import gnnqlab as gq
from gnnqlab import course

__all__ = ["EMBEDDED", "embed", "pages"]

EMBEDDED: Mapping[str, str] = {
    "index.md": "epoch",
    "docs/concepts.md": "epoch",
    "docs/how_to/own_system.md": "epoch",
    "docs/how_to/own_codec.md": "message",
    "docs/how_to/own_bits.md": "assigner",
    "docs/how_to/own_graph.md": "partition",
    "docs/how_to/study.md": "tuner",
    "docs/how_to/observer.md": "run",
    "players.md": "",
}
"""Page of the site -> player; the page of all players has a place for each."""

_TITLES = {
    "epoch": "One training epoch of ten nodes, in modelled time",
    "message": "One message, quantized step by step",
    "assigner": "Bit-widths, assigned step by step",
    "partition": "Partitions of a graph",
    "run": "A recorded epoch of a run on digits",
    "tuner": "Forecasts of the tuner",
}
_HEIGHTS = {"epoch": 780, "message": 760, "assigner": 700, "partition": 760, "run": 860, "tuner": 860}
"""Heights in pixels until the player has reported its own."""
_FIRST = re.compile(r"!\[One training epoch[^\n]*\n+\*One epoch[^\n]*\*\n")
"""Picture of the README and its caption, which the player replaces on the site."""


def pages() -> dict[str, str]:
    """Return the page of every player by name, made in this process from seeded trainings.

    The recorded run is launched in a temporary folder; its times are those of this machine.
    """
    digits = gq.load("digits")
    ten = gq.partition(course.ten_nodes(), course.Halves(), workers=2)
    halves = gq.partition(digits, workers=2)
    with tempfile.TemporaryDirectory() as folder:
        run = gq.launch(
            digits,
            system="adaqp",
            model="gcn",
            workers=2,
            epochs=4,
            timeline_every=1,
            out=Path(folder) / "runs",
            wait=True,
        )
        players: dict[str, Callable[[Path], Path]] = {
            "epoch": course.EpochPlayer(ten).export,
            "message": course.MessagePlayer(halves).export,
            "assigner": course.AssignerPlayer(halves).export,
            "partition": course.PartitionExplorer("sbm:400,4,8").export,
            "run": course.EpochPlayer(run).export,
            "tuner": gq.Tuner(digits, workers=2, hidden=64, measure=False).export,
        }
        return {
            name: export(Path(folder) / f"{name}.html").read_text(encoding="utf-8") for name, export in players.items()
        }


def embed(page: str, text: str) -> str:
    """Return the Markdown of a page with its player.

    It replaces the README's picture on the first page, and the words ``{player: NAME}`` where they stand; elsewhere it
    precedes the first heading of the second level.

    Args:
        page: place of the page in the site, a key of ``EMBEDDED``.
        text: its Markdown.
    """
    up = "../" * page.count("/")
    name = EMBEDDED[page]
    if page == "index.md":
        return _FIRST.sub(lambda match: _frame(name, up, hash_="#play"), text, count=1)
    if not name:
        return re.sub(r"\{player: (\w+)\}", lambda match: _frame(match[1], up), text)
    first, mark, rest = text.partition("\n## ")
    return f"{first}\n{_frame(name, up)}{mark}{rest}"


def _frame(name: str, up: str, *, hash_: str = "") -> str:
    return (
        f'<iframe class="player" src="{up}_static/players/{name}.html{hash_}" title="Player: {_TITLES[name]}" '
        f'loading="lazy" height="{_HEIGHTS[name]}"></iframe>\n'
    )
