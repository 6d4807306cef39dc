"""Controls of the tuner, one for each kind of knob; each with room for why a value was refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.controls import MARK, alert, make_tip
from gnnqlab.lab.tuner.settings import Knob

__all__ = ["Choice", "Number", "Several", "Switch", "Typed", "control_of"]

_WIDE, _LABEL = "392px", "88px"
Turned = Callable[[str, Any], None]
"""Called with a setting's name and the value that was asked for."""


class _Control:
    """One setting on the screen."""

    def __init__(self, name: str, knob: Knob, turned: Turned) -> None:
        import ipywidgets as widgets

        self.name, self.knob = name, knob
        self._turned, self._quiet = turned, False
        self._note = widgets.HTML()
        self._note.layout.display = "none"
        self.refused = False
        """Whether what its box shows was refused, so that the model stands elsewhere."""

    def refuse(self, reason: str) -> None:
        """Mark the control and say beside it why a value was refused, by the name on the screen; nothing clears it."""
        reason = re.sub(rf"^({self.name}|{self.knob.setting or self.name}) ", f"{self.knob.label} ", reason)
        self.refused = bool(reason)
        self._note.value = alert(reason)
        self._note.layout.display = None if reason else "none"
        self._row.layout.border = f"2px solid {MARK}" if reason else "2px solid transparent"

    def show(self, value: Any) -> None:
        """Set the control to a value without a call of ``turned``."""
        self._quiet = True
        try:
            self._stand(value)
        finally:
            self._quiet = False

    def _stand(self, value: Any) -> None:
        raise NotImplementedError

    def _ask(self, value: Any) -> None:
        if not self._quiet:
            self._turned(self.name, value)

    def _place(self, *controls: Any) -> Any:
        import ipywidgets as widgets

        self._row = widgets.HBox(
            [*controls, make_tip(self.knob.help)], layout={"align_items": "center", "border": "2px solid transparent"}
        )  # a border that is there already moves nothing when it is seen
        return widgets.VBox([self._row, self._note], layout={"width": _WIDE})


class Number(_Control):
    """A slider, and a box in which the same number is typed.

    Args:
        name: the setting.
        knob: what it is.
        value: to start with.
        turned: is told what was asked for.
        step: of the slider, whole numbers by default.
        at_once: whether it speaks while it is dragged, or when it is let go.
    """

    def __init__(
        self, name: str, knob: Knob, value: float, turned: Turned, *, step: float = 1, at_once: bool = True
    ) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, turned)
        whole = knob.whole
        shared = {
            "description": knob.label, "tooltip": knob.help, "continuous_update": at_once, "readout": False,
            "layout": {"width": "300px"}, "style": {"description_width": _LABEL},
        }  # fmt: skip
        if knob.logarithmic:
            ends = {"min": math.log10(knob.least), "max": math.log10(knob.most)}
            self.slider = widgets.FloatLogSlider(value=value, step=0.05, **ends, **shared)
        else:
            kind = widgets.IntSlider if whole else widgets.FloatSlider
            self.slider = kind(value=value, min=knob.least, max=knob.most, step=step if whole else 0.01, **shared)
        typed = widgets.IntText if whole else widgets.FloatText
        # The description is there for screen readers; the slider beside it shows the same word.
        self.box = typed(
            value, description=f"{knob.label}, exactly", tooltip=knob.help, step=1 if whole else 0.01,
            layout={"width": "84px"}, style={"description_width": "0px"},
        )  # fmt: skip
        self.slider.observe(self._slid, names="value")
        self.box.observe(lambda change: self._ask(change["new"]), names="value")
        self.widget = self._place(self.slider, self.box)

    def _stand(self, value: float) -> None:
        if self._slid_value() != value:
            self.slider.value = value
        self.box.value = value

    def _slid(self, change: Any) -> None:
        self._ask(self._slid_value())

    def _slid_value(self) -> float:
        return round(self.slider.value) if self.knob.logarithmic else round(self.slider.value, 6)


