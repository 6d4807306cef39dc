"""Models, their layers, and the graph interface on which they run."""

from gnnqlab.nn.batch_norm import SyncBatchNorm, sum_over_nodes
from gnnqlab.nn.message_passing import GraphPass, LocalGraph, ModelGraph, WorkerGraph
from gnnqlab.nn.models import ModelSettings, build_model

__all__ = [
    "GraphPass", "LocalGraph", "ModelGraph", "ModelSettings", "SyncBatchNorm", "WorkerGraph", "build_model",
    "sum_over_nodes",
]  # fmt: skip
