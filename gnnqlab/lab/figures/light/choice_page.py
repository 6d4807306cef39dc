"""Page over a grid of computed states: choices, steps, figures and numbers, without a kernel or a network."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.atomic import write_text
from gnnqlab.lab.figures.bundle import caption_of, table_html
from gnnqlab.lab.figures.light.light_chart import light_figure, looks
from gnnqlab.lab.figures.light.light_page import light_page

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from gnnqlab.lab.figures.bundle import FigureData

__all__ = ["Choice", "PageStep", "check_page_name", "write_choice_page"]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One control of the page and its values."""

    label: str
    options: Sequence[str]
    """Texts of the values."""
    kind: str = "buttons"
    """``buttons``, ``slider`` or ``list``."""
    first: int = 0
    """Index of the value shown first."""
    ends: tuple[str, str] = ("", "")
    """Words at the two ends of a slider."""


@dataclass(frozen=True, kw_only=True)
class PageStep:
    """Content of the page for one value of every choice, in one step."""

    title: str
    words: str
    """HTML."""
    figures: Sequence[tuple[Figure, Figure]]
    """Each figure for a light and for a dark page."""
    table: str = ""
    """HTML of the numbers."""

    @classmethod
    def from_drawings(cls, *draw: Callable[[bool], FigureData], words: str | None = None, table: str = "") -> PageStep:
        """Return the step of one or more figures; the title and the description are those of the first.

        Args:
            draw: each draws a figure, for a light (False) or a dark page (True).
            words: HTML of the description.
            table: caption of a table with the numbers of the first figure; empty for no table.
        """
        pairs = [(each(False), each(True)) for each in draw]
        first = pairs[0][0]
        title = re.sub("<[^>]+>", "", str(first.figure.layout.title.text or ""))
        text = html.escape(caption_of(first.figure)) if words is None else words
        for figure in (each.figure for pair in pairs[:1] for each in pair):
            figure.update_layout(title_text="")  # a heading of the page instead
        numbers = table_html(first.frame, caption=table) if table else ""
        figures = [(light.figure, dark.figure) for light, dark in pairs]
        return cls(title=title, words=text, figures=figures, table=numbers)


@dataclass
class _Figures:
    """Figures of all states, each stored once."""

    kept: list[dict[str, Any]] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def place(self, figure: Figure) -> int:
        """Return the index of a figure among those of the page."""
        found = light_figure(figure)
        key = repr(found)
        if key not in self.places:
            self.places[key] = len(self.kept)
            self.kept.append(found)
        return self.places[key]


def check_page_name(path: str | Path) -> Path:
    """Return the path of a page to be written.

    Raises:
        ValueError: if the file name does not end in ``.html`` or ``.htm``.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a player is exported as a page, so its name must end in .html, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_choice_page(
    path: str | Path, *, title: str, choices: Sequence[Choice], steps: Callable[..., Sequence[PageStep]]
) -> Path:
    """Write a page that shows a state for every combination of choices: by mouse, touch or keyboard.

    Args:
        path: the file to write, ``.html``; an existing one is replaced as a whole.
        title: heading of the page.
        choices: controls of the page.
        steps: called with the index of every choice's value; returns the steps of that state.

    Raises:
        ValueError: if the file name does not end in ``.html``, or a figure has traces that need Plotly.
    """
    path, figures = check_page_name(path), _Figures()
    states = {}
    for chosen in itertools.product(*(range(len(choice.options)) for choice in choices)):
        states[",".join(map(str, chosen))] = [
            {
                "title": step.title, "words": step.words, "table": step.table,
                "figures": [
                    {"light": figures.place(light), "dark": figures.place(dark), "label": caption_of(light)}
                    for light, dark in step.figures
                ],
            }
            for step in steps(*chosen)
        ]  # fmt: skip
    body = f"""<h1>{html.escape(title)}</h1>
{"".join(_control(number, choice) for number, choice in enumerate(choices))}
<div id="moves">
<button id="back">← Back</button><button id="next">Next →</button>
<input id="step" type="range" min="0" value="0" aria-label="Step">
</div>
<h2 id="title"></h2>
<p id="words" role="status"></p>
<div id="figures" class="figures"></div>
<div id="table" class="table" tabindex="0" role="region" aria-label="Numbers"></div>"""
    values = {
        "choices": [{"options": list(choice.options)} for choice in choices],
        "states": states, "figures": figures.kept, "looks": looks(),
    }  # fmt: skip
    write_text(path, light_page([Path(__file__).with_name("choice_page.js")], body, title=title, values=values))
    return path


def _control(number: int, choice: Choice) -> str:
    name, label = f"choice{number}", html.escape(choice.label)
    if choice.kind == "slider":
        low, high = map(html.escape, choice.ends)
        low, high = (f"<small>{end}</small>" if end else "" for end in (low, high))
        return (
            f'<fieldset><span>{label}</span>{low}<input type="range" name="{name}" aria-label="{label}" min="0" '
            f'max="{len(choice.options) - 1}" value="{choice.first}">{high}'
            f'<output id="shown{number}"></output></fieldset>\n'
        )
    if choice.kind == "list":
        options = "".join(
            f'<option value="{index}"{" selected" * (index == choice.first)}>{html.escape(text)}</option>'
            for index, text in enumerate(choice.options)
        )
        return f'<fieldset><label><b>{label}</b> <select name="{name}">{options}</select></label></fieldset>\n'
    buttons = "".join(
        f'<label><input type="radio" name="{name}"{" checked" * (index == choice.first)}>{html.escape(text)}</label>'
        for index, text in enumerate(choice.options)
    )
    return f'<fieldset role="radiogroup" aria-label="{label}"><span>{label}</span>{buttons}</fieldset>\n'
