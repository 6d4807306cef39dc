"""Slips as factors and figures: what is read from which measurement, and that a figure says what its table says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gnnqlab.course import errata_views as views
from gnnqlab.course.errata import ERRATA, MEASUREMENTS


def test_factors_are_those_that_were_measured() -> None:
    found = views.factors()
    assert set(found.index) == set(views.FACTORS) <= {entry.id for entry in ERRATA} & set(MEASUREMENTS)
    drift = MEASUREMENTS["CD-2"]().figures
    assert found.loc["CD-2", "factor"] == drift["own"] / drift["decoded"] > 2
    assert (found["factor"] > 1).all(), "each is told so that it is how many times something is off"


def test_every_paper_has_a_colour_and_each_slip_its_place() -> None:
    found = views.factors()
    figure = views.draw_factors(found).figure
    points = {trace.name: dict(zip(trace.y, trace.x, strict=True)) for trace in figure.data if trace.name}
    assert set(points) == {"AdaQP", "SYLVIE", "CDFGNN", "TANGO"}
    assert {name: factor for of in points.values() for name, factor in of.items()} == found["factor"].to_dict()
    assert {note.y: note.text for note in figure.layout.annotations if note.y in found.index} == found["what"].to_dict()


def test_the_variance_stands_between_its_average_and_its_worst_case() -> None:
    shares = views.variance_shares()
    assert (shares < 1.5).all(axis=None) and (shares["after ReLU"] < 0.55).all() and shares.loc[1, "N(0, 1)"] > 1.2
    heights = {trace.name: list(trace.y) for trace in views.draw_variance(shares).figure.data}
    assert heights == {kind: shares[kind].tolist() for kind in shares}


def test_both_signs_of_the_descent_rate() -> None:
    found = views.descent([0.2 + 0.9**epoch for epoch in range(61)])
    assert (found["as written"].iloc[-1], found["opposite sign"].iloc[-1]) == (1, 8) and len(found) == 61
    lines = {trace.name: list(trace.y) for trace in views.draw_descent(found).figure.data if trace.name}
    assert lines["as written"] == found["as written"].tolist()


@pytest.mark.parametrize("draw", [views.draw_factors, views.draw_variance, views.draw_descent])
def test_nothing_to_draw_is_said(draw: Callable) -> None:
    whole = {views.draw_factors: views.factors, views.draw_variance: views.variance_shares}
    frame = whole.get(draw, lambda: views.descent([1.0, 0.5]))()
    with pytest.raises(ValueError, match="are needed, got none"):
        draw(frame.iloc[:0])


def test_no_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="losses of at least one epoch"):
        views.descent([])
