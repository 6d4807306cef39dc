"""The axis ``partition``: partitioners of nodes (edge-cuts), of edges (vertex-cuts), into blocks and of columns."""

from gnnqlab.partition.column_shard import WholeGraph
from gnnqlab.partition.contiguous import Contiguous
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.dne import DNE
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.edge_cut import METIS, Random
from gnnqlab.partition.hep import HEP
from gnnqlab.partition.mt_kahypar import MtKaHyPar
from gnnqlab.partition.random_clusters import RandomClusters
from gnnqlab.partition.streamed import HDRF, RandomEdges

__all__ = [
    "DNE", "EBV", "HDRF", "HEP", "METIS", "Contiguous", "MtKaHyPar", "Partitioner", "Random", "RandomClusters",
    "RandomEdges", "WholeGraph",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
