"""A figure for every reader: live, a picture, or a table; and never an exception."""

import pandas as pd
import pytest

from gnnqlab.lab.figures import bundle, still
from gnnqlab.lab.training import compare
from gnnqlab.lab.training.plots import convergence
from tests.lab.synthetic import make_run

RUN = make_run(epochs=6)


@pytest.fixture
def without_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(still, "_picture_server", lambda: False)


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
    assert outputs["image/svg+xml"] == "<svg/>" and "image/png" not in outputs, "JupyterLab would show that instead"
    assert metadata["image/svg+xml"]["alt"].startswith("Validation accuracy by epoch")


def test_a_picture_that_fails_leaves_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(still, "_picture_server", lambda: True)
    kaleido = pytest.importorskip("kaleido")

    def fail(*arguments: object, **settings: object) -> bytes:
        raise OSError("the browser is gone")

    monkeypatch.setattr(kaleido, "calc_fig_sync", fail)
    figure = convergence({"vanilla": RUN.records})
    outputs, _ = bundle.Bundle(figure, RUN.records)._repr_mimebundle_()
    assert "<table>" in outputs["text/html"]


@pytest.mark.usefixtures("without_browser")
def test_a_table_that_fails_leaves_the_words() -> None:
    outputs, _ = bundle.Bundle(convergence({"vanilla": RUN.records}), None)._repr_mimebundle_()
    assert "no table" in outputs["text/plain"]


def test_a_table_is_escaped_and_has_headings() -> None:
    frame = pd.DataFrame({"<b>": [1.23456, None]}, index=pd.Index(["x", "y&z"], name="system"))
    html = bundle.table_html(frame, caption="<i>")
    assert "<caption>&lt;i&gt;</caption>" in html and '<th scope="col">&lt;b&gt;</th>' in html
    assert "<td>1.235</td>" in html and "<td>–</td>" in html and '<th scope="row">y&amp;z</th>' in html


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


def test_comparing_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run, got none"):
        compare([])
