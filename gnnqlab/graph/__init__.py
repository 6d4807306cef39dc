"""Graphs: the checked ``Graph``, generators, and readers by name or path."""

from gnnqlab.graph.convert.annotated_matrices import from_anndata
from gnnqlab.graph.convert.frameworks import from_dgl, from_pyg, to_dgl
from gnnqlab.graph.convert.networkx_graphs import from_networkx
from gnnqlab.graph.convert.scipy_matrices import from_scipy
from gnnqlab.graph.features import Features, SparseRows
from gnnqlab.graph.generate import rmat, sbm
from gnnqlab.graph.generate_web import web
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import from_tables, load, names, read_edges

__all__ = [
    "Features", "Graph", "SparseRows", "from_anndata", "from_dgl", "from_networkx", "from_pyg", "from_scipy",
    "from_tables", "load", "names", "read_edges", "rmat", "sbm", "to_dgl", "web",
]  # fmt: skip