class Choice(_Control):
    """A list of which one is chosen."""

    def __init__(self, name: str, knob: Knob, value: Any, turned: Turned, options: Sequence[Any]) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, turned)
        self.list = widgets.Dropdown(
            options=list(dict.fromkeys([*options, value])), value=value, description=self.knob.label,
            tooltip=self.knob.help, layout={"width": "300px"}, style={"description_width": _LABEL},
        )  # fmt: skip
        self.list.observe(lambda change: self._ask(change["new"]), names="value")
        self.widget = self._place(self.list)

    def _stand(self, value: Any) -> None:
        self.list.value = value


class Several(_Control):
    """Check boxes, one a bit-width."""

    def __init__(self, name: str, knob: Knob, value: Sequence[int], turned: Turned) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, turned)
        self.boxes = {
            width: widgets.Checkbox(
                width in value, description=human_bits(width), indent=False, tooltip=self.knob.help,
                layout={"width": "66px"},
            )
            for width in knob.choices
        }  # fmt: skip
        for box in self.boxes.values():
            box.observe(self._ticked, names="value")
        # Not a Label: that would give its name to all boxes.
        label = widgets.HTML(
            f'<div style="width:{_LABEL};text-align:right">{self.knob.label}</div>', layout={"margin": "0 8px 0 2px"}
        )
        self.widget = self._place(label, *self.boxes.values())

    def _stand(self, value: Sequence[int]) -> None:
        for width, box in self.boxes.items():
            box.value = width in value

    def _ticked(self, change: Any) -> None:
        self._ask(tuple(width for width, box in self.boxes.items() if box.value))


class Switch(_Control):
    """A check box: on or off."""

    def __init__(self, name: str, knob: Knob, value: bool, turned: Turned) -> None:
        import ipywidgets as widgets

        super().__init__(name, knob, turned)
        self.box = widgets.Checkbox(
            value, description=knob.label, tooltip=knob.help, layout={"width": "300px"},
            style={"description_width": _LABEL},
        )  # fmt: skip
        self.box.observe(lambda change: self._ask(change["new"]), names="value")
        self.widget = self._place(self.box)

    def _stand(self, value: Any) -> None:
        self.box.value = value


class Typed(Switch):
    """A box for words, asked about once they are whole."""

    def __init__(self, name: str, knob: Knob, value: str, turned: Turned) -> None:
        import ipywidgets as widgets

        _Control.__init__(self, name, knob, turned)
        self.box = widgets.Text(
            value, description=knob.label, tooltip=knob.help, continuous_update=False, layout={"width": "300px"},
            style={"description_width": _LABEL},
        )  # fmt: skip
        self.box.observe(lambda change: self._ask(change["new"]), names="value")
        self.widget = self._place(self.box)


class Numbers(Typed):
    """A box for several numbers with commas between, asked about once they are whole."""

    def __init__(self, name: str, knob: Knob, value: Sequence[float], turned: Turned) -> None:
        super().__init__(name, knob, self._written(value), turned)

    def _stand(self, value: Any) -> None:
        super()._stand(self._written(value))

    def _ask(self, value: Any) -> None:
        try:
            numbers = tuple(float(word) for word in value.split(","))
        except ValueError:
            numbers = value  # refused where all else is, so that Train waits for it too
        super()._ask(numbers)

    @staticmethod
    def _written(value: Sequence[float]) -> str:
        return ", ".join(f"{number:g}" for number in value)


def control_of(name: str, knob: Knob, value: Any, turned: Turned) -> Any:
    """Return the control of a knob of a system, standing at a value."""
    if knob.kind == "choice":
        return Choice(name, knob, value, turned, knob.choices)
    kinds: dict[str, Any] = {"number": Number, "several": Several, "switch": Switch, "text": Typed, "numbers": Numbers}
    return kinds[knob.kind](name, knob, value, turned)
