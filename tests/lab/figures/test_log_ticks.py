"""Tick labels: of one size, few enough, in the units of tables."""

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from gnnqlab.lab.figures.byte_axis import byte_ticks, log_byte_ticks
from gnnqlab.lab.figures.log_ticks import log_ticks, name_powers
from gnnqlab.lab.figures.theme import finish
from tests.cases import each


@each("ends", [(1e-9, 3e4), (2e-3, 9.0), (0.4, 5.0), (1e-12, 1e-6), (3.0, 700.0)])
def test_numbers_span_the_data_and_stay_few(ends: tuple[float, float]) -> None:
    places = log_ticks(*ends)
    assert places == sorted(places) and 3 <= len(places) <= 11
    assert places[0] <= ends[0] and places[-1] >= ends[1]


def _axis(figure: go.Figure, name: str = "yaxis") -> dict[str, object]:
    return dict(figure.to_dict()["layout"][name])


def test_a_logarithmic_axis_is_named_by_the_values_on_it() -> None:
    figure = go.Figure(go.Scatter(x=[1, 2, 3], y=[0.04, None, 3.0])).update_yaxes(type="log")
    finish(figure, title="", caption="")
    assert list(_axis(figure)["ticktext"]) == ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]


def test_ends_of_intervals_are_on_the_axis_too() -> None:
    # A range of a factor of three; Plotly would draw more than a decade, with small digits.
    figure = go.Figure(go.Scatter(y=[0.3, None, 1.0], error_y={"type": "data", "array": [0.13, None, 0.8]}))
    name_powers(figure.update_yaxes(type="log"))
    assert list(_axis(figure)["ticktext"]) == ["0.1", "0.2", "0.5", "1", "2"]


def test_panels_of_one_range_have_the_same_numbers() -> None:
    figure = make_subplots(cols=2, shared_yaxes=True)
    figure.add_scatter(y=[1e-6, 1e-4], row=1, col=1).add_scatter(y=[1e-2, 1.0], row=1, col=2).update_yaxes(type="log")
    name_powers(figure)
    first, second = _axis(figure), _axis(figure, "yaxis2")
    assert list(first["tickvals"]) == list(second["tickvals"])
    assert {"10⁻⁶", "10⁰".replace("10⁰", "1")} <= set(first["ticktext"])


def test_one_axis_has_one_notation() -> None:
    figure = go.Figure(go.Scatter(y=[5e-6, 0.03])).update_yaxes(type="log")
    name_powers(figure)
    assert list(_axis(figure)["ticktext"]) == ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹"]


def test_axis_with_its_own_tick_settings_is_not_changed() -> None:
    for own in ({"tickvals": [1, 2]}, {"tickformat": "~g"}, {"dtick": 1}):
        figure = go.Figure(go.Scatter(y=[1e-3, 1.0])).update_yaxes(type="log", **own)
        name_powers(figure)
        assert "ticktext" not in _axis(figure)
    linear = go.Figure(go.Scatter(y=[1e-3, 1.0]))
    name_powers(linear)
    assert "yaxis" not in linear.to_dict()["layout"]


@each("most", [1.0, 999.0, 40_100.0, 503_024.0, 1.52e6, 3.16e9])
def test_byte_ticks_start_at_zero_and_reach_the_maximum(most: float) -> None:
    ticks = byte_ticks(most)
    assert ticks["tickvals"][0] == 0 and ticks["ticktext"][0] == "0" and ticks["tickvals"][-1] >= most
    assert 3 <= len(ticks["tickvals"]) <= 10 and all(text.endswith("B") for text in ticks["ticktext"][1:])
    assert len(log_byte_ticks(most, 1e4 * most)["ticktext"]) >= 5
