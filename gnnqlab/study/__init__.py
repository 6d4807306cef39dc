"""Studies: a grid of systems, graphs, models and seeds, trained one after another, with results in one table."""

from gnnqlab.study.cells import Case, Cell, Contestant
from gnnqlab.study.result import RunResult
from gnnqlab.study.study import Study

__all__ = ["Case", "Cell", "Contestant", "RunResult", "Study"]
