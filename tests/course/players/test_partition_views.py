"""Partitions as tables and figures, and the explorer with its controls."""

import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.players import partition_explorer
from gnnqlab.course.players.partition_explorer import CutControls, ExplorerModel, PartitionExplorer
from gnnqlab.course.players.partition_views import (
    draw_pairs,
    draw_shares,
    draw_sharing,
    pair_table,
    share_table,
    worker_table,
)
from gnnqlab.lab.figures import bundle
from gnnqlab.lab.figures.controls import MARK
from gnnqlab.lab.figures.vertex_cut_drawing import draw_vertex_cut
from tests.cases import each

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")
GRAPH = gq.load("sbm:120,3,6")


@pytest.fixture
def controls(monkeypatch: pytest.MonkeyPatch):
    """Make the controls of an explorer of the graph."""
    pytest.importorskip("anywidget")
    monkeypatch.delenv("GNNQLAB_STATIC", raising=False)
    return lambda **settings: CutControls(ExplorerModel(GRAPH, partitioner="random", **settings))


@pytest.fixture(scope="module")
def halves():
    return gq.partition(course.ten_nodes(), course.Halves(), workers=2)


def test_the_tables_are_those_a_reader_counts(halves) -> None:
    assert pair_table(halves).to_numpy().tolist() == [[0, 2], [2, 0]]
    assert worker_table(halves).to_numpy().tolist() == [[3, 2, 2], [3, 2, 2]]
    line = share_table([halves]).loc[2]
    assert (line["central"], line["marginal"], line["remote ratio"]) == pytest.approx((0.6, 0.4, 0.4))
    assert line["edge cut"] == pytest.approx(6 / 44)


def test_every_row_is_held_once_or_copied() -> None:
    parts = gq.partition(GRAPH, gq.partitioners.Random(), workers=5)
    table = worker_table(parts)
    assert table["central"].sum() + table["marginal"].sum() == 120
    assert table["halo"].sum() == pair_table(parts).to_numpy().sum()
    assert table["halo"].tolist() == pair_table(parts).sum(axis=0).tolist(), "a worker copies the rows that it receives"


@each("workers", [1, 2, 12])
def test_figures_show_the_tables(workers: int) -> None:
    parts = gq.partition(GRAPH, gq.partitioners.Random(), workers=workers)
    pairs = draw_pairs(parts)
    cells = pairs.figure.data[0].z
    assert all(cells[i][i] is None for i in range(workers)), "no worker sends to itself"
    assert sum(value or 0 for line in cells for value in line) == pairs.frame.to_numpy().sum()
    sharing = draw_sharing(parts, dark=True)
    bars = {trace.name: list(trace.x) for trace in sharing.figure.data if trace.type == "bar"}
    assert bars == {kind: sharing.frame[kind].tolist() for kind in ("central", "marginal", "halo")}
    patterns = [trace.marker.pattern.shape for trace in sharing.figure.data if trace.type == "bar"]
    assert len(set(patterns)) == 3, "kinds are distinguishable without colour"


def test_shares_are_drawn_for_every_partitioner() -> None:
    table = share_table(gq.partition(GRAPH, gq.partitioners.Random(), workers=number) for number in (2, 4))
    shown = draw_shares({"random": table}, parts=4)
    marginal = next(trace for trace in shown.figure.data if trace.xaxis == "x")
    assert list(marginal.y) == pytest.approx((100 * table["marginal"]).tolist())
    with pytest.raises(ValueError, match="the table of at least one partitioner, got none"):
        draw_shares({})


def test_explorer_model_cuts_with_the_chosen_partitioner_and_parts() -> None:
    model = ExplorerModel(GRAPH, partitioner="random", parts=3)
    assert model.parts.workers == 3 and model.table.index.tolist() == [1, 2, 3, 4, 8, 16]
    assert model.code == "gq.partition(graph, gq.partitioners.Random(), workers=3)"
    model.choose(parts=5)
    assert model.parts.quality.halo_rows.shape == (5, 5) and 5 in model.table.index
    assert "5 workers" in model.sharing().figure.layout.title.text


