"""Page of a tuner over a grid of computed forecasts, which needs no kernel."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.light.choice_page import Choice, PageStep, write_choice_page
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.tiles import tiles_html
from gnnqlab.lab.tuner.views import TunerNumbers, draw_panel
from gnnqlab.tune.probe import LAMS

__all__ = ["write_tuner_page"]

_GROUP_SIZES, _LINKS = (10, 100), ("10mbit", "100mbit", "1gbit")
_PANELS = ((2, 1), (1, 3), (1, 1))
"""Row and column of the panels that the page shows: time by phase, rows by bit-width, time against variance."""


def write_tuner_page(model: TunerModel, path: str | Path, *, links: Sequence[str] = _LINKS) -> Path:
    """Write a page with the forecasts of eleven values of λ, two group sizes and several links.

    The place is probed once per link, in this process; seconds are a first estimate unless it was timed before.

    Args:
        model: its position has the system, graph, model and workers; it is the same afterwards.
        path: the file to write, ``.html``.
        links: rates of the link between two hosts, or ``loopback``.

    Returns:
        The written path.

    Raises:
        ValueError: if the system has no λ, a link is refused, or the file name does not end in ``.html``.
    """
    if not model.settings.assigns:
        raise ValueError(
            f"a tuner's page needs a system with λ, got {model.settings.system}; choose system='adaqp' before"
        )
    before = model.settings

    def steps(lam: int, size: int, link: int) -> list[PageStep]:
        model.choose(lam=LAMS[lam], group_size=_GROUP_SIZES[size], link=links[link])
        numbers, frame = TunerNumbers.from_model(model), model.to_frame()

        def drawn(panel: tuple[int, int], dark: bool) -> FigureData:
            return FigureData(draw_panel(numbers, *panel, dark=dark), frame)

        words = (
            tiles_html(model) + f"<details><summary>Code</summary><pre>{html.escape(model.to_code())}</pre></details>"
        )
        return [PageStep.from_drawings(*(lambda dark, p=panel: drawn(p, dark) for panel in _PANELS), words=words)]

    choices = [
        Choice(
            label="λ", options=[f"{lam:g}" for lam in LAMS], kind="slider", ends=("0: fastest", "1: least noise"),
            first=min(range(len(LAMS)), key=lambda index: abs(LAMS[index] - before.value("lam"))),
        ),
        Choice(label="Group size", options=[str(size) for size in _GROUP_SIZES], first=1),
        Choice(label="Link", options=list(links), first=min(1, len(links) - 1)),
    ]  # fmt: skip
    title = f"{before.system} on {model.graph.name}, {before.workers} workers: forecasts"
    try:
        return write_choice_page(path, title=title, choices=choices, steps=steps)
    finally:
        model.settings = before
