"""Drawn partitions: every node at its position, and its kind shown by colour, shape and a word."""

from dataclasses import replace

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.bits.policy import Fixed, UniformRandom
from gnnqlab.lab.figures.bundle import caption_of
from gnnqlab.lab.figures.graph_drawing import draw_bits, draw_partition, draw_shards, message_widths
from gnnqlab.lab.figures.graph_map import draw
from gnnqlab.lab.figures.graph_places import KNOWN_PLACES, LARGEST, neighbours, places_of
from tests.cases import each


@pytest.fixture(scope="module")
def parts():
    return gq.partition(course.ten_nodes(), course.Halves(), workers=2)


def _traces(bundle, name):
    return [trace for trace in bundle.figure.to_dict()["data"] if trace.get("name") == name and None not in trace["x"]]


def test_a_kind_has_one_shape_and_a_word(parts) -> None:
    data = draw_shards(parts).figure.to_dict()
    shapes = {
        trace["name"].split(", ")[1]: trace["marker"]["symbol"] for trace in data["data"] if ", " in trace["name"]
    }
    assert shapes == {"central": "circle", "marginal": "diamond", "halo": "square"}
    words = [note["text"] for note in data["layout"]["annotations"]]
    assert [words.count(word) for word in ("central", "marginal", "halo")] == [6, 4, 4]


def test_owners_have_a_colour_each_and_a_copy_wears_its_owners(parts) -> None:
    shown = draw_shards(parts)
    for worker in range(2):
        central, *_ = _traces(shown, f"worker {worker}, central")
        halo, *_ = _traces(shown, f"worker {worker}, halo")
        assert central["marker"]["color"] == halo["marker"]["line"]["color"]
    assert _traces(shown, "worker 0, halo")[0]["text"] == ["3", "4"]


def test_shard_drawing_has_no_edge_between_two_halo_nodes(parts) -> None:
    """Worker 1 has copies of 3 and 4, which are neighbours; their edge belongs to worker 0."""
    x = KNOWN_PLACES["ten nodes"]
    stored = draw_shards(parts).figure.to_dict()["data"]
    on_second = [trace for trace in stored if trace["name"] == "edge to a copy" and trace["xaxis"] == "x2"]
    points = set(zip(on_second[0]["x"], on_second[0]["y"]))
    assert {x[3], x[4], x[5], x[7]} == points - {(None, None)}
    assert len(on_second[0]["x"]) == 3 * 3, "three edges, each followed by a gap"


def test_the_table_behind_the_drawing_lists_every_row_of_every_worker(parts) -> None:
    frame = draw_shards(parts).frame
    assert len(frame) == 10 + 4
    halo = frame[frame["kind"] == "halo"]
    assert halo["node"].tolist() == [5, 7, 3, 4] and halo["owner"].tolist() == [1, 1, 0, 0]


def test_bits_are_drawn_as_the_policy_gives_them(parts) -> None:
    policy = UniformRandom(bit_widths=(1, 2, 4, 8))
    widths = message_widths(parts, policy, layer=1, seed=3)
    shown = draw_bits(parts, widths, what="layer 1, forward")
    frame = shown.frame.reset_index()
    assert {(row.worker, row.node): row.bits for row in frame.itertuples()} == widths
    for bits in set(widths.values()):
        assert f"{bits}b" in [text for trace in shown.figure.data for text in (trace.text or ())]
    assert "layer 1, forward" in shown.figure.layout.title.text


def test_backward_bit_widths_are_drawn_by_the_sender(parts) -> None:
    """Forward, a row's bit-width may not depend on its receiver; backward, the sender draws it."""
    policy = UniformRandom(bit_widths=(1, 2, 4, 8))
    drawn = [message_widths(parts, policy, layer=0, direction="backward", seed=seed) for seed in range(20)]
    assert len({tuple(one.values()) for one in drawn}) > 5
    assert set(drawn[0]) == {(0, 5), (0, 7), (1, 3), (1, 4)}


def test_a_row_without_a_width_is_refused(parts) -> None:
    with pytest.raises(ValueError, match=r"every halo row needs a bit-width, got none for .*\(0, 7\)"):
        draw_bits(parts, {(0, 5): 2, (1, 3): 2, (1, 4): 2})


def test_places_are_the_same_at_every_call_and_apart() -> None:
    graph = gq.load("sbm:40,3,4")
    places = np.array(places_of(graph))
    assert np.array_equal(places, np.array(places_of(graph)))
    distance = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2)) + np.eye(40)
    assert distance.min() > 0.05
    joined = np.mean([distance[a, b] for a, b in neighbours(graph)])
    assert joined < distance.mean(), "neighbours are closer than other nodes"


@each("workers", [1, 3, 4])
def test_any_small_graph_is_drawn(workers: int) -> None:
    parts = gq.partition(gq.load("sbm:24,2,3"), gq.partitioners.Random(), workers=workers)
    drawn = [
        draw_partition(parts),
        draw_shards(parts, dark=True),
        draw_bits(parts, message_widths(parts, Fixed(bits=2), layer=0)),
    ]
    for shown in drawn:
        assert shown.figure.layout.meta["caption"].endswith(".")


def test_drawing_too_many_nodes_or_workers_raises_value_error() -> None:
    large = gq.load(f"sbm:{LARGEST + 20},2,3")
    with pytest.raises(ValueError, match=f"at most {LARGEST} nodes, got {LARGEST + 20}"):
        draw_partition(gq.partition(large, gq.partitioners.Random(), workers=2))
    many = gq.partition(gq.load("sbm:24,2,3"), gq.partitioners.Random(), workers=5)
    with pytest.raises(ValueError, match="at most 4 workers can be drawn side by side, got 5"):
        draw_shards(many)


def test_drawings_show_the_ids_and_class_names_of_the_graph() -> None:
    graph = course.ten_nodes()
    ids = np.array([*"abcdefghi", "a long name"])
    named = replace(graph, ids=ids, class_names=tuple(f"kind {k}" for k in range(graph.num_classes)))
    parts = gq.partition(named, workers=2, partitioner=course.Halves())
    drawn = draw_partition(parts)
    traces = drawn.figure.to_dict()["data"]
    assert sorted(name for trace in traces for name in trace.get("customdata", ())) == sorted(ids.tolist())
    assert {"a", "9"} <= {text for trace in traces for text in trace.get("text", ())}  # a long id does not fit
    assert drawn.frame.index.tolist() == ids.tolist()
    assert "marginal nodes are d, e, f, h." in caption_of(drawn.figure)
    copies = draw_shards(parts).frame.query("kind == 'halo'")
    assert set(copies["node"]) == {ids[node] for shard in parts.shards for node in shard.halo.tolist()}
    cells = next(trace for trace in draw(parts).figure.data if trace.name == "nodes").text
    hovers = [text for row in cells for text in row if text]
    lines = {text.rpartition("<br>")[2] for text in hovers}
    assert lines == {f"id {name}, class kind {int(graph.labels[node])}" for node, name in enumerate(ids.tolist())}
