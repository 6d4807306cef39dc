"""Controls of the tuner, one per kind of knob; each can show the reason why a value was refused."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.controls import MARK, alert, make_tip
from gnnqlab.lab.tuner.settings import Knob

__all__ = ["ChoiceControl", "Number", "CheckBoxes", "OpenChoice", "Switch", "TextBox", "control_of"]

_WIDE, _LABEL = "392px", "88px"
OnChange = Callable[[str, Any], None]
"""Function that is called with a setting's name and the requested value."""


class _Control:
    """One setting on the screen."""

    def __init__(self, name: str, knob: Knob, on_change: OnChange) -> None:
        import ipywidgets as widgets

        self.name, self.knob = name, knob
        self._on_change, self._quiet = on_change, False
        self._note = widgets.HTML()
        self._note.layout.display = "none"
        self.is_refused = False
        """True if the value in its box was refused, so that the model has another one."""

    def refuse(self, reason: str) -> None:
        """Mark the control and show why a value was refused, by the label of the setting; an empty reason clears it."""
        reason = re.sub(rf"^({self.name}|{self.knob.setting or self.name}) ", f"{self.knob.label} ", reason)
        self.is_refused = bool(reason)
        self._note.value = alert(reason)
        self._note.layout.display = None if reason else "none"
        self._row.layout.border = f"2px solid {MARK}" if reason else "2px solid transparent"

    def show(self, value: Any) -> None:
        """Set the control to a value without a call of ``on_change``."""
        self._quiet = True
        try:
            self._set(value)
        finally:
            self._quiet = False

    def _set(self, value: Any) -> None:
        raise NotImplementedError

    def _request(self, value: Any) -> None:
        if not self._quiet:
            self._on_change(self.name, value)

    def _place(self, *controls: Any) -> Any:
        import ipywidgets as widgets

        self._row = widgets.HBox(
            [*controls, make_tip(self.knob.help)], layout={"align_items": "center", "border": "2px solid transparent"}
        )  # the border is always there, so that nothing moves when it gets a colour
        return widgets.VBox([self._row, self._note], layout={"width": _WIDE})


class Number(_Control):
    """Slider with a box for the same number.

    Args:
        name: name of the setting.
        knob: its label, help and range.
        value: initial value.
        on_change: function that receives every requested value.
        step: step of the slider; whole numbers by default.
        at_once: True to send values while the slider is dragged, False to send the last one.
    """

    def __init__(
        self, name: str, knob: Knob, value: float, on_change: OnChange, *, step: float = 1, at_once: bool = True
    ) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, on_change)
        is_whole = knob.whole
        settings = {
            "description": knob.label, "tooltip": knob.help, "continuous_update": at_once, "readout": False,
            "layout": {"width": "300px"}, "style": {"description_width": _LABEL},
        }  # fmt: skip
        if knob.logarithmic:
            ends = {"min": math.log10(knob.least), "max": math.log10(knob.most)}
            self.slider = widgets.FloatLogSlider(value=value, step=0.05, **ends, **settings)
        else:
            kind = widgets.IntSlider if is_whole else widgets.FloatSlider
            self.slider = kind(value=value, min=knob.least, max=knob.most, step=step if is_whole else 0.01, **settings)
        box_class = widgets.IntText if is_whole else widgets.FloatText
        # The description is for screen readers only; the slider shows the label.
        self.box = box_class(
            value, description=f"{knob.label}, exactly", tooltip=knob.help, step=1 if is_whole else 0.01,
            layout={"width": "84px"}, style={"description_width": "0px"},
        )  # fmt: skip
        self.slider.observe(self._on_slide, names="value")
        self.box.observe(lambda change: self._request(change["new"]), names="value")
        self.widget = self._place(self.slider, self.box)
        if any(knob.ends):
            self.widget.children = (*self.widget.children, widgets.HTML(_ends_html(*knob.ends)))

    def _set(self, value: float) -> None:
        if self._slider_value() != value:  # equal after rounding: the handle does not move
            self.slider.value = value
        self.box.value = value

    def _on_slide(self, change: Any) -> None:
        self._request(self._slider_value())

    def _slider_value(self) -> float:
        # Six digits hide rounding errors of steps.
        return round(self.slider.value) if self.knob.logarithmic else round(self.slider.value, 6)


class ChoiceControl(_Control):
    """List of values, one of which is chosen."""

    def __init__(self, name: str, knob: Knob, value: Any, on_change: OnChange, options: Sequence[Any]) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, on_change)
        self.list = widgets.Dropdown(
            options=list(dict.fromkeys([*options, value])), value=value, description=self.knob.label,
            tooltip=self.knob.help, layout={"width": "300px"}, style={"description_width": _LABEL},
        )  # fmt: skip
        self.list.observe(lambda change: self._request(change["new"]), names="value")
        self.widget = self._place(self.list)

    def _set(self, value: Any) -> None:
        self.list.value = value


