"""What all figures share: their theme and tables, small graphs drawn, and figures that stay visible and follow."""

from gnnqlab.lab.figures.bundle import Bundle, show

__all__ = ["Bundle", "show"]
