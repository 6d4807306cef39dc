"""Maps of a real graph: the numbers of a node equal those of a search over all edges, and the picture stays small."""

import json

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.graph.pictures import grey_levels, write_png
from gnnqlab.lab.figures.graph_drawing import message_widths
from gnnqlab.lab.figures.graph_map import COLORINGS, draw
from gnnqlab.lab.figures.grid_places import LARGEST_WHOLE, neighbourhood, places_on_grid
from gnnqlab.lab.figures.waiting import dependencies_of, transferred_nodes
from gnnqlab.partition.column_shard import WholeGraph
from gnnqlab.simulation.coding_errors import coding_errors
from tests.cases import each
from tests.lab.figures.test_static_image import read_indexed

GRAPH = gq.load("sbm:120,3,6")


@pytest.fixture(scope="module")
def digits():
    return gq.partition(gq.load("digits"), gq.partitioners.METIS(), workers=4)


@pytest.fixture(scope="module")
def parts():
    return gq.partition(GRAPH, gq.partitioners.Random(), workers=3)


def _edges(graph):
    targets = np.repeat(np.arange(graph.num_nodes), graph.in_degrees.numpy())
    return list(zip(graph.indices.tolist(), targets.tolist()))


@each("graph", [GRAPH, gq.Graph.from_edges([0, 0, 1, 3, 4], [1, 2, 2, 4, 0], num_nodes=6, symmetrize=False)])
def test_a_node_waits_for_its_neighbours_elsewhere_and_for_no_others(graph) -> None:
    cut = gq.partition(graph, gq.partitioners.Random(), workers=3)
    owner, found = cut.owner.tolist(), dependencies_of(cut)
    waits: dict[int, dict[int, list[int]]] = {}
    copies: dict[int, set[int]] = {}
    for source, target in sorted(_edges(graph)):
        if owner[source] != owner[target]:
            waits.setdefault(target, {}).setdefault(owner[source], []).append(source)
            copies.setdefault(source, set()).add(owner[target])
    assert found.rows == waits
    assert {node: set(held) for node, held in found.copies.items()} == copies
    assert [node for node, central in found.central.items() if not central] == sorted(waits)
    for pair in ((0, 1), (2, 0)):
        sent = {s for s, t in _edges(graph) if (owner[s], owner[t]) == pair}
        assert transferred_nodes(cut, *pair) == sorted(sent)


@each("partitioner", [gq.partitioners.Random(), gq.partitioners.EBV()])
def test_transferred_nodes_of_a_pair_equal_the_count_of_halo_rows(partitioner) -> None:
    cut = gq.partition(GRAPH, partitioner, workers=3)
    for sender, receiver in ((0, 1), (1, 0), (2, 1)):
        assert len(transferred_nodes(cut, sender, receiver)) == cut.quality.halo_rows[sender, receiver]


def test_under_a_cut_of_edges_a_node_waits_for_its_own_sums() -> None:
    cut = gq.partition(GRAPH, gq.partitioners.EBV(), workers=3)
    found = dependencies_of(cut)
    holders = {node: set() for node in range(120)}
    for edge, (source, target) in zip(cut.cut.part.tolist(), _edges(GRAPH)):
        holders[source].add(edge)
        holders[target].add(edge)
    for node, own in enumerate(cut.owner.tolist()):
        assert set(found.copies.get(node, ())) == holders[node] - {own}
        assert set(found.rows.get(node, ())) == holders[node] - {own}
    assert "waits for partial sums of worker" in found.describe(next(iter(found.rows)))
    with pytest.raises(ValueError, match="bits and errors can be drawn for an edge-cut only"):
        draw(cut, "bits", bits=gq.bits.Fixed(bits=2))
    for partitioner, kind in ((gq.partitioners.Contiguous(), "blocks"), (WholeGraph(), "columns")):
        with pytest.raises(ValueError, match=f"got a cut into {kind}, .* partition by gq.partitioners.METIS"):
            dependencies_of(gq.partition(GRAPH, partitioner, workers=3))