def test_the_model_shows_the_partition_that_a_run_trains_on() -> None:
    model = ExplorerModel(GRAPH, parts=2)
    assert model.parts.owner.tolist() == gq.partition(GRAPH, gq.partitioners.METIS(), workers=2).owner.tolist()


def test_without_metis_the_cut_is_random_and_the_note_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing(gq.partitioners.METIS):
        def cut(self, graph, workers):
            raise RuntimeError("METIS needs pymetis or DGL")

    monkeypatch.setitem(partition_explorer.PARTITIONERS, "METIS", Missing)
    model = ExplorerModel(GRAPH, parts=7)
    assert (
        model.partitioner == "random"
        and "METIS" not in model.available_partitioners
        and "needs pymetis or DGL" in model.note
    )
    assert model.shares().figure.data


@each(
    ("choice", "error"),
    [
        ({"parts": 0}, r"parts must lie in \[1, 16\] for this graph, got 0"),
        ({"parts": 17}, "got 17"),
        ({"partitioner": "NE"}, r"partitioner must be one of \('METIS', 'random', .*'random edges'\), got 'NE'"),
    ],
)
def test_a_choice_out_of_range_is_refused(choice: dict[str, object], error: str) -> None:
    model = ExplorerModel(GRAPH, partitioner="random", parts=2)
    with pytest.raises(ValueError, match=error):
        model.choose(**choice)
    assert (model.partitioner, model.number) == ("random", 2), "no change"


def test_cuts_of_edges_are_drawn_too() -> None:
    model = ExplorerModel(GRAPH, partitioner="EBV", parts=4)
    bars = {trace.name: list(trace.x) for trace in model.sharing().figure.data if trace.type == "bar"}
    assert bars == {kind: rows.tolist() for kind, rows in model.parts.quality.rows_by_kind.items()}
    assert set(bars) == {"central", "marginal", "mirrors"} and sum(bars["central"]) + sum(bars["marginal"]) == 120
    assert "copied" in model.sharing().figure.layout.meta["caption"]
    names = {trace.name for trace in model.shares().figure.data}
    assert {"EBV", "HEP", "random", "random edges"} <= names
    assert model.code == "gq.partition(graph, gq.partitioners.EBV(), workers=4)"


def test_a_small_cut_of_edges_shows_masters_and_copies() -> None:
    parts = gq.partition(course.ten_nodes(), gq.partitioners.EBV(), workers=2)
    drawn = draw_vertex_cut(parts)
    nodes = [trace for trace in drawn.figure.data if trace.mode == "markers+text"]
    copied = {int(node) for trace in nodes if trace.marker.symbol == "diamond" for node in trace.text}
    assert copied == {node for node, copies in drawn.frame["copies"].items() if len(copies) > 1} != set()
    assert drawn.frame["master"].tolist() == parts.owner.tolist()
    lines = [trace for trace in drawn.figure.data if trace.mode == "lines"]
    edges = (parts.graph.num_edges - parts.graph.num_nodes) // 2
    assert sum(len(trace.x) for trace in lines) == 3 * edges
    with pytest.raises(ValueError, match="needs a vertex-cut, got an edge-cut; use draw_partition"):
        draw_vertex_cut(gq.partition(course.ten_nodes(), course.Halves(), workers=2))
    with pytest.raises(ValueError, match="for at most 4 workers, got 5"):
        draw_vertex_cut(gq.partition(course.ten_nodes(), gq.partitioners.EBV(), workers=5))


