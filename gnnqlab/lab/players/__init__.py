"""Views to play with: one message, one assignment, one cut, step by step."""

from gnnqlab.lab.players.assigner_player import AssignerPlayer
from gnnqlab.lab.players.message_player import MessagePlayer
from gnnqlab.lab.players.partition_explorer import PartitionExplorer

__all__ = ["AssignerPlayer", "MessagePlayer", "PartitionExplorer"]
