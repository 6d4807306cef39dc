"""The partition explorer: drag the number of parts, and see what becomes central, marginal and halo.

``ExplorerModel`` is the explorer without a screen; ``PartitionExplorer`` puts controls and figures round it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.course.players.cut_controls import CutControls
from gnnqlab.course.players.cut_model import MOST_PARTS, PARTITIONERS, ExplorerModel
from gnnqlab.lab.figures.bundle import left_by
from gnnqlab.lab.figures.controls import shows_static

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.graph.given import GraphLike
    from gnnqlab.partition.parts import Parts

__all__ = ["PARTITIONERS", "ExplorerModel", "PartitionExplorer"]


class PartitionExplorer:
    """Drag the number of parts and see what a cut costs: kinds of nodes, rows by pair, the graph drawn as it is cut.

    The drawn graph says whose each node is, where copies lie, the bits of each row or its error, and where the pointer
    rests what a node waits for; a click on a cell of the heat map shows the rows of that pair. At the end of a notebook
    cell it shows the explorer; where no kernel runs, the drawn graph.

    Args:
        graph: any graph, as ``gnnqlab.load`` takes it.
        partitioner: one of ``PARTITIONERS``: of nodes ``METIS`` or ``random``, of edges ``EBV``, ``HEP`` or ``random
            edges``.
        parts: how many to start with.
        most_parts: right end of the slider.
        hosts: that share the parts evenly; rows between them are told apart, and EBV cuts for them.
        bits: who chooses the widths that are drawn, in the first exchange of epoch 0; 2, 4 or 8 bits at random by
            default.

    Raises:
        ValueError: if a choice is out of range.
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        partitioner: str = "METIS",
        parts: int = 4,
        most_parts: int = MOST_PARTS,
        hosts: int = 1,
        bits: BitPolicy | None = None,
    ) -> None:
        self.model = ExplorerModel(
            graph, partitioner=partitioner, parts=parts, most_parts=most_parts, hosts=hosts, bits=bits
        )

    @property
    def parts(self) -> Parts:
        """The partition that is shown."""
        return self.model.parts

    @property
    def table(self) -> DataFrame:
        """Shares by number of parts, of the chosen partitioner."""
        return self.model.table

    def to_code(self) -> str:
        """The line of Python that cuts the graph as it is shown."""
        return self.model.code

    @cached_property
    def _controls(self) -> CutControls:
        return CutControls(self.model)

    @property
    def widget(self) -> Any:
        """The explorer as an ipywidgets box."""
        return self._controls.box

    def __repr__(self) -> str:
        model = self.model
        return f"PartitionExplorer({model.graph.name}, {model.partitioner}, parts={model.number})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            return self.model.map()._repr_mimebundle_()
        return left_by(self.widget, repr(self), self.model.sharing, figure=self._controls.map.widget)
