"""Figures, comparisons and reports of training runs."""

from gnnqlab.lab.bundle import Bundle, show
from gnnqlab.lab.compare import Comparison, compare
from gnnqlab.lab.plots import breakdown, convergence, traffic_map, volume
from gnnqlab.lab.report import write_report

__all__ = [
    "Bundle", "show",
    "Comparison", "compare",
    "breakdown", "convergence", "traffic_map", "volume",
    "write_report",
]  # fmt: skip
