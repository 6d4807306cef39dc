"""The partition explorer: drag the number of parts, and see what becomes central, marginal and halo.

``ExplorerModel`` is the explorer without a screen; ``PartitionExplorer`` puts controls and figures round it. A refused
number says its rule and marks its box, and changes nothing.
"""

from __future__ import annotations

import html
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gnnqlab.course.players.cut_model import MOST_PARTS, PARTITIONERS, ExplorerModel
from gnnqlab.lab.figures.bundle import fallback_for, table_html
from gnnqlab.lab.figures.controls import BESIDE, KNOBS, MARK, TABLE, WIDTH, alert, make_access, shows_static, tipped
from gnnqlab.lab.figures.figure_view import FigureView

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.course.players.cut_model import ExplorerModel
    from gnnqlab.graph.convert.given import GraphLike
    from gnnqlab.partition.parts import Parts

__all__ = ["CutControls", "PARTITIONERS", "ExplorerModel", "PartitionExplorer"]

_TOOLTIPS = {
    "METIS": "shares nodes out: few cut edges, parts of one size",
    "random": "shares nodes out: every node's owner at random",
    "EBV": "shares edges out: each where it costs fewest copies, parts of one size",
    "HEP": "shares edges out: parts that grow from seeds",
    "random edges": "shares edges out: every edge's worker at random",
}
_SHOWS = {
    "owner": "whose each node is, strong colours where it waits for others",
    "halo": "on how many other workers a copy lies; with a receiver, what that one holds",
    "bits": "in how many bits a row goes out",
    "error": "squared error of a row of features once it is decoded",
}
_HOSTS = (1, 2, 4)
_EVERYBODY = "all"


