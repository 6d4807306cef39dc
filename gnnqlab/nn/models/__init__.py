"""Models, each written once for one worker and for many."""

from gnnqlab.nn.models.dagnn import dagnn
from gnnqlab.nn.models.gat import gat
from gnnqlab.nn.models.gcn import gcn
from gnnqlab.nn.models.gcnii import gcnii
from gnnqlab.nn.models.graphsage import graphsage
from gnnqlab.nn.models.jknet import jknet
from gnnqlab.nn.models.registry import MODELS, ModelSettings, build_model, register_model
from gnnqlab.nn.models.sgc import sgc

__all__ = [
    "MODELS",
    "ModelSettings",
    "build_model",
    "dagnn",
    "gat",
    "gcn",
    "gcnii",
    "graphsage",
    "jknet",
    "register_model",
    "sgc",
]


def __dir__() -> list[str]:
    return list(__all__)
