"""Graphs: the checked ``Graph``, generators, and readers by name or path."""

from gnnqlab.graph.features import Features, SparseRows
from gnnqlab.graph.generate import rmat, sbm
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load, names

__all__ = ["Features", "Graph", "SparseRows", "load", "names", "rmat", "sbm"]
