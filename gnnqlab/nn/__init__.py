"""Models, their layers, and the graph interface on which they run."""

from gnnqlab.nn.message_passing import GraphPass, LocalGraph, ModelGraph, WorkerGraph
from gnnqlab.nn.models import ModelSettings, build_model

__all__ = ["GraphPass", "LocalGraph", "ModelGraph", "ModelSettings", "WorkerGraph", "build_model"]
