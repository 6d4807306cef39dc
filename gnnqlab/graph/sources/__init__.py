"""Readers: one kind of file or dataset a module, found by name or path through ``load``."""

from gnnqlab.graph.sources.catalogue import load, names
from gnnqlab.graph.sources.tables import from_tables
from gnnqlab.graph.sources.where import data_root

__all__ = ["data_root", "from_tables", "load", "names"]
