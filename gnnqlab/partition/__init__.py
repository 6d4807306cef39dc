"""Partitioning: partitioners, the cuts they return, one shard per worker, and the quality of a partition."""

from typing import TYPE_CHECKING

from gnnqlab.attached import on_demand
from gnnqlab.callable_module import make_callable

if TYPE_CHECKING:
    from gnnqlab.partition.contiguous import Contiguous
    from gnnqlab.partition.cut import Cut, NodeCut, Partitioner
    from gnnqlab.partition.dne import DNE
    from gnnqlab.partition.ebv import EBV
    from gnnqlab.partition.edge_cut import METIS, Random
    from gnnqlab.partition.hep import HEP
    from gnnqlab.partition.parts import Parts, partition
    from gnnqlab.partition.quality import Quality
    from gnnqlab.partition.shard import Shard, build_shard
    from gnnqlab.partition.streamed import HDRF, RandomEdges
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = [
    "DNE", "EBV", "HDRF", "HEP", "METIS", "Contiguous", "Cut", "NodeCut", "Partitioner", "Parts", "Quality", "Random",
    "RandomEdges", "Shard", "VertexCut", "build_shard", "partition",
]  # fmt: skip

__getattr__ = on_demand(__name__, {
    "gnnqlab.partition.contiguous": ("Contiguous",),
    "gnnqlab.partition.cut": ("Cut", "NodeCut", "Partitioner",),
    "gnnqlab.partition.dne": ("DNE",),
    "gnnqlab.partition.ebv": ("EBV",),
    "gnnqlab.partition.edge_cut": ("METIS", "Random",),
    "gnnqlab.partition.hep": ("HEP",),
    "gnnqlab.partition.parts": ("Parts", "partition",),
    "gnnqlab.partition.quality": ("Quality",),
    "gnnqlab.partition.shard": ("Shard", "build_shard",),
    "gnnqlab.partition.streamed": ("HDRF", "RandomEdges",),
    "gnnqlab.partition.vertex_cut": ("VertexCut",),
})  # fmt: skip

make_callable(__name__, "gnnqlab.partition.parts", "partition")
