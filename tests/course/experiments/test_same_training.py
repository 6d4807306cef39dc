"""Shares of the gradient add up, and curves that coincide are all visible."""

import re

import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.experiments.same_training import draw_agreement, gradient_shares
from gnnqlab.course.system_views import systems_by_axes
from tests.cases import each
from tests.lab.synthetic import make_run


@each("workers", [2, 4])
def test_shares_of_exact_messages_add_up(workers: int) -> None:
    shares = gradient_shares(gq.partition(course.ten_nodes(), course.Halves(), workers=workers))
    of_workers = shares.iloc[:workers]
    assert of_workers["training nodes"].sum() == 4
    for column in ("loss", "gradient"):
        assert of_workers[column].sum() == pytest.approx(shares[column]["one process"], rel=1e-5)
    assert shares["distance"]["sum"] < 1e-6


def test_quantized_messages_leave_a_distance() -> None:
    parts = gq.partition(course.ten_nodes(), course.Halves(), workers=2)
    shares = gradient_shares(parts, system="fixed-bits", bits=1)
    assert 1e-4 < shares["distance"]["sum"] < 1


def test_coinciding_curves_have_distinct_widths_and_dashes() -> None:
    runs = [make_run(workers=1), make_run(workers=2), make_run(workers=4)]
    shown = draw_agreement(runs)
    curves = [trace for trace in shown.figure.data if trace.xaxis == "x"]
    assert [trace.name for trace in curves] == ["vanilla, 1 worker", "vanilla, 2 workers", "vanilla, 4 workers"]
    widths = [trace.line.width for trace in curves]
    assert widths == sorted(widths, reverse=True) and len({trace.line.dash for trace in curves}) == 3
    assert shown.frame.shape == (40, 3)
    with pytest.raises(ValueError, match="two to 4 runs can be compared, got 1"):
        draw_agreement(runs[:1])


def test_the_table_of_systems_is_the_registry() -> None:
    table = systems_by_axes()
    assert set(table.frame.index) == set(gq.systems.SYSTEMS) and table.frame.index[0] == "vanilla"
    assert {"codec", "bits", "schedule"} <= set(table.frame.columns)
    page = table._repr_mimebundle_()["text/html"]
    assert re.search(r"<td[^>]*><b>stochastic</b></td>", page) and re.search(r"<td[^>]*>float32</td>", page)
