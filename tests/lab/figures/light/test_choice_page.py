"""Pages without Plotly: plain small values, every combination of choices, and no address."""

from __future__ import annotations

import re
from pathlib import Path

import plotly.graph_objects as go
import pytest

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.light.choice_page import Choice, PageStep, write_choice_page
from gnnqlab.lab.figures.light.light_chart import light_figure, looks
from gnnqlab.lab.figures.theme import finish, template
from tests.pages import light_values


def draw(height: float, dark: bool) -> FigureData:
    import pandas as pd

    figure = go.Figure(go.Bar(x=["a"], y=[height], hovertemplate="%{y}"))
    finish(figure, title=f"Bar of {height:g}", caption="One bar <long>.", dark=dark)
    return FigureData(figure, pd.DataFrame({"height": [height]}))


def steps(height: int, number: int) -> list[PageStep]:
    return [PageStep.from_drawings(lambda dark: draw(height + 1.0, dark), table="Numbers") for _ in range(number + 1)]


def test_a_light_figure_is_plain_json_without_arrays_template_and_hover_texts() -> None:
    import numpy as np

    figure = go.Figure([go.Scatter(x=np.arange(3), y=np.array([0.1234567, 1, 2]), hovertemplate="%{y}")])
    figure.add_heatmap(z=[[1.0]], opacity=0)
    figure.update_layout(template=template())
    assert light_figure(figure) == {
        "data": [{"x": [0, 1, 2], "y": [0.12346, 1, 2], "type": "scatter"}],
        "layout": {},
    }
    assert light_figure(go.Figure(go.Heatmap(z=np.eye(2))))["data"][0]["z"] == [[1, 0], [0, 1]]


def test_traces_that_the_script_cannot_draw_are_refused() -> None:
    with pytest.raises(
        ValueError, match="draws traces of scatter, bar, heatmap, image, got pie; use figure.write_html"
    ):
        light_figure(go.Figure(go.Pie(values=[1])))


def test_looks_are_those_of_the_theme() -> None:
    assert looks()["dark"]["ink"] == template(dark=True)["layout"]["font"]["color"] != looks()["light"]["ink"]


def test_a_page_has_every_state_once_and_no_address(tmp_path: Path) -> None:
    choices = [
        Choice(label="Height <m>", options=["one", "two"], kind="slider", ends=("0: low", "1: high")),
        Choice(label="Steps", options=["1", "2"], first=1),
        Choice(label="List", options=["only"], kind="list"),
    ]
    path = tmp_path / "new" / "page.html"
    write_choice_page(path, title="A & B", choices=choices, steps=lambda height, number, _: steps(height, number))
    page = path.read_text(encoding="utf-8")
    values = light_values(page)
    assert set(values["states"]) == {"0,0,0", "0,1,0", "1,0,0", "1,1,0"}
    assert len(values["states"]["1,1,0"]) == 2
    (first, _) = values["states"]["1,1,0"]
    assert first["title"] == "Bar of 2" and first["words"] == "One bar &lt;long&gt;." and "<td>2</td>" in first["table"]
    assert len(values["figures"]) == 4, "two heights, light and dark, each stored once"
    assert values["figures"][first["figures"][0]["light"]]["data"][0]["y"] == [2]
    assert "Height &lt;m&gt;" in page and "<h1>A &amp; B</h1>" in page and "0: low" in page
    assert "default-src 'none'" in page and len(page) < 100_000
    addresses = set(re.findall(r"https?://[^\s\"'`]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}, "the name of SVG, which is not loaded"


def test_a_page_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.html, got 'page\.pdf'"):
        write_choice_page(tmp_path / "page.pdf", title="A", choices=[], steps=lambda: steps(0, 0))
