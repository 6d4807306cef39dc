"""The partition explorer: drag the number of parts, and see what becomes central, marginal and halo.

``ExplorerModel`` is the explorer without a screen; ``PartitionExplorer`` puts controls and figures round it.
"""

from __future__ import annotations

import html
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.sources import load
from gnnqlab.lab.figures.bundle import Bundle, left_by, table_html
from gnnqlab.lab.figures.controls import WIDTH, make_access, shows_static
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.players.partition_views import draw_shares, draw_sharing, share_table
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.edge_cut import METIS, Random
from gnnqlab.partition.hep import HEP
from gnnqlab.partition.parts import Parts, partition
from gnnqlab.partition.streamed import RandomEdges

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.given import GraphLike

__all__ = ["PARTITIONERS", "ExplorerModel", "PartitionExplorer"]

PARTITIONERS = {"METIS": METIS, "random": Random, "EBV": EBV, "HEP": HEP, "random edges": RandomEdges}
"""What can be chosen, by its name on the screen."""
_TOOLTIPS = {
    "METIS": "shares nodes out: few cut edges, parts of one size",
    "random": "shares nodes out: every node's owner at random",
    "EBV": "shares edges out: each where it costs fewest copies, parts of one size",
    "HEP": "shares edges out: parts that grow from seeds",
    "random edges": "shares edges out: every edge's worker at random",
}
_MOST_PARTS = 16
_HOSTS = (1, 2, 4)


class ExplorerModel:
    """A graph, a partitioner, a number of parts and of hosts that share them; what was looked at is kept as costs.

    Example:
        >>> import gnnqlab as gq
        >>> model = ExplorerModel(gq.load("sbm:60,3,6"), partitioner="random", parts=4)
        >>> model.parts.workers, model.table.index.tolist()
        (4, [1, 2, 4, 8, 16])
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        partitioner: str = "METIS",
        parts: int = 4,
        most_parts: int = _MOST_PARTS,
        hosts: int = 1,
    ) -> None:
        self.graph = load(graph)
        if self.graph.num_nodes < 2:
            raise ValueError(f"a graph that is cut has at least 2 nodes, got {self.graph.num_nodes}")
        self.most_parts = max(min(most_parts, self.graph.num_nodes), 2)
        """The largest number of parts that can be chosen."""
        self._lines: dict[tuple[str, int, int], DataFrame] = {}
        self._metis_is_missing: str | None = None
        self.partitioner, self.number, self.hosts = partitioner, parts, hosts
        self.choose()

    @property
    def known(self) -> tuple[str, ...]:
        """Partitioners that work here."""
        return tuple(name for name in PARTITIONERS if name != "METIS" or self._metis_is_missing is None)

    @property
    def note(self) -> str:
        """Why a partitioner cannot be chosen, or nothing."""
        return self._metis_is_missing or ""

    def choose(self, *, partitioner: str | None = None, parts: int | None = None, hosts: int | None = None) -> None:
        """Cut the graph another way.

        Without DGL and pymetis there is no METIS: then the cut is random, and ``note`` says why.

        Raises:
            ValueError: if there is no such partitioner, the number of parts is out of range, or the hosts do not share
                the parts evenly.
        """
        name = self.partitioner if partitioner is None else partitioner
        number = self.number if parts is None else parts
        shared = self.hosts if hosts is None else hosts
        if name not in PARTITIONERS:
            raise ValueError(f"partitioner must be one of {tuple(PARTITIONERS)}, got {name!r}")
        if not 1 <= number <= self.most_parts:
            raise ValueError(f"parts must lie in [1, {self.most_parts}] for this graph, got {number}")
        if shared < 1 or number % shared:
            raise ValueError(f"parts must be a multiple of the hosts, got {number} part(s) on {shared} host(s)")
        try:
            cut = self._cut(name, number, shared)
        except RuntimeError as error:
            self._metis_is_missing, name = str(error), "random"
            cut = self._cut(name, number, shared)
        self.partitioner, self.number, self.hosts = name, number, shared
        self.parts = cut
        """The graph as it is cut now: the very partition that a run would train on."""

    @property
    def table(self) -> DataFrame:
        """`share_table` of this partitioner for 1, 2, 4, 8 … parts that the hosts share, and the chosen number."""
        return self._table(self.partitioner)

    @property
    def code(self) -> str:
        """The line of Python that cuts the graph this way."""
        hosts = f", hosts={self.hosts}" if self.hosts > 1 else ""
        return f"gq.partition(graph, gq.{PARTITIONERS[self.partitioner].__name__}(), workers={self.number}{hosts})"

    def sharing(self, *, dark: bool = False) -> Bundle:
        """This partition: rows by kind, rows by pair."""
        return draw_sharing(self.parts, dark=dark)

    def shares(self, *, dark: bool = False) -> Bundle:
        """Every partitioner that works here, by number of parts."""
        return draw_shares({name: self._table(name) for name in self.known}, parts=self.number, dark=dark)

    def _table(self, name: str) -> DataFrame:
        import pandas as pd

        powers = (2**power for power in range(11) if 2**power <= self.most_parts)
        keys = [(name, number, self.hosts) for number in sorted({*powers, self.number}) if number % self.hosts == 0]
        for key in keys:
            if key not in self._lines:
                self._lines[key] = share_table([self._cut(*key)])
        return pd.concat([self._lines[key] for key in keys])

    def _cut(self, name: str, number: int, hosts: int) -> Parts:
        return partition(self.graph, PARTITIONERS[name](), workers=number, hosts=hosts)


class PartitionExplorer:
    """Drag the number of parts and see what a cut costs: kinds of nodes, rows by pair, remote neighbours.

    At the end of a notebook cell it shows the explorer; where no kernel runs, the partition as a figure.

    Args:
        graph: any graph, as ``gnnqlab.load`` takes it.
        partitioner: one of ``PARTITIONERS``: of nodes ``METIS`` or ``random``, of edges ``EBV``, ``HEP`` or ``random
            edges``.
        parts: how many to start with.
        most_parts: right end of the slider.
        hosts: that share the parts evenly; rows between them are told apart, and EBV cuts for them.

    Raises:
        ValueError: if a choice is out of range.
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        partitioner: str = "METIS",
        parts: int = 4,
        most_parts: int = _MOST_PARTS,
        hosts: int = 1,
    ) -> None:
        self.model = ExplorerModel(graph, partitioner=partitioner, parts=parts, most_parts=most_parts, hosts=hosts)

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
    def widget(self) -> Any:
        """The explorer as an ipywidgets box."""
        return _CutControls(self.model).box

    def __repr__(self) -> str:
        model = self.model
        return f"PartitionExplorer({model.graph.name}, {model.partitioner}, parts={model.number})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            return self.model.sharing()._repr_mimebundle_()
        return left_by(self.widget, repr(self), self.model.sharing)


