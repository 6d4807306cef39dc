"""The course: the graph of ten nodes, interactive players, the figures of each notebook, and its exercises."""

import importlib
from typing import Any

from gnnqlab.course.ten_nodes import Halves, draw, ten_nodes

_PLAYERS = {
    "AssignerPlayer": "gnnqlab.course.players.assigner_player",
    "EpochPlayer": "gnnqlab.course.players.epoch_player",
    "MessagePlayer": "gnnqlab.course.players.message_player",
    "PartitionExplorer": "gnnqlab.course.players.partition_explorer",
}
"""Player -> its module, imported at its first use: players need ipywidgets."""

__all__ = ["AssignerPlayer", "EpochPlayer", "Halves", "MessagePlayer", "PartitionExplorer", "draw", "ten_nodes"]


def __getattr__(name: str) -> Any:
    if name not in _PLAYERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLAYERS[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
