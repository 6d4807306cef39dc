"""Studies: every system on every graph with every model and seed, trained one cell after another, in one table."""

from gnnqlab.study.cells import Case, Cell, Contestant
from gnnqlab.study.result import RunResult
from gnnqlab.study.study import Study

__all__ = ["Case", "Cell", "Contestant", "RunResult", "Study"]