def test_a_cut_is_of_the_hosts_that_are_chosen() -> None:
    model = ExplorerModel(GRAPH, partitioner="EBV", parts=4)
    alone = model.parts
    assert "hosts" not in model.sharing().figure.layout.title.text + model.sharing().figure.layout.meta["caption"]
    assert not model.sharing().figure.layout.shapes
    model.choose(hosts=2)
    assert (
        model.parts.cut.part.tolist()
        == gq.partitioners.EBV(hosts=2).cut(GRAPH, 4).part.tolist()
        != alone.cut.part.tolist()
    )
    assert model.parts.quality.outer < alone.quality.outer + alone.quality.inner
    assert model.table.index.tolist() == [2, 4, 8, 16]
    assert model.code == "gq.partition(graph, gq.partitioners.EBV(), workers=4, hosts=2)"
    figure = model.sharing().figure
    assert figure.layout.title.text == "One graph on 4 workers of 2 hosts"
    assert f"{model.parts.quality.outer:,} of them between hosts" in figure.layout.meta["caption"]
    assert [(line.x0, line.y0) for line in figure.layout.shapes] == [(1.5, 0), (0, 1.5)], "after the second of four"
    with pytest.raises(ValueError, match=r"parts must be a multiple of the hosts, got 3 part\(s\) on 2 host\(s\)"):
        model.choose(parts=3)
    assert (model.number, model.hosts) == (4, 2), "no change"


