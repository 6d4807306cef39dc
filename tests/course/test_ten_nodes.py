"""The course's ten nodes: counts by hand equal the counts of the library."""

import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.exercises import check
from tests.course.test_exercises import right


def test_the_rows_that_travel_are_those_of_the_drawing(small) -> None:
    assert small.quality.halo_rows.tolist() == [[0, 2], [2, 0]]
    assert small.quality.edge_cut == 6, "three edges, both ways"


def test_metis_cuts_about_as_few_edges_as_the_halves() -> None:
    # On so small a graph METIS finds the two groups in most calls, not in all of them.
    quality = gq.partition(course.ten_nodes(), gq.partitioners.METIS(), workers=2).quality
    assert quality.edge_cut <= 10, "five edges, both ways"


def test_the_drawing_shows_owners_kinds_and_cut_edges(small) -> None:
    shown = course.draw(small)
    assert (
        shown.frame["kind"].tolist() == ["central"] * 3 + ["marginal"] * 3 + ["central", "marginal"] + ["central"] * 2
    )
    names = [trace["name"] for trace in shown.figure.to_dict()["data"]]
    assert names[:2] == ["edge inside a worker", "cut edge"]
    assert "worker 0, marginal" in names and "worker 1, central" in names
    assert "3 of 17 edges are cut; marginal nodes are 3, 4, 5, 7" in shown.figure.layout.meta["caption"]


def test_another_graph_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="only the graph of ten nodes has fixed coordinates"):
        course.draw(gq.partition(gq.load("sbm:40,2,4"), gq.partitioners.Random(), workers=2))


def test_the_answers_of_the_first_notebook_are_right() -> None:
    from gnnqlab.kernels.codec.rows import row_bytes

    assert right("01.payload") == row_bytes(256, 2)
    assert right("01.ratio") == 4 * 256 / (row_bytes(256, 2) + 8)

    class SevenMoved:
        def cut(self, graph, workers):
            halves = course.Halves().cut(graph, workers)
            halves.owner[7] = 0
            return halves

    moved = gq.partition(course.ten_nodes(), SevenMoved(), workers=2)
    assert right("01.rows") == moved.quality.halo_rows.sum()


def test_an_answer_may_be_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    check("01.ratio", 14.2)
    assert capsys.readouterr().out.startswith("Right")


def test_an_unknown_exercise_is_refused() -> None:
    with pytest.raises(ValueError, match="an exercise must be one of .*got '01.none'"):
        check("01.none", 1)
