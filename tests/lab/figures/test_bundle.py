"""A figure in every environment, Colab included: live, a picture, or a table; and the outputs that a notebook saves."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import pandas as pd
import plotly.graph_objects as go
import pytest

from gnnqlab.lab.figures import bundle, static_image
from gnnqlab.lab.figures.bundle import VIEW, FigureData, fallback_for, in_colab
from gnnqlab.lab.figures.controls import make_access
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.training import compare
from gnnqlab.lab.training.plots import convergence
from tests.lab.synthetic import make_run

RUN = make_run(epochs=6)


@pytest.fixture
def without_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_image, "_picture_server", lambda: False)


@pytest.mark.usefixtures("without_browser")
def test_without_a_browser_there_is_a_table() -> None:
    outputs, _ = bundle.show(convergence({"vanilla": RUN.records}), RUN.records)._repr_mimebundle_()
    assert outputs["application/vnd.plotly.v1+json"]["data"]
    assert outputs["application/vnd.plotly.v1+json"]["config"] == {"showSendToCloud": False}
    assert outputs["text/html"].startswith("<table><caption>Validation accuracy by epoch")
    assert "image/svg+xml" not in outputs
    assert "Validation accuracy by epoch" in outputs["text/plain"]


def test_with_a_browser_there_is_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "svg_of", lambda figure: "<svg/>")
    outputs, metadata = bundle.show(convergence({"vanilla": RUN.records}), RUN.records)._repr_mimebundle_()
    assert outputs["image/svg+xml"] == "<svg/>" and "image/png" not in outputs, "JupyterLab would show the PNG instead"
    assert metadata["image/svg+xml"]["alt"].startswith("Validation accuracy by epoch")


def test_a_picture_that_fails_leaves_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_image, "_picture_server", lambda: True)
    kaleido = pytest.importorskip("kaleido")

    def fail(*arguments: object, **settings: object) -> bytes:
        raise OSError("the browser is gone")

    monkeypatch.setattr(kaleido, "calc_fig_sync", fail)
    figure = convergence({"vanilla": RUN.records})
    outputs, _ = bundle.FigureData(figure, RUN.records)._repr_mimebundle_()
    assert "<table>" in outputs["text/html"]


@pytest.mark.usefixtures("without_browser")
def test_a_table_that_fails_leaves_the_words() -> None:
    outputs, _ = bundle.FigureData(convergence({"vanilla": RUN.records}), None)._repr_mimebundle_()
    assert "no table" in outputs["text/plain"]


def test_a_table_is_escaped_and_has_headings() -> None:
    frame = pd.DataFrame({"<b>": [1.23456, None]}, index=pd.Index(["x", "y&z"], name="system"))
    html = bundle.table_html(frame, caption="<i>")
    assert "<caption>&lt;i&gt;</caption>" in html and '<th scope="col">&lt;b&gt;</th>' in html
    assert "<td>1.235</td>" in html and "<td>–</td>" in html and '<th scope="row">y&amp;z</th>' in html


def test_a_column_of_words_is_flush_left_with_its_heading_and_numbers_are_not() -> None:
    frame = pd.DataFrame({"words": ["in 2 bits", "–"], "size": ["12.3 MB", "4 kB"]})
    html = bundle.table_html(frame, caption="")
    left = ' style="text-align:left"'
    assert f'<th scope="col"{left}>words</th><th scope="col">size</th>' in html
    assert f"<td{left}>in 2 bits</td><td>12.3 MB</td>" in html and f"<td{left}>–</td><td>4 kB</td>" in html


def test_headings_of_rows_have_four_digits_too() -> None:
    html = bundle.table_html(pd.DataFrame({"x": [1]}, index=[0.1 + 0.2]), caption="")
    assert '<th scope="row">0.3</th>' in html


@pytest.mark.usefixtures("without_browser")
def test_a_comparison_shows_its_table_and_its_figures() -> None:
    both = compare([RUN, make_run("fixed-bits", bits=2, epochs=6)])
    outputs = both._repr_mimebundle_()
    assert "10.7&nbsp;×" in outputs["text/html"] and "fixed-bits" in outputs["text/plain"]
    time = both.convergence("loss", against="time")
    for shown in (both.convergence(), time, both.breakdown(), both.volume(), both.traffic(1)):
        assert "text/html" in shown._repr_mimebundle_()[0]
    assert list(both.volume().frame.columns) == ["payload", "parameters"]


def test_compare_without_runs_raises_value_error() -> None:
    with pytest.raises(ValueError, match="at least one run, got none"):
        compare([])


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A stand-in for Colab; return one entry for each call that turns its widget manager on."""
    calls: list[str] = []
    output = types.ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: calls.append("on")  # type: ignore[attr-defined]
    colab = types.ModuleType("google.colab")
    colab.output = output  # type: ignore[attr-defined]
    for name, module in {"google.colab": colab, "google.colab.output": output}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    sys.modules["google"].colab = colab  # type: ignore[attr-defined]
    yield calls


