"""Graphs: the checked ``Graph``, generators, and readers by name or path."""

from gnnqlab.graph.convert import from_dgl, from_pyg
from gnnqlab.graph.features import Features, SparseRows
from gnnqlab.graph.generate import rmat, sbm
from gnnqlab.graph.generate_web import web
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load, names

__all__ = ["Features", "Graph", "SparseRows", "from_dgl", "from_pyg", "load", "names", "rmat", "sbm", "web"]
