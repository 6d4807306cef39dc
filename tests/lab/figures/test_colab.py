"""What Colab's pages are given, with a stand-in for its package; in Colab itself nothing was tried."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import pandas as pd
import plotly.graph_objects as go
import pytest

from gnnqlab.lab.figures.bundle import Bundle, in_colab
from gnnqlab.lab.figures.controls import make_access
from gnnqlab.lab.figures.figure_view import FigureView


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """How often its manager of widgets was turned on."""
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


def bundle() -> Bundle:
    figure = go.Figure(go.Bar(x=["a"], y=[1.0])).update_layout(meta={"caption": "One bar."})
    return Bundle(figure, pd.DataFrame({"y": [1.0]}, index=["a"]))


def test_elsewhere_figures_are_plotlys_json() -> None:
    assert not in_colab()
    outputs, _ = bundle()._repr_mimebundle_()
    assert "application/vnd.plotly.v1+json" in outputs and "Plotly.newPlot" not in outputs.get("text/html", "")


def test_figures_come_as_html_that_draws_itself(allowed: list[str]) -> None:
    outputs, _ = bundle()._repr_mimebundle_()
    assert "Plotly.newPlot" in outputs["text/html"] and "<html" not in outputs["text/html"]
    assert outputs["text/plain"] == "One bar." and "image/svg+xml" not in outputs
    assert len(outputs["text/html"]) < 20_000, "the script of Plotly is fetched by the page"


def test_anywidget_turns_on_what_widgets_need(allowed: list[str]) -> None:
    view, access = FigureView(), make_access()
    assert set(allowed) == {"on"}
    view.close()
    access.close()
