"""Colours and patterns that every kind of colour vision tells apart, colours of dark pages, and the template."""

from __future__ import annotations

import itertools

import plotly.graph_objects as go
import pytest

from gnnqlab.lab.figures.static_image import with_dark_colors
from gnnqlab.lab.figures.theme import GROUNDS, PHASES, dark_rules, set_template, template
from tests.lab.figures.colour_vision import VISIONS, difference


def test_the_difference_of_black_and_white_is_100_for_everybody() -> None:
    assert [difference("#000000", "#ffffff", vision) for vision in VISIONS] == pytest.approx([100] * 3, abs=0.1)
    assert difference("#d55e00", "#009e73", "trichromacy") > 1.5 * difference("#d55e00", "#009e73", "deuteranopia")


@pytest.mark.parametrize("vision", list(VISIONS))
def test_phases_differ_by_ten_for_every_kind_of_colour_vision(vision: str) -> None:
    near = {
        (one.label, other.label): round(difference(one.color, other.color, vision), 1)
        for one, other in itertools.combinations(PHASES, 2)
        if difference(one.color, other.color, vision) < 10
    }
    assert near == {}


def test_neighbouring_phases_have_other_patterns() -> None:
    assert all(one.pattern != other.pattern for one, other in itertools.pairwise(PHASES))


def test_a_picture_has_colors_for_dark_systems() -> None:
    text, ground = dark_rules()[0], dark_rules()[-2]
    assert (
        text == ("fill", "rgb(31, 35, 40)", "rgb(230, 232, 234)") and template()["layout"]["font"]["color"] == "#1f2328"
    )
    assert ground == ("fill", "rgb(255, 255, 255)", "rgb(20, 23, 26)") and GROUNDS == ("#ffffff", "#14171a")
    picture = with_dark_colors('<svg class="a"><path style="fill: rgb(31, 35, 40);"/></svg>')
    assert picture.startswith('<svg class="a"><style>@media (prefers-color-scheme: dark)') and picture.endswith(
        "</svg>"
    )
    assert '[style*="stroke: rgb(228, 231, 235)"]{stroke:rgb(52, 58, 64)!important}' in picture, "the grid"


def test_a_figure_with_a_template_still_refuses_a_wrong_value() -> None:
    figure = go.Figure()
    set_template(figure)
    assert figure.layout.template.layout.font.size == 13
    with pytest.raises(ValueError, match="width"):
        figure.layout.width = "wide"
