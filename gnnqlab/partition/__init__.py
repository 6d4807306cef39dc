"""Partitioning: partitioners, the cuts they return, one shard per worker, and the quality of a partition."""

from gnnqlab.callable_module import make_callable
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

make_callable(__name__, "gnnqlab.partition.parts", "partition")