class _CutControls:
    """Controls round a model; every change redraws in one place."""

    def __init__(self, model: ExplorerModel) -> None:
        import ipywidgets as widgets

        self.model = model
        wide = {"width": "420px", "max_width": "100%"}
        self.number = widgets.IntSlider(
            model.number, 1, model.most_parts, description="Parts", layout=wide,
            tooltip=f"Workers that share the graph, 1 to {model.most_parts}; one part each", continuous_update=False,
        )  # fmt: skip
        self.box_number = widgets.BoundedIntText(
            model.number, 1, model.most_parts, description="Parts, exactly", layout={"width": "180px"},
            style={"description_width": "100px"}, tooltip="The same number, typed",
        )  # fmt: skip
        self.partitioner = widgets.ToggleButtons(
            options=model.known, value=model.partitioner, description="Cut by",
            tooltips=[_TOOLTIPS[name] for name in model.known],
        )  # fmt: skip
        self.hosts = widgets.ToggleButtons(
            options=[count for count in _HOSTS if count <= model.most_parts or count == model.hosts], value=model.hosts,
            description="Hosts", tooltips=[f"{count} host(s) share the parts evenly" for count in _HOSTS],
            style={"button_width": "3em"},
        )  # fmt: skip
        self._fit(model.hosts)
        self.words, self.table = widgets.HTML(), widgets.HTML()
        self.sharing, self.shares = FigureView(width=WIDTH), FigureView(width=WIDTH)
        self.access = make_access()
        self.number.observe(self._changed, names="value")
        self.box_number.observe(self._typed, names="value")
        self.hosts.observe(self._changed_hosts, names="value")
        self.partitioner.observe(self._changed, names="value")
        self.access.observe(lambda change: self._draw(), names="dark")
        controls = widgets.HBox(
            [self.number, self.box_number, self.hosts, self.partitioner], layout={"flex_flow": "row wrap"}
        )
        scrolling = widgets.Box([self.table], layout={"max_height": "220px", "overflow": "auto"})
        self.box = widgets.VBox([controls, self.words, self.sharing.widget, self.shares.widget, scrolling, self.access])
        self._draw()

    def _changed(self, change: Any) -> None:
        self.box_number.value = self.number.value
        self.model.choose(partitioner=self.partitioner.value, parts=self.number.value, hosts=self.hosts.value)
        self._draw()

    def _typed(self, change: Any) -> None:
        number = self._shared(self.box_number.value, self.hosts.value)
        self.number.value = self.box_number.value = number

    def _changed_hosts(self, change: Any) -> None:
        before = self.number.value
        self._fit(self.hosts.value)
        if self.number.value == before:
            self._changed(change)

    def _fit(self, hosts: int) -> None:
        """Let only numbers of parts be chosen that the hosts share evenly."""
        number = self._shared(self.number.value, hosts)
        for control in (self.number, self.box_number):
            control.min, control.max = 1, self.model.most_parts  # so that no bound moves a value
            control.value = number
            control.min, control.max, control.step = hosts, self._most(hosts), hosts

    def _most(self, hosts: int) -> int:
        return self.model.most_parts - self.model.most_parts % hosts

    def _shared(self, number: int, hosts: int) -> int:
        """Return the next number of parts from here on that the hosts share evenly."""
        return min(max(hosts, -(-number // hosts) * hosts), self._most(hosts))

    def _draw(self) -> None:
        dark = self.access.dark
        sharing, shares = self.model.sharing(dark=dark), self.model.shares(dark=dark)
        caption = " ".join(filter(None, [sharing.figure.layout.meta["caption"], self.model.note]))
        self.words.value = (
            f'<p role="status" style="max-width:70em;line-height:1.5">{html.escape(caption)}<br>'
            f"<code>{html.escape(self.model.code)}</code></p>"
        )
        self.table.value = table_html(self.model.table, caption=f"{self.model.partitioner}, by number of parts")
        self.sharing.show(sharing.figure)
        self.shares.show(shares.figure)