def test_places_do_not_depend_on_the_cut_and_no_two_nodes_share_one() -> None:
    grid = places_on_grid(GRAPH)
    assert places_on_grid(GRAPH) is grid, "cached"
    cells = {tuple(cell) for cell in grid.cells.tolist()}
    assert len(cells) == 120 and all(0 <= x < grid.columns and 0 <= y < grid.lines for x, y in cells)
    place = grid.cells.astype(float)
    joined = np.mean([np.linalg.norm(place[a] - place[b]) for a, b in _edges(GRAPH) if a != b])
    everyone = np.linalg.norm(place[:, None] - place[None], axis=2).mean()
    assert joined < 0.8 * everyone, "neighbours are closer than other nodes"


@each("nodes", [1, 2, 3, 5])
def test_the_smallest_graphs_have_places(nodes: int) -> None:
    graph = gq.Graph.from_edges([0], [nodes - 1], num_nodes=nodes)
    assert len({tuple(cell) for cell in places_on_grid(graph).cells.tolist()}) == nodes


def test_a_large_graph_is_drawn_round_a_node() -> None:
    large = gq.partition(gq.load("sbm:2400,4,6"), gq.partitioners.Random(), workers=2)
    with pytest.raises(ValueError, match=rf"1 to {LARGEST_WHOLE:,} nodes, got 2,400; draw .* parts.draw\(around=0\)"):
        draw(large)
    drawn = draw(large, around=7)
    assert drawn.frame["nodes"].sum() == 400 and "around node 7" in drawn.figure.layout.meta["caption"]
    near = set(neighbourhood(large.graph, 7, most=400).tolist())
    assert {7, *(s for s, t in _edges(large.graph) if t == 7)} <= near
    with pytest.raises(ValueError, match="around must be a node, 0 to 2,399, got 2,400"):
        draw(large, around=2400)


@each("show", COLORINGS)
def test_every_node_has_one_colour_and_a_label_with_its_dependencies(parts, show: str) -> None:
    bits = gq.bits.UniformRandom(bit_widths=(2, 4, 8))
    drawn = draw(parts, show, bits=bits, dark=True)
    assert drawn.frame["nodes"].sum() == 120
    over = next(trace for trace in drawn.figure.data if trace.type == "heatmap")
    said = {int(z): text for line, words in zip(over.z, over.text) for z, text in zip(line, words) if z == z}
    facts = {int(z): tuple(of) for line, ofs in zip(over.z, over.customdata) for z, of in zip(line, ofs) if z == z}
    assert facts == {n: (int(GRAPH.labels[n]), own) for n, own in enumerate(parts.owner.tolist())}
    found, widths = dependencies_of(parts), message_widths(parts, bits, layer=0)
    assert sorted(said) == list(range(120))
    for node, text in said.items():
        assert text.startswith("central" if found.central[node] else "marginal")
        if node in found.rows:
            assert found.describe(node) in text
        for holder in found.copies.get(node, ()):
            assert f"{holder} in {widths[holder, node]}b" in text


def test_a_row_counts_by_the_widest_of_its_copies_or_by_that_of_the_pair(parts) -> None:
    nodes = transferred_nodes(parts, 0, 1)
    widths = dict.fromkeys(message_widths(parts, gq.bits.Fixed(bits=2), layer=0), 2) | {(1, node): 8 for node in nodes}
    counts = draw(parts, "bits", bits=widths).frame["nodes"]
    everybody = {node for _, node in widths}
    assert counts["8 bits"] == len(nodes) and counts["2 bits"] == len(everybody) - len(nodes)
    assert draw(parts, "bits", bits=widths, pair=(0, 1)).frame["nodes"].to_dict() == {
        "8 bits": len(nodes), "not of this pair": 120 - len(nodes),
    }  # fmt: skip


