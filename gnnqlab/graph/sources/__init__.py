"""Readers of files and datasets, one kind per module, called by ``load`` for a name or path."""

from gnnqlab.graph.sources.catalogue import load, names
from gnnqlab.graph.sources.tables import from_tables, read_edges
from gnnqlab.graph.sources.where import data_root

__all__ = ["data_root", "from_tables", "load", "names", "read_edges"]
