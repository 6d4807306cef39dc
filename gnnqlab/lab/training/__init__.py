"""Views of training runs: live, compared with each other, and as a report."""

from gnnqlab.lab.training.compare import Comparison, compare
from gnnqlab.lab.training.plots import breakdown, convergence, traffic_map, volume
from gnnqlab.lab.training.report import write_report

__all__ = [
    "Comparison", "compare",
    "breakdown", "convergence", "traffic_map", "volume",
    "write_report",
]  # fmt: skip