def test_a_pair_shows_its_rows_its_waiting_nodes_and_their_edges(parts) -> None:
    drawn, owner = draw(parts, pair=(2, 0)), parts.owner.tolist()
    cut = [(s, t) for s, t in _edges(GRAPH) if (owner[s], owner[t]) == (2, 0)]
    assert drawn.frame.loc["rows that worker 2 sends", "nodes"] == len({s for s, _ in cut})
    assert drawn.frame.loc["nodes of worker 0 that wait for them", "nodes"] == len({t for _, t in cut})
    lines = next(trace for trace in drawn.figure.data if trace.type == "scatter" and trace.mode == "lines")
    assert len(lines.x) == 3 * len(cut)
    held = draw(parts, "halo", worker=1).frame["nodes"]
    assert held["copies of worker 0"] + held["copies of worker 2"] == parts.shards[1].num_halo
    assert held["worker 1, waits"] == parts.shards[1].num_marginal


def test_errors_are_those_of_the_rows_that_arrive(parts) -> None:
    """A step is a third of the row's range; the rounding error is below one step, and far less for a row of 8 bits."""
    widths = message_widths(parts, gq.bits.Fixed(bits=2), layer=0)
    found = coding_errors(parts, widths)
    assert set(found) == set(widths)
    features = GRAPH.features.double()
    for (_, node), error in found.items():
        step = float(features[node].max() - features[node].min()) / 3
        assert 0 < error < features.shape[1] * step**2
    mean = np.mean([error / float((features[n].max() - features[n].min()) ** 2) for (_, n), error in found.items()])
    assert mean == pytest.approx(features.shape[1] / 6 / 9, rel=0.15), "Theorem 1's D range^2 / 6 / (2^b - 1)^2"
    mixed = {key: 8 if key[1] % 2 else 2 for key in widths}
    both = coding_errors(parts, mixed)
    assert max(both[key] for key in both if key[1] % 2) < min(both[key] for key in both if not key[1] % 2)
    with pytest.raises(ValueError, match="every halo row needs a bit-width"):
        coding_errors(parts, {})
    with pytest.raises(ValueError, match=r"rows must be \(120, D\), a row for each node, got \(3, 2\)"):
        coding_errors(parts, widths, rows=features[:3, :2])


def test_the_drawn_digits_are_their_images_in_few_bytes(digits) -> None:
    for dark in (False, True):
        drawn = draw(digits, dark=dark)
        assert len(json.dumps(drawn.figure.to_plotly_json(), default=lambda array: array.tolist())) < 250_000
        picture = next(trace for trace in drawn.figure.data if trace.type == "image")
        assert len(picture.source) < 60_000
    levels = grey_levels(digits.graph)
    assert levels.shape == (1797, 8, 8) and levels.max() == 2
    assert (levels[0].astype(float) - 2 * digits.graph.features[0].reshape(8, 8).numpy()).__abs__().max() <= 0.5


def test_a_picture_has_the_pixels_that_it_was_given() -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    palette = [(10 * n, 20 * n, 30 * n, 50 * n) for n in range(6)]
    picture = read_indexed(write_png(pixels, palette))
    assert picture.shape == (2, 3, 4) and [tuple(pixel) for pixel in picture.reshape(-1, 4).tolist()] == palette
    with pytest.raises(ValueError, match="pixels must be numbers of 5 colours, got 5"):
        write_png(pixels, palette[:5])


@each(
    ("asked", "error"),
    [
        ({"show": "class"}, r"show must be one of \('owner', 'halo', 'bits', 'error'\), got 'class'"),
        ({"show": "bits"}, "show='bits' needs bit-widths, got none"),
        ({"show": "error"}, "show='error' needs bits= or errors=, got neither"),
        ({"worker": 1}, "worker= selects a worker's copies"),
        ({"show": "halo", "worker": 3}, "worker must be one of 0 to 2, got 3"),
        ({"pair": (1, 1)}, r"a pair must be two different workers of 0 to 2, sender first, got \(1, 1\)"),
    ],
)
def test_invalid_arguments_of_draw_raise_value_error(parts, asked: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        draw(parts, **asked)


def test_dependencies_of_ten_nodes_equal_those_of_the_course() -> None:
    halves = gq.partition(course.ten_nodes(), course.Halves(), workers=2)
    found = dependencies_of(halves)
    assert found.rows == {3: {1: [5]}, 4: {1: [5, 7]}, 5: {0: [3, 4]}, 7: {0: [4]}}
    assert found.describe(3) == "waits for row 5 of worker 1"
