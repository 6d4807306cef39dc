"""Deeper models: errors by depth, and bytes of messages and of weight gradients."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab.course.experiments.depth import SEVEN, depth_error, draw_depth, draw_kinds, kinds_of_bytes, train_models


def test_exact_messages_err_by_rounding_alone(small) -> None:
    table = depth_error(small, depths=(3,), bits=32, hidden=8, repeats=1)
    assert set(table.index.get_level_values("model")) == set(SEVEN)
    assert (table < 1e-2).all(axis=None)  # percent: 1e-4 of float32 sums in another order


def test_fewer_bits_err_more(small) -> None:
    few, many = (depth_error(small, models=("gcn",), depths=(3,), bits=bits, hidden=8) for bits in (2, 8))
    assert (few > 4 * many).all(axis=None)  # 3 steps against 255


def test_a_line_for_every_model(small) -> None:
    table = depth_error(small, models=("gcn",), depths=(2,), bits=2, hidden=8)
    figure = draw_depth(table).figure.to_dict()
    assert figure["layout"]["yaxis"]["title"]["text"].endswith("(%)")


def test_the_law_holds_for_all_seven(small) -> None:
    table = train_models(small, layers=3, bits=(32,), hidden=8, epochs=3)
    assert list(table.index) == list(SEVEN)
    assert (table["2 workers, 32 bits: loss"] - table["one process: loss"]).abs().max() < 1e-4


TRAFFIC = pd.DataFrame(
    [(epoch, way, size, 10) for epoch in range(3) for way, size in (("forward", 990), ("backward", 490))],
    columns=["epoch", "direction", "payload_bytes", "param_bytes"],
)
RECORDS = pd.DataFrame({"epoch": [0, 0], "rank": [0, 1], "bytes_gradients": [50, 50]})


def test_columns_are_those_of_the_table() -> None:
    line = kinds_of_bytes({"a": RECORDS}, {"a": TRAFFIC}).loc["a"]
    assert line.to_dict() == {
        "embeddings": 1000, "embedding gradients": 500, "messages": 1500, "weight gradients": 50, "times": 30,
    }  # fmt: skip


def test_bars_are_labelled_with_their_bytes() -> None:
    bundle = draw_kinds(kinds_of_bytes({"a": RECORDS}, {"a": TRAFFIC}))
    assert [bar.text[0] for bar in bundle.figure.data] == ["1 kB", "500 B", "50 B"]
    with pytest.raises(ValueError, match="bytes of at least one run"):
        draw_kinds(bundle.frame.iloc[:0])
