"""Readers: one kind of file or dataset a module, found by name or path through ``load``."""

from gnnqlab.graph.sources.catalogue import load, names

__all__ = ["load", "names"]
