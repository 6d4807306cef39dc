"""Form in a notebook in which a reader types guesses."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

from gnnqlab.course.student.quantities import QUANTITIES, Quantity
from gnnqlab.lab.figures.controls import alert

__all__ = ["guess_form"]

_NONE = ""


def guess_form(notebook: str, values: Mapping[str, float | str | None], make: Callable[..., None]) -> Any:
    """Return a widget with one field per quantity, which sets the guess when a field is left.

    Args:
        notebook: two digits.
        values: guesses so far.
        make: sets a guess by name; its `ValueError` is shown next to the field.
    """
    import ipywidgets as widgets

    rows = [_row(name, quantity, values[name], make) for name, quantity in QUANTITIES[notebook].items()]
    return widgets.VBox([widgets.HTML("<b>Your guess, before you measure</b> (or leave it empty)"), *rows])


def _row(name: str, quantity: Quantity, kept: float | str | None, make: Callable[..., None]) -> Any:
    import ipywidgets as widgets

    text = _NONE if kept is None else kept if isinstance(kept, str) else f"{kept:.10g}"
    look = {"description": quantity.label, "style": {"description_width": "24em"}, "layout": {"width": "34em"}}
    field = (
        widgets.Dropdown(options=[_NONE, *quantity.choices], value=text, **look)
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
