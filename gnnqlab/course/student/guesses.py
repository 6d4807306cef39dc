"""Guesses before a measurement: a form in a notebook, values in Python, and both drawn with the measurement."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from typing import Any

from gnnqlab.course.shown import Page
from gnnqlab.course.student import progress
from gnnqlab.course.student.guess_line import digits, guess_line
from gnnqlab.course.student.quantities import QUANTITIES, Quantity

__all__ = ["Guess", "distance", "guess", "guess_form"]

_CLOSE = 1.1
"""Largest factor of a close guess."""
_NO_GUESS = ""


class Guess:
    """Guesses of one notebook; at the end of a cell they are a form.

    Args:
        notebook: two digits.
        values: name -> guess, or ``None`` for none yet.
    """

    def __init__(self, notebook: str, values: Mapping[str, Any]) -> None:
        self.notebook = notebook
        self.values: dict[str, float | str | None] = dict.fromkeys(QUANTITIES[notebook])
        kept = progress.read()["guesses"].get(notebook, {})
        self.values |= {name: each["guess"] for name, each in kept.items() if name in self.values}
        self.make(**{name: value for name, value in values.items() if value is not None})

    def make(self, **values: Any) -> None:
        """Set guesses by name.

        Args:
            values: a number each, or one of the quantity's words; ``None`` takes a guess back.

        Raises:
            ValueError: for an unknown name, or a value that is no number or below its least one.
        """
        quantities = QUANTITIES[self.notebook]
        _check_names(self.notebook, values)
        read = {name: _read(name, quantities[name], value) for name, value in values.items()}
        for name, value in read.items():
            unit = quantities[name].unit
            # Points are differences, which may be below zero; nothing else that is guessed can be.
            if isinstance(value, float) and value < 0 and unit != "points":
                raise ValueError(f"{name} must be at least 0 {unit}, got {value:g}; guess the size alone")
        if not read:
            return
        self.values |= read
        with progress.changed() as state:
            kept = state["guesses"].setdefault(self.notebook, {})
            for name, value in read.items():
                entry = kept.setdefault(name, {})
                entry.update(guess=value, at=progress.now(), is_late="seen" in entry)

    def ask(self) -> None:
        """Print the quantities without a guess, in front of a figure that shows the answer; nothing if all have one."""
        missing = [QUANTITIES[self.notebook][name] for name, value in self.values.items() if value is None]
        if missing:
            words = "; ".join(f"{each.label}{f' ({each.unit})' if each.unit else ''}" for each in missing)
            print(f"Your guess first, in the form at the top, or go on: {words}.")

    def compare(self, **measured: Any) -> Page:
        """Return the measurements with the guesses: a line each, and the distance between both.

        Without a guess the measurement is drawn alone, with a sentence that says how to guess.

        Args:
            measured: measurement by name; ``None`` for one that this machine cannot make.

        Raises:
            ValueError: for an unknown name.
        """
        _check_names(self.notebook, measured)
        found = {name: value for name, value in measured.items() if value is not None}
        with progress.changed() as state:
            kept = state["guesses"].setdefault(self.notebook, {})
            for name, value in found.items():
                entry = kept.setdefault(name, {"guess": None})
                entry["measured"] = _read(name, QUANTITIES[self.notebook][name], value)
                entry.setdefault("seen", progress.now())
        lines = [self._line(name, _read(name, QUANTITIES[self.notebook][name], value)) for name, value in found.items()]
        texts, pictures = [text for text, _ in lines], [picture for _, picture in lines]
        missing = [name for name in found if self.values[name] is None]
        if missing:
            example = ", ".join(f"{name}=…" for name in missing)
            texts.append(
                f"You have not guessed yet: type a guess into the form at the top, or run guess.make({example}), then "
                "run this cell again."
            )
        body = "".join(
            f"<p style='margin:.4em 0 0'>{html.escape(text)}</p>{picture}"
            for text, picture in zip(texts, [*pictures, ""])
        )
        return Page("\n".join(texts), f"<div>{body}</div>")

    def _line(self, name: str, measured: float | str) -> tuple[str, str]:
        quantity, value = QUANTITIES[self.notebook][name], self.values[name]
        text = f"{_sentence(quantity.label)}: measured {_text(measured, quantity)}"
        if value is not None:
            text += f", your guess {_text(value, quantity)}: {distance(value, measured, quantity)}"
        picture = ""
        if isinstance(measured, float) and not isinstance(value, str):
            picture = guess_line(measured, value, label=quantity.label)
        return f"{text}.", picture

    def __repr__(self) -> str:
        return f"Your guess, before you measure. {'; '.join(self._lines())}. In Python: {self._example()}"

    def _lines(self) -> list[str]:
        """Return each quantity with its guess, or a question mark."""
        return [
            f"{_sentence(quantity.label)}: {_text(self.values[name], quantity)}"
            for name, quantity in QUANTITIES[self.notebook].items()
        ]

    def _example(self) -> str:
        return f"guess.make({', '.join(f'{name}=…' for name in self.values)})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from gnnqlab.lab.figures.bundle import fallback_for
        from gnnqlab.lab.figures.controls import shows_static

        if shows_static():
            lines = "".join(f"<li>{html.escape(line)}</li>" for line in self._lines())
            page = f"<b>Your guess, before you measure</b><ul>{lines}</ul>In Python: <code>{self._example()}</code>"
            return {"text/plain": repr(self), "text/html": page}, {}
        return fallback_for(guess_form(self.notebook, self.values, self.make), repr(self))


def guess(notebook: str, **values: Any) -> Guess:
    """Return the guesses of a notebook, to be made before its measurements.

    Args:
        notebook: two digits, for instance ``"01"``.
        values: name -> number, or ``None`` for no guess yet; earlier guesses are kept.

    Raises:
        ValueError: if the notebook or a name is unknown, or a value is no number.

    Example:
        >>> import os, tempfile
        >>> os.environ["GNNQLAB_RUNS"] = tempfile.mkdtemp()
        >>> first = guess("01", fewer_bytes=None, points=None)
        >>> first.compare(fewer_bytes=12.5)
        Bytes of an epoch in 2 bits: measured 12.5 times fewer.
        You have not guessed yet: type a guess into the form at the top, or run guess.make(fewer_bytes=…), then run
        this cell again.
        >>> first.make(fewer_bytes=4)
        >>> first.compare(fewer_bytes=12.5)
        Bytes of an epoch in 2 bits: measured 12.5 times fewer, your guess 4 times fewer: you were off by 3.1 ×.
        >>> del os.environ["GNNQLAB_RUNS"]
    """
    if notebook not in QUANTITIES:
        raise ValueError(f"notebook must be one of {', '.join(QUANTITIES)}, got {notebook!r}")
    _check_names(notebook, values)
    return Guess(notebook, values)


def distance(value: float | str, measured: float | str, quantity: Quantity) -> str:
    """Return the distance between a guess and a measurement in words.

    A factor for positive numbers, else a difference.

    Example:
        >>> distance(4, 12.5, Quantity("bytes", "times fewer"))
        'you were off by 3.1 ×'
        >>> distance(1.0, -0.5, Quantity("accuracy", "points"))
        'you were off by 1.5 points'
        >>> distance("yes", "no", Quantity("lower", choices=("no", "yes")))
        'you were wrong'
    """
    if isinstance(value, str) or isinstance(measured, str):
        return "you were right" if value == measured else "you were wrong"
    if quantity.unit != "points" and value > 0 and measured > 0:
        factor = max(value, measured) / min(value, measured)
        return "you were right, within 10 %" if factor <= _CLOSE else f"you were off by {digits(factor)} ×"
    return f"you were off by {digits(abs(value - measured))} {quantity.unit}".rstrip()


def guess_form(notebook: str, values: Mapping[str, float | str | None], make: Callable[..., None]) -> Any:
    """Return a widget with one field per quantity, which sets the guess when a field is left.

    Args:
        notebook: two digits.
        values: guesses so far.
        make: sets a guess by name; its `ValueError` is shown next to the field.
    """
    import ipywidgets as widgets

    rows = [_form_row(name, quantity, values[name], make) for name, quantity in QUANTITIES[notebook].items()]
    return widgets.VBox([widgets.HTML("<b>Your guess, before you measure</b> (or leave it empty)"), *rows])


def _form_row(name: str, quantity: Quantity, kept: float | str | None, make: Callable[..., None]) -> Any:
    import ipywidgets as widgets

    from gnnqlab.lab.figures.controls import alert

    text = _NO_GUESS if kept is None else kept if isinstance(kept, str) else f"{kept:.10g}"
    look = {"description": quantity.label, "style": {"description_width": "24em"}, "layout": {"width": "34em"}}
    field = (
        widgets.Dropdown(options=[_NO_GUESS, *quantity.choices], value=text, **look)
        if quantity.choices
        else widgets.Text(value=text, placeholder="your guess", continuous_update=False, **look)
    )
    reply = widgets.HTML(html.escape(quantity.unit))

    def set_guess(change: Any) -> None:
        try:
            make(**{name: change["new"].strip() or None})
        except ValueError as error:
            reply.value = alert(str(error))
        else:
            reply.value = html.escape(f"{quantity.unit} ✓" if change["new"].strip() else quantity.unit)

    field.observe(set_guess, "value")
    return widgets.HBox([field, reply])


def _check_names(notebook: str, values: Mapping[str, Any]) -> None:
    names = QUANTITIES[notebook]
    for name in values:
        if name not in names:
            raise ValueError(f"a guess of notebook {notebook} must be one of {', '.join(names)}, got {name!r}")


def _read(name: str, quantity: Quantity, value: Any) -> Any:
    """Return a number, or one of the quantity's words.

    Raises:
        ValueError: if it is neither.
    """
    if value is None:
        return None
    if quantity.choices:
        word = quantity.choices[int(value)] if isinstance(value, bool) else str(value).strip()
        word = next((each for each in quantity.choices if each in (word, word.removesuffix(".0"))), word)
        if word not in quantity.choices:
            raise ValueError(f"{name} must be one of {', '.join(quantity.choices)}, got {value!r}")
        return word
    try:
        number = float(value.replace(",", ".") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a number{f' ({quantity.unit})' if quantity.unit else ''}, got {value!r}")
    return number


def _text(value: float | str | None, quantity: Quantity) -> str:
    text = "?" if value is None else value if isinstance(value, str) else digits(value)
    return f"{text} {quantity.unit}".rstrip()


def _sentence(label: str) -> str:
    return label if label[:2].isupper() else label[:1].upper() + label[1:]
