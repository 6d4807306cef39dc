"""Shared parts of all figures: theme, tables, drawings of graphs, and interactive or static display."""

from gnnqlab.lab.figures.bundle import FigureData, show

__all__ = ["FigureData", "show"]
