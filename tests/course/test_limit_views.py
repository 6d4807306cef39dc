"""The picture of an epoch beside its limits shows the numbers of its table."""

from __future__ import annotations

import pytest

from gnnqlab.course.experiments.limits import limits_table
from gnnqlab.course.limit_views import draw_limits

SECONDS = {"central": 0.004, "products": 0.005, "wait": 0.003, "optimizer": 0.001, "epoch": 0.013}
TABLE = limits_table(SECONDS, {"neighbour sums": 0.0005, "products": 0.004}, wire_s=0.006, overlapped=True)


def test_bars_are_what_was_measured_beside_its_limit() -> None:
    bundle = draw_limits(TABLE)
    measured, limit = bundle.figure.data
    assert list(measured.y) == ["neighbour sums", "products", "wire", "other"]
    assert list(measured.x) == pytest.approx([4, 5, 3, 1]) and list(measured.text) == ["8.0 ×", "1.2 ×", "0.5 ×", ""]
    assert list(limit.y) == ["neighbour sums", "products", "wire"]  # what is left has no limit, and so no bar
    assert list(limit.x) == pytest.approx([0.5, 4, 6])
    assert measured.marker.color != limit.marker.color and limit.marker.pattern.shape == "/"
    assert "(ms)" in bundle.figure.layout.xaxis.title.text
    assert list(bundle.frame.index) == list(TABLE.index)


def test_the_caption_has_the_numbers() -> None:
    caption = draw_limits(TABLE).figure.layout.meta["caption"]
    assert "An epoch took 13 ms; its limit is 6 ms (2.2 ×)." in caption
    assert "neighbour sums 4 beside 0.5 ms (31 %); products 5 beside 4 ms (38 %); wire 3 beside 6 ms (23 %)" in caption


def test_a_table_without_the_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="the table must have a row 'epoch', got"):
        draw_limits(TABLE.drop("epoch"))
