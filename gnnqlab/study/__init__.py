"""Studies: a grid of systems, graphs, models and seeds, trained one after another, with results in one table.

The claims of the papers are studies too: :func:`load_claims` lists them, and :func:`reproduce` runs one.
"""

from gnnqlab.study.cells import Case, Cell, Contestant
from gnnqlab.study.claims import Claim, claims_frame, find_claim, load_claims
from gnnqlab.study.reproduction import Reproduction, reproduce
from gnnqlab.study.result import RunResult
from gnnqlab.study.study import Study

__all__ = [
    "Case", "Cell", "Claim", "Contestant", "Reproduction", "RunResult", "Study", "claims_frame", "find_claim",
    "load_claims", "reproduce",
]  # fmt: skip
