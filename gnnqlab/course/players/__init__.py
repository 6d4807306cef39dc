"""Interactive players: one message, one assignment, one epoch step by step, and the partition explorer."""

from gnnqlab.course.players.assigner_player import AssignerPlayer
from gnnqlab.course.players.message_player import MessagePlayer
from gnnqlab.course.players.partition_explorer import PartitionExplorer

__all__ = ["AssignerPlayer", "MessagePlayer", "PartitionExplorer"]
