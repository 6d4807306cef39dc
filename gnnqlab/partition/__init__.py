"""Who owns nodes and edges: partitioners, their cuts, shards, and what a partition costs."""

from gnnqlab.callable_module import make_callable
from gnnqlab.partition.cut import Cut, NodeCut, Partitioner
from gnnqlab.partition.edge_cut import METIS, Random
from gnnqlab.partition.parts import Parts, partition
from gnnqlab.partition.quality import Quality
from gnnqlab.partition.shard import Shard, build_shard

__all__ = ["METIS", "Cut", "NodeCut", "Partitioner", "Parts", "Quality", "Random", "Shard", "build_shard", "partition"]

make_callable(__name__, "gnnqlab.partition.parts", "partition")
