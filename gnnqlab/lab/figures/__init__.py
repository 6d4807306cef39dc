"""What all figures share: their theme and tables, small graphs drawn, and figures that stay visible and follow."""

from gnnqlab.lab.figures.bundle import FigureData, show

__all__ = ["FigureData", "show"]
