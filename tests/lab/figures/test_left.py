"""A view leaves its numbers for whoever has no kernel, and its name for JupyterLab."""

import pandas as pd

from gnnqlab.lab.figures import bundle
from gnnqlab.lab.figures.bundle import VIEW, left_by
from gnnqlab.lab.training.plots import convergence
from tests.lab.synthetic import make_run

RUN = make_run(epochs=6)


class _Widget:
    """Stands for one of ipywidgets."""

    def _repr_mimebundle_(self) -> dict[str, object]:
        return {"text/plain": "VBox(children=...)", VIEW: {"model_id": "a"}}


class _Place(_Widget):
    plotly, source = {"id": "b"}, "c"


class _Box(_Widget):
    def __init__(self, *children: _Widget) -> None:
        self.children = children


def test_a_saved_widget_leaves_its_numbers_for_whoever_has_no_kernel() -> None:
    drawn = bundle.show(convergence({"vanilla": RUN.records}), pd.DataFrame({"x": [12.5]}))
    data, metadata = left_by(_Widget(), "a figure", lambda: drawn)
    assert data[VIEW] == {"model_id": "a"} and "12.5" in data["text/html"]
    assert data["text/plain"].startswith("Validation accuracy by epoch")
    assert metadata == {"gnnqlab": {"view": {"model_id": "a"}}}
    assert left_by(_Widget(), "a < b")[0]["text/html"] == "<p>a &lt; b</p>"
    assert left_by(_Widget(), "runs", table="<table>")[0]["text/html"] == "<table>"


def test_numbers_that_fail_leave_the_words() -> None:
    drawn = bundle.show(convergence({"vanilla": RUN.records}), pd.DataFrame({"x": [12.5]}))
    data, _ = left_by(_Widget(), "a figure", lambda: bundle.Bundle(drawn.figure, None))
    assert data["text/html"] == "<p>a figure</p>" and "no numbers" in data["text/plain"] and VIEW in data


def test_the_first_figure_inside_is_named_or_the_one_that_is_asked_for() -> None:
    other = _Place()
    other.source = "d"
    box = _Box(_Widget(), _Box(_Place()), other)
    assert left_by(box, "words")[1]["gnnqlab"]["figure"] == "c"
    assert left_by(box, "words", figure=other)[1]["gnnqlab"]["figure"] == "d"
