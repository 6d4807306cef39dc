"""The models, each written once for any graph, distributed or not."""

from gnnqlab.nn.models.gcn import gcn
from gnnqlab.nn.models.graphsage import graphsage
from gnnqlab.nn.models.registry import MODELS, ModelSettings, build_model, register_model

__all__ = ["MODELS", "ModelSettings", "build_model", "gcn", "graphsage", "register_model"]
