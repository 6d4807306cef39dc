"""A figure on a page: its state is complete and sent once; Plotly's code is sent once for all figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("anywidget")

import plotly.graph_objects as go
from ipywidgets import Widget
from ipywidgets.widgets.widget import _instances

from gnnqlab.lab.figures.figure_view import FigureView


def figure(*values: float) -> go.Figure:
    return go.Figure(go.Scatter(y=list(values), name="one"), layout={"title": {"text": "Some"}, "height": 300})


def held(view: FigureView) -> dict:
    return json.loads(_instances[view.widget.source].spec)


def test_view_state_contains_the_shown_figure_and_its_width() -> None:
    view = FigureView(figure(1, 2), width=640, config={"displayModeBar": False})
    assert held(view)["data"][0]["y"] == [1, 2] and held(view)["layout"]["width"] == 640
    assert held(view)["layout"]["title"]["text"] == "Some" and held(view)["config"] == {"displayModeBar": False}
    view.show(figure(3))
    assert held(view)["data"][0]["y"] == [3] == view.data[0]["y"]
    assert held(view)["layout"]["width"] == 640 == view.layout["width"], "another figure keeps the width"


def test_a_change_leaves_the_rest_as_it_is() -> None:
    view = FigureView(figure(1, 2))
    view.change([{"y": np.array([4.0, float("nan")])}], caption="Now four.")
    assert held(view)["data"] == [{"name": "one", "type": "scatter", "y": [4.0, None]}], "JSON has no NaN"
    assert held(view)["layout"]["meta"] == {"caption": "Now four."} and held(view)["layout"]["height"] == 300
    view.change([{}], axes={"yaxis3": {"range": [0, 5]}})
    assert held(view)["layout"]["yaxis3"] == {"range": [0, 5]} and held(view)["layout"]["height"] == 300
    with pytest.raises(ValueError):
        view.change([{}, {}])


def test_change_without_new_values_sends_no_message() -> None:
    view, sent = FigureView(figure(1, 2)), []
    view._source.observe(sent.append, names="spec")
    view.change([{"y": [1, 2]}])
    assert not sent
    view.change([{"y": [1, 3]}])
    assert len(sent) == 1


def test_there_can_be_a_place_before_there_is_a_figure() -> None:
    assert held(FigureView()) == {"data": [], "layout": {}, "config": {"displayModeBar": False}}


def test_figures_share_plotlys_code() -> None:
    one, two = FigureView(figure(1)), FigureView(figure(2))
    assert one.widget.plotly == two.widget.plotly
    code = _instances[one.widget.plotly["id"]]
    assert code.code.startswith(b"/**\n* plotly.js v") and code._model_module == "@jupyter-widgets/base"
    code.close()
    assert FigureView(figure(3)).widget.plotly["id"] != one.widget.plotly["id"], (
        "a new object after the old one was closed"
    )


class Sent:
    """Records the messages that a model sends to the pages."""

    def __init__(self, widget: Widget, monkeypatch: pytest.MonkeyPatch) -> None:
        self.messages: list[tuple[dict, list[bytes]]] = []
        monkeypatch.setattr(widget.comm, "send", self._send)

    def _send(self, data: dict, metadata: object = None, buffers: list[bytes] | None = None) -> None:
        self.messages.append((data, buffers or []))


def test_late_page_gets_a_small_state_and_plotly_code_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    view = FigureView(figure(1))
    names = (view.widget.model_id, view.widget.source, view.widget.plotly["id"])
    states = {name: _instances[name].get_state() for name in names}  # contents of the answer with all models
    assert states[names[2]]["code"] is None
    assert len(json.dumps(states)) < 24_000

    code = _instances[names[2]]
    sent = Sent(code, monkeypatch)
    code._handle_custom_msg({"ask": "code"}, [])
    [(data, [script])] = sent.messages
    assert data["method"] == "update" and data["buffer_paths"] == [["code"]]
    assert bytes(script) == code.code


def test_code_is_sent_unasked_where_a_page_may_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    code = _instances[FigureView(figure(1)).widget.plotly["id"]]
    code.send_code()
    sent = Sent(code, monkeypatch)
    FigureView(figure(2))
    assert not sent.messages, "all pages have the code"
    code.get_state()  # a new page received all models
    FigureView(figure(3))
    FigureView(figure(4))
    assert len(sent.messages) == 1


def test_pages_that_are_there_get_the_code_with_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    import comm

    opened = []
    create = comm.create_comm
    monkeypatch.setattr(comm, "create_comm", lambda **given: opened.append(given) or create(**given))
    _instances[FigureView(figure(1)).widget.plotly["id"]].close()
    opened.clear()
    code = _instances[FigureView(figure(2)).widget.plotly["id"]]
    assert [bytes(code.code)] in [[bytes(each) for each in given.get("buffers") or []] for given in opened]


def test_closing_a_view_removes_its_widgets() -> None:
    view = FigureView(figure(1))
    names = {view.widget.model_id, view.widget.source}
    assert names <= set(_instances)
    view.close()
    assert not names & set(_instances)