def test_a_small_cut_shows_which_copies_are_on_several_hosts() -> None:
    parts = gq.partition(course.ten_nodes(), gq.partitioners.EBV(), hosts=2, per_host=2)
    drawn = draw_vertex_cut(parts)
    wide = {node for node, copies in drawn.frame["copies"].items() if len({worker // 2 for worker in copies}) > 1}
    squares = [trace for trace in drawn.figure.data if trace.marker.symbol == "square"]
    assert {int(node) for trace in squares for node in trace.text} == wide != set()
    assert {node for node, hosts in drawn.frame["hosts"].items() if len(hosts) > 1} == wide
    words = ", ".join(map(str, sorted(wide)))
    assert drawn.figure.layout.meta["caption"].endswith(f"On more than one of 2 hosts: {words}.")
    assert any(trace.name == "edges of worker 2, host 1" for trace in drawn.figure.data)
    alone = draw_vertex_cut(gq.partition(course.ten_nodes(), gq.partitioners.EBV(), hosts=2)).figure
    assert not any(trace.marker.symbol == "square" or "host" in trace.name for trace in alone.data), "one worker each"


def test_only_parts_that_the_hosts_share_can_be_chosen(controls) -> None:
    view = controls(parts=3, most_parts=7)
    view.hosts.value = 2
    assert (view.number.value, view.number.max, view.number.step) == (4, 6, 2)
    assert "workers=4, hosts=2" in view.words.value
    view.box_number.value = 5
    assert view.number.value == view.model.number == 4 and view.box_number.value == 5, "the typed value is refused"
    assert "parts must be a multiple of the hosts, got 5 part(s) on 2 host(s)" in view.error_text.value
    view.box_number.value = 6
    assert view.number.value == view.model.number == 6 and not view.error_text.value
    view.hosts.value = 4
    assert (view.number.value, view.number.max) == (4, 4) and "4 workers of 4 hosts" in view.sharing.layout["title"][
        "text"
    ]
    view.hosts.value = 1
    assert view.number.value == 4 and "hosts" not in view.words.value


def test_a_small_graph_has_few_parts() -> None:
    assert ExplorerModel(course.ten_nodes(), partitioner="random", parts=2).most_parts == 10


def test_without_a_kernel_the_partition_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    monkeypatch.setattr(bundle, "svg_of", lambda figure: "<svg/>")
    explorer = PartitionExplorer(GRAPH, partitioner="random", parts=3)
    outputs, metadata = explorer._repr_mimebundle_()
    assert "image/svg+xml" in outputs and "application/vnd.jupyter.widget-view+json" not in outputs
    assert "sbm:120,3,6, 120 nodes on 3 workers" in metadata["image/svg+xml"]["alt"], "the graph drawn"
    assert explorer.to_code().endswith("workers=3)") and "parts=3" in repr(explorer)


def test_dragging_the_slider_changes_both_figures(controls) -> None:
    view = controls(parts=2)
    before = view.words.value
    view.number.value = 6
    assert view.box_number.value == 6 and view.model.parts.workers == 6
    assert "6 workers" in view.sharing.layout["title"]["text"] and view.words.value != before
    assert [shape["x0"] for shape in view.shares.layout["shapes"]] == [6, 6]
    view.box_number.value = 3
    assert view.number.value == 3 and "workers=3" in view.words.value
    for control in (view.number, view.box_number, view.partitioner):
        assert control.description


def test_a_number_out_of_range_is_refused_where_it_was_typed(controls) -> None:
    view = controls(parts=2)
    view.box_number.value = 5000
    assert "parts must lie in [1, 16] for this graph, got 5000" in view.error_text.value
    assert view.box_number.value == 5000 and view.number.value == view.model.number == 2
    assert MARK in view._marked.layout.border
    view.number.value = 3
    assert view.box_number.value == 3 and not view.error_text.value and MARK not in view._marked.layout.border


def test_a_cell_of_the_heat_map_shows_the_rows_of_its_pair(controls) -> None:
    view = controls(parts=3)
    cells = next(number for number, trace in enumerate(view.sharing.data) if trace["type"] == "heatmap")
    view.sharing._source.clicked = {"trace": cells, "x": "2", "y": "1", "number": 1}
    assert (view.sender.value, view.receiver.value) == (view.model.sender, view.model.receiver) == (1, 2)
    rows = int(view.model.parts.quality.halo_rows[1, 2])
    assert view.map.layout["title"]["text"].endswith("rows from worker 1 to worker 2")
    assert f"Worker 1 sends worker 2 {rows} rows" in view.map_text.value
    view.sharing._source.clicked = {"trace": 0, "x": 7, "y": "worker 1", "number": 2}
    assert view.model.sender == 1, "a bar is no cell"
    view.receiver.value = 1
    assert "a worker sends itself nothing" in view.map_text.value and view.model.receiver == 2
    view.receiver.value = 2
    view.sharing._source.clicked = {"trace": cells, "x": "2", "y": "1", "number": 3}
    assert view.sender.value is None and "owner of each node" in view.map.layout["title"]["text"]
    view.show.value, view.receiver.value = "halo", 0
    assert view.map.layout["title"]["text"].endswith("nodes and copies on worker 0")
    view.number.value = 2
    view.receiver.value = 1
    view.number.value = 1
    assert view.model.receiver is None, "a worker that no longer exists"


def test_views_are_those_that_the_cut_has(controls) -> None:
    view = controls(parts=2, bits=gq.bits.Fixed(bits=4))
    view.show.value = "bits"
    assert "4 bits 110, not sent 10" in view.map_text.value
    view.show.value = "error"
    assert "squared error" in view.map.layout["title"]["text"]
    view.partitioner.value = "EBV"
    assert view.show.options == ("owner", "halo") and view.show.value == view.model.show == "owner"
    assert "Bit-widths and errors can be drawn for edge-cuts only." in view.map_text.value


def test_a_large_graph_is_explored_round_a_node() -> None:
    model = ExplorerModel(gq.load("sbm:2400,4,6"), partitioner="random", parts=2)
    model.set_view(around=9)
    assert "around node 9" in model.map().figure.layout.meta["caption"]
    with pytest.raises(ValueError, match="around must be a node, 0 to 2,399, got 2,400"):
        model.set_view(around=2400)


@each("workers", [4, 16])
def test_a_heat_map_has_its_scale_and_its_numbers_where_they_fit(workers: int) -> None:
    shown = draw_sharing(gq.partition(GRAPH, gq.partitioners.Random(), workers=workers)).figure.data
    cells = next(trace for trace in shown if trace.type == "heatmap")
    assert cells.showscale is not False and cells.colorbar.title.text == "rows"
    assert cells.texttemplate == "%{z:.0f}" and cells.textfont.size >= 10
