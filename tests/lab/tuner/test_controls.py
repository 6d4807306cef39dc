"""Controls ask for values of their setting's type, and say what they cannot read."""

from __future__ import annotations

from typing import Any

from gnnqlab.lab.tuner.controls import control_of
from gnnqlab.lab.tuner.settings import knobs_of


def test_several_numbers_are_typed_with_commas_between() -> None:
    asked: list[tuple[str, Any]] = []
    knob = knobs_of("sylvie")["thresholds"]
    control = control_of("thresholds", knob, (0.5, 0.75), lambda name, value: asked.append((name, value)))
    assert control.box.value == "0.5, 0.75"
    control.box.value = "0.9, 0.95,0.99"
    assert asked == [("thresholds", (0.9, 0.95, 0.99))]
    control.box.value = "nine tenths"
    assert asked[1:] == [("thresholds", "nine tenths")], "refused where all else is"
    control.show((0.1, 0.2))
    assert control.box.value == "0.1, 0.2" and len(asked) == 2