class CutControls:
    """Controls round a model; every change redraws in one place."""

    def __init__(self, model: ExplorerModel) -> None:
        import ipywidgets as widgets

        self.model = model
        self._quiet = False
        label = {"description_width": "72px"}
        self.number = widgets.IntSlider(
            model.number, 1, model.most_parts, description="Parts", continuous_update=False, readout=False, style=label,
            layout={"width": "320px", "max_width": "100%"},
            tooltip=f"Workers that share the graph, 1 to {model.most_parts}; one part each",
        )  # fmt: skip
        # The description is there for screen readers; the slider beside it shows the same word.
        self.box_number = widgets.IntText(
            model.number, description="Parts, exactly", layout={"width": "84px"}, style={"description_width": "0px"},
            tooltip=f"The same number, typed: 1 to {model.most_parts}",
        )  # fmt: skip
        self.partitioner = widgets.ToggleButtons(
            options=model.known, value=model.partitioner, description="Cut by",
            layout=BESIDE,
            style={**label, "button_width": "auto"}, tooltips=[_TOOLTIPS[name] for name in model.known],
        )  # fmt: skip
        self.hosts = widgets.ToggleButtons(
            options=[count for count in _HOSTS if count <= model.most_parts or count == model.hosts], value=model.hosts,
            description="Hosts", tooltips=[f"{count} host(s) share the parts evenly" for count in _HOSTS],
            layout=BESIDE, style={**label, "button_width": "3em"},
        )  # fmt: skip
        self.show = widgets.ToggleButtons(
            options=model.views, value=model.show, description="Show", layout=BESIDE,
            style={**label, "button_width": "5em"}, tooltips=[_SHOWS[view] for view in model.views],
        )  # fmt: skip
        wide = {"width": "170px"}
        self.sender = widgets.Dropdown(
            description="Rows from", layout=wide, style=label, tooltip="Worker whose rows stand out"
        )
        self.receiver = widgets.Dropdown(
            description="to", layout={"width": "130px"}, style={"description_width": "24px"},
            tooltip="Worker that gets them; alone, and with halo, whose share of the graph is drawn",
        )  # fmt: skip
        self.around = widgets.IntText(
            model.around or 0, description="Around", layout=dict(wide), style=label,
            tooltip="Node round which a large graph is drawn",
        )  # fmt: skip
        if model.around is None:
            self.around.layout.display = "none"
        self._fit(model.hosts)
        self.words, self.refused, self.said, self.table = (widgets.HTML() for _ in range(4))
        self.table.add_class(TABLE)
        self.sharing, self.map, self.shares = (FigureView(width=WIDTH) for _ in range(3))
        self.access = make_access()
        self._marked = widgets.HBox([self.number, self.box_number], layout={"border": "2px solid transparent"})
        drawn = [self.show, tipped(self.sender), tipped(self.receiver), self.around]
        rows = [[self._marked, self.hosts], [self.partitioner], drawn]
        above, below, seen = (widgets.HBox(row, layout=KNOBS) for row in rows)
        scrolling = widgets.Box([self.table], layout={"max_height": "220px", "overflow": "auto"})
        self.box = widgets.VBox(
            [
                above, self.refused, below, self.words, self.sharing.widget, seen, self.said, self.map.widget,
                self.shares.widget, scrolling, self.access,
            ]
        )  # fmt: skip
        self.number.observe(self._changed, names="value")
        self.box_number.observe(self._typed, names="value")
        self.hosts.observe(self._changed_hosts, names="value")
        self.partitioner.observe(self._changed, names="value")
        for control in (self.show, self.sender, self.receiver, self.around):
            control.observe(self._looked, names="value")
        self.sharing.on_click(self._clicked)
        self.access.observe(lambda change: self._draw(), names="dark")
        self._draw()

    def _changed(self, change: Any) -> None:
        if self._quiet:
            return
        self._refuse("")
        self._show_number(self.number.value)
        self.model.choose(partitioner=self.partitioner.value, parts=self.number.value, hosts=self.hosts.value)
        self._draw()

    def _typed(self, change: Any) -> None:
        if self._quiet:
            return
        try:
            self.model.choose(parts=self.box_number.value)
        except ValueError as error:
            return self._refuse(str(error))
        self._refuse("")
        self._show_number(self.box_number.value)
        self._draw()

    def _changed_hosts(self, change: Any) -> None:
        before = self.number.value
        self._fit(self.hosts.value)
        if self.number.value == before:
            self._changed(change)

    def _fit(self, hosts: int) -> None:
        """Let only numbers of parts be chosen that the hosts share evenly."""
        most = self.model.most_parts - self.model.most_parts % hosts
        number = min(max(hosts, -(-self.number.value // hosts) * hosts), most)
        self.number.min, self.number.max = 1, self.model.most_parts  # so that no bound moves a value
        self.number.value = number
        self.number.min, self.number.max, self.number.step = hosts, most, hosts

    def _show_number(self, number: int) -> None:
        """Stand at a number of parts, without telling anybody."""
        self._quiet = True
        try:
            self.number.value = self.box_number.value = number
        finally:
            self._quiet = False

    def _refuse(self, reason: str) -> None:
        """Say why the typed number was refused, and mark its box; nothing clears it."""
        self.refused.value = alert(reason)
        self._marked.layout.border = f"2px solid {MARK}" if reason else "2px solid transparent"

    def _looked(self, change: Any) -> None:
        if not self._quiet:
            self._look(self.show.value, self.sender.value, self.receiver.value)

    def _clicked(self, trace: int, x: Any, y: Any) -> None:
        """A cell of the heat map is chosen, or given up by a second click; bars are no cells."""
        if self.sharing.data[trace]["type"] != "heatmap":
            return
        pair = (int(y), int(x))
        chosen = (None, None) if (self.sender.value, self.receiver.value) == pair else pair
        self._look(self.show.value, *chosen)

    def _look(self, show: str, sender: int | None, receiver: int | None) -> None:
        around = None if self.model.around is None else self.around.value
        try:
            self.model.look(show, sender=sender, receiver=receiver, around=around)
        except ValueError as error:
            self.said.value = alert(str(error))
            return
        self._draw_map()

    def _stand(self) -> None:
        """Let what is asked of the drawn graph be chosen of what this cut has."""
        model = self.model
        workers = [(_EVERYBODY, None), *((f"worker {rank}", rank) for rank in range(model.number))]
        self._quiet = True
        try:
            for control, value in ((self.sender, model.sender), (self.receiver, model.receiver)):
                if len(control.options) != len(workers):
                    control.options = workers
                control.value = value
            if tuple(self.show.options) != model.views:
                self.show.options = model.views
                self.show.tooltips = [_SHOWS[view] for view in model.views]
            self.show.value = model.show
        finally:
            self._quiet = False

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
        self._draw_map()

    def _draw_map(self) -> None:
        model = self.model
        self._stand()
        bundle = model.map(dark=self.access.dark)
        told = [bundle.figure.layout.meta["caption"]]
        whole_shard = model.show == "halo" and model.receiver is not None
        if (model.sender is None) != (model.receiver is None) and not whole_shard:
            told.append("Choose sender and receiver, or a cell of the heat map, to see the rows that travel.")
        if len(model.views) == 2:
            told.append("Bits and errors are drawn of cuts of nodes.")
        self.said.value = (
            f'<p role="status" style="max-width:70em;line-height:1.5">{html.escape(" ".join(told))} '
            "Rest on a node to read what it waits for; click a cell of the heat map for the rows of that pair.</p>"
        )
        self.map.show(bundle.figure)


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
        return fallback_for(self.widget, repr(self), self.model.sharing, figure=self._controls.map.widget)
