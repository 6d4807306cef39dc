"""Widths by a plan: their mean by epoch, and the picture of several runs."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab.course.width_plan_views import draw_plan, mean_width, plan_table

TRAFFIC = pd.DataFrame([(0, 1, 30), (0, 4, 10), (1, 8, 40)], columns=["epoch", "bits", "rows"])


def _records(losses: tuple[float, ...]) -> pd.DataFrame:
    lines = [(epoch, rank, loss, 0.1, 900_000, 100_000) for epoch, loss in enumerate(losses) for rank in (0, 1)]
    columns = ["epoch", "rank", "loss", "epoch_s", "bytes_payload", "bytes_params"]
    none = float("nan")
    return pd.DataFrame(lines, columns=columns).assign(train_score=none, val_score=none, test_score=none)


class _Run:
    records, traffic, summary = _records((1.0, 0.5)), TRAFFIC, {"final_loss": 0.5, "test_accuracy": 0.9}


def test_rows_weigh_the_mean() -> None:
    assert mean_width(TRAFFIC).tolist() == [(30 * 1 + 10 * 4) / 40, 8.0]


def test_a_line_a_run() -> None:
    line = plan_table({"mine": _Run()}).loc["mine"]  # type: ignore[dict-item]
    assert line.tolist() == [pytest.approx(4.875), 4.0, 0.5, 90.0]


def test_the_picture_adds_bytes_up() -> None:
    bundle = draw_plan({"a": _records((1.0, 0.5)), "b": _records((2.0, 1.0))}, {"a": TRAFFIC, "b": TRAFFIC})
    figure = bundle.figure.to_dict()
    assert len(figure["data"]) == 6
    by_bytes = next(line for line in figure["data"] if line["name"] == "a" and line["xaxis"] == "x3")
    assert list(by_bytes["x"]) == [2.0, 4.0] and list(by_bytes["y"]) == [1.0, 0.5]
    assert "a: 4.88 bits, 4 MB, loss 0.5" in figure["layout"]["meta"]["caption"]
    assert figure["layout"]["xaxis3"]["title"]["text"] == "sent so far (MB)"


def test_a_figure_can_be_called_otherwise() -> None:
    bundle = draw_plan({"a": _records((1.0, 0.5))}, {"a": TRAFFIC}, title="By δ")
    assert bundle.figure.layout.title.text == "By δ"


def test_a_mean_of_one_is_one_bit() -> None:
    bundle = draw_plan({"narrow": _records((1.0, 0.5))}, {"narrow": TRAFFIC.assign(bits=1)})
    assert "the end: narrow: 1 bit, 4 MB" in bundle.figure.layout.meta["caption"]


def test_runs_must_match() -> None:
    with pytest.raises(ValueError, match="records and traffic of the same runs"):
        draw_plan({"a": _records((1.0, 0.5))}, {})