class OpenChoice(ChoiceControl):
    """List of usual values with a box for any other one, sent when the input is complete."""

    def __init__(self, name: str, knob: Knob, value: str, on_change: OnChange, options: Sequence[str]) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, value, on_change, options)
        self.list.layout.width = "220px"
        # The description is for screen readers only; the list shows the label.
        self.box = widgets.Text(
            value, description=f"{knob.label}, exactly", tooltip=knob.help, continuous_update=False,
            layout={"width": "84px"}, style={"description_width": "0px"},
        )  # fmt: skip
        self.box.observe(lambda change: self._request(change["new"].strip()), names="value")
        self.widget = self._place(self.list, self.box)

    def _set(self, value: str) -> None:
        if value not in self.list.options:
            self.list.options = (*self.list.options, value)
        super()._set(value)
        self.box.value = value


class CheckBoxes(_Control):
    """Check boxes, one per bit-width."""

    def __init__(self, name: str, knob: Knob, value: Sequence[int], on_change: OnChange) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, on_change)
        self.boxes = {
            width: widgets.Checkbox(
                width in value, description=human_bits(width), indent=False, tooltip=self.knob.help,
                layout={"width": "66px"},
            )
            for width in knob.choices
        }  # fmt: skip
        for box in self.boxes.values():
            box.observe(self._on_tick, names="value")
        # Not a Label, which would become the accessible name of all boxes.
        label = widgets.HTML(
            f'<div style="width:{_LABEL};text-align:right">{self.knob.label}</div>', layout={"margin": "0 8px 0 2px"}
        )
        self.widget = self._place(label, *self.boxes.values())

    def _set(self, value: Sequence[int]) -> None:
        for width, box in self.boxes.items():
            box.value = width in value

    def _on_tick(self, change: Any) -> None:
        self._request(tuple(width for width, box in self.boxes.items() if box.value))


class Switch(_Control):
    """Check box: on or off."""

    def __init__(self, name: str, knob: Knob, value: bool, on_change: OnChange) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, on_change)
        self.box = widgets.Checkbox(
            value, description=knob.label, tooltip=knob.help, layout={"width": "300px"},
            style={"description_width": _LABEL},
        )  # fmt: skip
        self.box.observe(lambda change: self._request(change["new"]), names="value")
        self.widget = self._place(self.box)

    def _set(self, value: Any) -> None:
        self.box.value = value


class TextBox(Switch):
    """Box for text, sent when the input is complete."""

    def __init__(self, name: str, knob: Knob, value: str, on_change: OnChange) -> None:
        import ipywidgets as widgets

        _Control.__init__(self, name, knob, on_change)
        self.box = widgets.Text(
            value, description=knob.label, tooltip=knob.help, continuous_update=False, layout={"width": "300px"},
            style={"description_width": _LABEL},
        )  # fmt: skip
        self.box.observe(lambda change: self._request(change["new"]), names="value")
        self.widget = self._place(self.box)


class NumbersBox(TextBox):
    """Box for several numbers separated by commas, sent when the input is complete."""

    def __init__(self, name: str, knob: Knob, value: Sequence[float], on_change: OnChange) -> None:
        super().__init__(name, knob, self._text(value), on_change)

    def _set(self, value: Any) -> None:
        super()._set(self._text(value))

    def _request(self, value: Any) -> None:
        try:
            numbers = tuple(float(word) for word in value.split(","))
        except ValueError:
            numbers = value  # refused by the settings like other values, which also disables Train
        super()._request(numbers)

    @staticmethod
    def _text(value: Sequence[float]) -> str:
        return ", ".join(f"{number:g}" for number in value)


def _ends_html(low: str, high: str) -> str:
    style = (
        f"display:flex;justify-content:space-between;margin-left:{_LABEL};width:200px;font-size:11px;line-height:1.2"
    )
    return f'<div style="{style}"><span>{html.escape(low)}</span><span>{html.escape(high)}</span></div>'


def control_of(name: str, knob: Knob, value: Any, on_change: OnChange) -> Any:
    """Return the control of a system's knob with an initial value."""
    if knob.kind == "choice":
        return ChoiceControl(name, knob, value, on_change, knob.choices)
    kinds: dict[str, Any] = {
        "number": Number,
        "several": CheckBoxes,
        "switch": Switch,
        "text": TextBox,
        "numbers": NumbersBox,
    }
    return kinds[knob.kind](name, knob, value, on_change)
