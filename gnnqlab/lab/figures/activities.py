"""What a worker does in an epoch, with one name, colour and pattern in every figure that has lanes of time."""

from __future__ import annotations

from gnnqlab.lab.figures.theme import OKABE_ITO, PHASES

__all__ = ["ACTIVITY_NAMES", "ACTIVITY_STYLES", "BETWEEN"]

BETWEEN = "between"
"""Time between recorded parts of an epoch: dense layers, loss, sums of weight gradients."""

_COLORS = {phase.column.removesuffix("_s"): phase.color for phase in PHASES}
_ACTIVITIES = {
    "encode": ("encode", _COLORS["encode"]),
    "post": ("post", "#555555"),
    "central": ("central rows", f"{_COLORS['central']} /"),
    "wait": ("wait", f"{_COLORS['wait']} x"),
    "decode": ("decode", f"{_COLORS['decode']} ."),
    "marginal": ("marginal rows", f"{_COLORS['marginal']} \\"),
    BETWEEN: ("between exchanges", f"{OKABE_ITO['sky']} -"),
    "loss": ("loss", f"{_COLORS['dense']} |"),
    "reduce": ("sum gradients", f"{_COLORS['reduce']} +"),
    "update": ("optimizer", _COLORS["optimizer"]),
    "optimizer": ("optimizer", _COLORS["optimizer"]),
}
ACTIVITY_NAMES = {what: name for what, (name, _) in _ACTIVITIES.items()}
"""Name of each activity by its word in a timeline."""
ACTIVITY_STYLES = {what: style for what, (_, style) in _ACTIVITIES.items()}
"""Colour and pattern of each activity, in the order of legends."""
