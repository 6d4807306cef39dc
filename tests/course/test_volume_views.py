"""Bytes about nodes and bytes about weights."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab.course.volume_views import draw_kinds, kinds_of_bytes

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


def test_bars_say_their_bytes() -> None:
    bundle = draw_kinds(kinds_of_bytes({"a": RECORDS}, {"a": TRAFFIC}))
    assert [bar.text[0] for bar in bundle.figure.data] == ["1 kB", "500 B", "50 B"]
    assert "a: 1.5 kB of messages, 50 B of weight gradients, 30 times" in bundle.figure.layout.meta["caption"]
    with pytest.raises(ValueError, match="bytes of at least one run"):
        draw_kinds(bundle.frame.iloc[:0])
