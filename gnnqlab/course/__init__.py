"""The course: the graph of ten nodes, interactive players, the figures of each notebook, exercises and guesses."""

import importlib
from typing import Any

from gnnqlab.course.ten_nodes import Halves, draw, ten_nodes

_HOMES = {
    "AssignerPlayer": "gnnqlab.course.players.assigner_player",
    "EpochPlayer": "gnnqlab.course.players.epoch_player",
    "MessagePlayer": "gnnqlab.course.players.message_player",
    "PartitionExplorer": "gnnqlab.course.players.partition_explorer",
    "check": "gnnqlab.course.exercises",
    "guess": "gnnqlab.course.student.guesses",
    "hand_in": "gnnqlab.course.student.handed_in",
    "is_right": "gnnqlab.course.exercises",
    "my_graph": "gnnqlab.course.student.own_graph",
    "paper_claims": "gnnqlab.course.paper_figures",
    "progress": "gnnqlab.course.student.course_map",
    "show_solution": "gnnqlab.course.exercises",
    "start": "gnnqlab.course.student.progress",
}
"""Name -> its module, imported at its first use: players need ipywidgets."""

__all__ = [
    "AssignerPlayer", "EpochPlayer", "Halves", "MessagePlayer", "PartitionExplorer", "check", "draw", "guess",
    "hand_in", "is_right", "my_graph", "paper_claims", "progress", "show_solution", "start", "ten_nodes",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