def one_bar() -> FigureData:
    figure = go.Figure(go.Bar(x=["a"], y=[1.0])).update_layout(meta={"caption": "One bar."})
    return FigureData(figure, pd.DataFrame({"y": [1.0]}, index=["a"]))


def test_elsewhere_figures_are_plotlys_json() -> None:
    assert not in_colab()
    outputs, _ = one_bar()._repr_mimebundle_()
    assert "application/vnd.plotly.v1+json" in outputs and "Plotly.newPlot" not in outputs.get("text/html", "")


def test_figures_come_as_html_that_draws_itself(allowed: list[str]) -> None:
    outputs, _ = one_bar()._repr_mimebundle_()
    assert "Plotly.newPlot" in outputs["text/html"] and "<html" not in outputs["text/html"]
    assert outputs["text/plain"] == "One bar." and "image/svg+xml" not in outputs
    assert len(outputs["text/html"]) < 20_000, "the page loads the script of Plotly"


def test_creating_a_view_enables_the_custom_widget_manager(allowed: list[str]) -> None:
    view, access = FigureView(), make_access()
    assert set(allowed) == {"on"}
    view.close()
    access.close()


class _Widget:
    """A stand-in for a widget of ipywidgets."""

    def _repr_mimebundle_(self) -> dict[str, object]:
        return {"text/plain": "VBox(children=...)", VIEW: {"model_id": "a"}}


class _Place(_Widget):
    plotly, source = {"id": "b"}, "c"


class _Box(_Widget):
    def __init__(self, *children: _Widget) -> None:
        self.children = children


def test_saved_widget_has_its_table_as_fallback_without_a_kernel() -> None:
    drawn = bundle.show(convergence({"vanilla": RUN.records}), pd.DataFrame({"x": [12.5]}))
    data, metadata = fallback_for(_Widget(), "a figure", lambda: drawn)
    assert data[VIEW] == {"model_id": "a"} and "12.5" in data["text/html"]
    assert data["text/plain"].startswith("Validation accuracy by epoch")
    assert metadata == {"gnnqlab": {"view": {"model_id": "a"}}}
    assert fallback_for(_Widget(), "a < b")[0]["text/html"] == "<p>a &lt; b</p>"
    assert fallback_for(_Widget(), "runs", table="<table>")[0]["text/html"] == "<table>"


def test_numbers_that_fail_leave_the_words() -> None:
    drawn = bundle.show(convergence({"vanilla": RUN.records}), pd.DataFrame({"x": [12.5]}))
    data, _ = fallback_for(_Widget(), "a figure", lambda: bundle.FigureData(drawn.figure, None))
    assert data["text/html"] == "<p>a figure</p>" and "no numbers" in data["text/plain"] and VIEW in data


def test_fallback_names_the_first_inner_figure_or_the_given_one() -> None:
    other = _Place()
    other.source = "d"
    box = _Box(_Widget(), _Box(_Place()), other)
    assert fallback_for(box, "words")[1]["gnnqlab"]["figure"] == "c"
    assert fallback_for(box, "words", figure=other)[1]["gnnqlab"]["figure"] == "d"
