"""Partition explorer: change the number of parts, and see the central, marginal and halo nodes.

``ExplorerModel`` is the state of the explorer; ``PartitionExplorer`` adds controls and figures. An invalid number has
no effect; its box is marked, with the error next to it.
"""

from __future__ import annotations

import html
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.course.players.cut_model import MAX_PARTS, PARTITIONERS, ExplorerModel
from gnnqlab.lab.figures.bundle import FigureData, caption_of, fallback_for, table_html
from gnnqlab.lab.figures.controls import (
    KNOBS,
    LABEL_LEFT,
    MARK,
    PAGE,
    SAID,
    TABLE,
    alert,
    make_access,
    row_with_tip,
    shows_static,
)
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.light.choice_page import Choice, PageStep, write_choice_page

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.course.players.cut_model import ExplorerModel
    from gnnqlab.graph.convert.given import GraphLike
    from gnnqlab.partition.parts import Parts

__all__ = ["CutControls", "PARTITIONERS", "ExplorerModel", "PartitionExplorer"]

_TOOLTIPS = {
    "METIS": "edge-cut: few cut edges, balanced parts",
    "random": "edge-cut: every node to a random worker",
    "EBV": "vertex-cut: every edge where it needs the fewest copies, balanced parts",
    "HEP": "vertex-cut: parts that grow from seed nodes",
    "random edges": "vertex-cut: every edge to a random worker",
}
_SHOWS = {
    "owner": "owner of each node; marginal nodes in strong colours",
    "halo": "number of workers with a copy; with a receiver, the shard of that worker",
    "bits": "bit-width in which each row is sent",
    "error": "squared error of each decoded feature row",
}
# Offered numbers of hosts.
_HOSTS = (1, 2, 4)
# Numbers of parts on an exported page.
_PAGE_PARTS = (2, 4, 8)
# Label of the choice without a worker.
_ALL = "all"


class CutControls:
    """Controls of a model; every change redraws in one place."""

    def __init__(self, model: ExplorerModel) -> None:
        import ipywidgets as widgets

        self.model = model
        self._quiet = False  # True while values are set by code, not by the user
        label = {"description_width": "72px"}
        self.number = widgets.IntSlider(
            model.number, 1, model.most_parts, description="Parts", continuous_update=False, readout=False, style=label,
            layout={"width": "320px", "max_width": "100%"},
            tooltip=f"Number of workers, 1 to {model.most_parts}; one part each",
        )  # fmt: skip
        # The description is for screen readers only; the slider next to it shows the word.
        self.box_number = widgets.IntText(
            model.number, description="Parts, exactly", layout={"width": "84px"}, style={"description_width": "0px"},
            tooltip=f"Number of workers as text: 1 to {model.most_parts}",
        )  # fmt: skip
        self.partitioner = widgets.ToggleButtons(
            options=model.available_partitioners, value=model.partitioner, description="Cut by",
            layout=LABEL_LEFT,
            style={**label, "button_width": "auto"},
            tooltips=[_TOOLTIPS[name] for name in model.available_partitioners],
        )  # fmt: skip
        self.hosts = widgets.ToggleButtons(
            options=[count for count in _HOSTS if count <= model.most_parts or count == model.hosts], value=model.hosts,
            description="Hosts", tooltips=[f"{count} host(s) share the parts evenly" for count in _HOSTS],
            layout=LABEL_LEFT, style={**label, "button_width": "3em"},
        )  # fmt: skip
        self.show = widgets.ToggleButtons(
            options=model.views, value=model.show, description="Show", layout=LABEL_LEFT,
            style={**label, "button_width": "5em"}, tooltips=[_SHOWS[view] for view in model.views],
        )  # fmt: skip
        wide_layout = {"width": "170px"}
        self.sender = widgets.Dropdown(
            description="Rows from", layout=wide_layout, style=label, tooltip="Worker that sends the highlighted rows"
        )
        self.receiver = widgets.Dropdown(
            description="to", layout={"width": "130px"}, style={"description_width": "24px"},
            tooltip="Worker that receives them; in the view halo without a sender, the worker whose shard is drawn",
        )  # fmt: skip
        self.around = widgets.IntText(
            model.around or 0, description="Around", layout=dict(wide_layout), style=label,
            tooltip="Node whose neighbourhood is drawn, in a large graph",
        )  # fmt: skip
        if model.around is None:
            self.around.layout.display = "none"  # not needed for a small graph
        self._limit_slider(model.hosts)  # before observers exist, so that nothing is redrawn
        self.words, self.error_text, self.map_text, self.table = (widgets.HTML() for _ in range(4))
        self.table.add_class(TABLE)
        for words in (self.words, self.map_text):
            words.add_class(SAID)
        self.sharing, self.map, self.shares = (FigureView(width=PAGE) for _ in range(3))
        self.access = make_access()
        self._marked = widgets.HBox([self.number, self.box_number], layout={"border": "2px solid transparent"})
        view_knobs = [self.show, row_with_tip(self.sender), row_with_tip(self.receiver), self.around]
        rows = [[self._marked, self.hosts], [self.partitioner], view_knobs]
        size_box, cut_box, view_box = (widgets.HBox(row, layout=KNOBS) for row in rows)
        table_box = widgets.Box([self.table], layout={"max_height": "220px", "overflow": "auto"})
        self.box = widgets.VBox(
            [
                size_box, self.error_text, cut_box, self.words, self.sharing.widget, view_box, self.map_text,
                self.map.widget, self.shares.widget, table_box, self.access,
            ]
        )  # fmt: skip
        self.number.observe(self._on_change, names="value")
        self.box_number.observe(self._on_number_typed, names="value")
        self.hosts.observe(self._on_hosts_change, names="value")
        self.partitioner.observe(self._on_change, names="value")
        for control in (self.show, self.sender, self.receiver, self.around):
            control.observe(self._on_view_change, names="value")
        self.sharing.on_click(self._on_click)
        self.access.observe(lambda change: self._draw(), names="dark")  # redraw for a dark or light page
        self._draw()

    def _on_change(self, change: Any) -> None:
        # A change that this class made itself is drawn by its caller.
        if self._quiet:
            return
        self._show_error("")
        self._show_number(self.number.value)
        self.model.choose(partitioner=self.partitioner.value, parts=self.number.value, hosts=self.hosts.value)
        self._draw()

    def _on_number_typed(self, change: Any) -> None:
        if self._quiet:
            return
        try:
            self.model.choose(parts=self.box_number.value)
        except ValueError as error:
            return self._show_error(str(error))
        self._show_error("")
        self._show_number(self.box_number.value)
        self._draw()

    def _on_hosts_change(self, change: Any) -> None:
        number = self.number.value
        self._limit_slider(self.hosts.value)
        if self.number.value == number:  # otherwise the slider's observer redraws
            self._on_change(change)

    def _limit_slider(self, hosts: int) -> None:
        """Restrict the slider to multiples of the number of hosts."""
        max_parts = self.model.most_parts - self.model.most_parts % hosts
        # next multiple of the hosts, within the limits
        number = min(max(hosts, -(-self.number.value // hosts) * hosts), max_parts)
        self.number.min, self.number.max = 1, self.model.most_parts  # wide bounds first: a bound would clamp the value
        self.number.value = number
        self.number.min, self.number.max, self.number.step = hosts, max_parts, hosts

    def _show_number(self, number: int) -> None:
        """Set slider and box to a number of parts without triggering their observers."""
        self._quiet = True
        try:
            self.number.value = self.box_number.value = number
        finally:
            self._quiet = False

    def _show_error(self, reason: str) -> None:
        """Display the reason that the typed number is invalid and mark its box; an empty reason clears both."""
        self.error_text.value = alert(reason)
        self._marked.layout.border = f"2px solid {MARK}" if reason else "2px solid transparent"

    def _on_view_change(self, change: Any) -> None:
        if not self._quiet:
            self._set_view(self.show.value, self.sender.value, self.receiver.value)

    def _on_click(self, trace: int, x: Any, y: Any) -> None:
        """Select the pair of the clicked cell of the heat map, or deselect it; ignore clicks on bars."""
        if self.sharing.data[trace]["type"] != "heatmap":
            return
        pair = (int(y), int(x))  # lines are senders, columns receivers
        # a second click deselects
        chosen_pair = (None, None) if (self.sender.value, self.receiver.value) == pair else pair
        self._set_view(self.show.value, *chosen_pair)

    def _set_view(self, show: str, sender: int | None, receiver: int | None) -> None:
        centre = None if self.model.around is None else self.around.value
        # An invalid node or pair leaves the map as it is.
        try:
            self.model.set_view(show, sender=sender, receiver=receiver, around=centre)
        except ValueError as error:
            self.map_text.value = alert(str(error))
            return
        self._draw_map()

    def _update_choices(self) -> None:
        """Offer the workers and views of the current partition in the controls of the map."""
        model = self.model
        workers = [(_ALL, None), *((f"worker {rank}", rank) for rank in range(model.number))]
        # Setting options triggers observers, so they are switched off meanwhile.
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
        sharing_data, shares_data = self.model.sharing(dark=dark), self.model.shares(dark=dark)
        caption = " ".join(filter(None, [sharing_data.figure.layout.meta["caption"], self.model.note]))
        self.words.value = (
            f'<p role="status" style="max-width:70em;line-height:1.5">{html.escape(caption)}<br>'
            f"<code>{html.escape(self.model.code)}</code></p>"
        )
        self.table.value = table_html(self.model.table, caption=f"{self.model.partitioner}, by number of parts")
        self.sharing.show(sharing_data.figure)
        self.shares.show(shares_data.figure)
        self._draw_map()

    def _draw_map(self) -> None:
        model = self.model
        self._update_choices()
        bundle = model.map(dark=self.access.dark)
        sentences = [bundle.figure.layout.meta["caption"]]
        whole_shard = model.show == "halo" and model.receiver is not None  # the receiver's shard needs no sender
        if (model.sender is None) != (model.receiver is None) and not whole_shard:
            sentences.append("Choose sender and receiver, or a cell of the heat map, to see the rows that are sent.")
        if len(model.views) == 2:
            sentences.append("Bit-widths and errors can be drawn for edge-cuts only.")
        self.map_text.value = (
            f'<p role="status" style="max-width:70em;line-height:1.5">{html.escape(" ".join(sentences))} '
            "Hover over a node to see which rows it needs; click a cell of the heat map for the rows of that pair.</p>"
        )
        self.map.show(bundle.figure)


class PartitionExplorer:
    """Interactive explorer of partitions and their costs: kinds of nodes, rows by pair of workers, a map of the graph.

    The map shows the owner of each node, copies, or the bit-width or error of each row, and the rows that a node needs
    under the mouse pointer; a click on a cell of the heat map shows the rows of that pair. At the end of a notebook
    cell it shows the explorer; without a kernel, the map.

    Args:
        graph: any graph that ``gnnqlab.load`` accepts.
        partitioner: one of ``PARTITIONERS``: ``METIS`` or ``random`` (edge-cuts), ``EBV``, ``HEP`` or ``random edges``
            (vertex-cuts).
        parts: initial number of parts.
        most_parts: largest number of parts on the slider.
        hosts: number of hosts, with equally many parts each; rows between hosts are counted separately, and EBV
            minimizes copies on other hosts.
        bits: policy of the drawn bit-widths, in the first exchange of epoch 0; by default 2, 4 or 8 bits at random.

    Raises:
        ValueError: if a setting is out of range.
    """

    def __init__(
        self,
        graph: GraphLike,
        *,
        partitioner: str = "METIS",
        parts: int = 4,
        most_parts: int = MAX_PARTS,
        hosts: int = 1,
        bits: BitPolicy | None = None,
    ) -> None:
        self.model = ExplorerModel(
            graph, partitioner=partitioner, parts=parts, most_parts=most_parts, hosts=hosts, bits=bits
        )

    @property
    def parts(self) -> Parts:
        """Partition shown."""
        return self.model.parts

    @property
    def table(self) -> DataFrame:
        """Costs of the chosen partitioner by number of parts, see `share_table`."""
        return self.model.table

    def to_code(self) -> str:
        """Return the line of Python that makes the partition shown."""
        return self.model.code

    def export(self, path: str | Path) -> Path:
        """Write a page that explores partitions without a kernel or a network, by mouse, touch or keyboard.

        It has all partitioners of this machine, 2, 4 and 8 parts, and the views ``owner`` and ``halo``.

        Args:
            path: the file to write, ``.html``.

        Returns:
            The written path.

        Raises:
            ValueError: if the file name does not end in ``.html`` or ``.htm``.
        """
        shown = self.model
        names, views = shown.available_partitioners, ("owner", "halo")
        numbers = [each for each in _PAGE_PARTS if each <= shown.most_parts]

        def steps(name: int, number: int, view: int) -> list[PageStep]:
            model = ExplorerModel(
                shown.graph,
                partitioner=names[name],
                parts=numbers[number],
                most_parts=shown.most_parts,
                bits=shown.bits,
            )
            model.set_view(views[view])
            words = html.escape(caption_of(model.sharing().figure))

            def draw_sharing(dark: bool) -> FigureData:
                return model.sharing(dark=dark)

            def draw_map(dark: bool) -> FigureData:
                return model.map(dark=dark)

            code = f"<br><code>{html.escape(model.code)}</code>"
            return [PageStep.from_drawings(draw_map, draw_sharing, words=words + code)]

        choices = [
            Choice(label="Cut by", options=list(names), first=names.index(shown.partitioner)),
            Choice(label="Parts", options=[str(number) for number in numbers], first=min(1, len(numbers) - 1)),
            Choice(label="Show", options=list(views)),
        ]
        title = f"Partitions of {shown.graph.name}: {shown.graph.num_nodes:,} nodes"
        return write_choice_page(path, title=title, choices=choices, steps=steps)

    @cached_property
    def _controls(self) -> CutControls:
        return CutControls(self.model)

    @property
    def widget(self) -> Any:
        """Explorer as an ipywidgets box."""
        return self._controls.box

    def __repr__(self) -> str:
        model = self.model
        return f"PartitionExplorer({model.graph.name}, {model.partitioner}, parts={model.number})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if shows_static():
            return self.model.map()._repr_mimebundle_()
        return fallback_for(self.widget, repr(self), self.model.sharing, figure=self._controls.map.widget)
