"""Warnings of settings that save no bytes with the model and graph of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.train.aggregation_calls import unused_settings
from tests.cases import each
from tests.graphs import random_graph


@each(
    ("settings", "text"),
    [
        ({"input_features": "cache", "hidden": 64}, None),  # the first layer aggregates before it projects
        ({"input_features": "cache", "hidden": 16}, "gcn sends no rows of input features: it projects the 64 features"),
        ({"input_features": "cache", "model": "gat", "hidden": 64}, "model gat sends no rows of input features"),
        ({"input_features": "cache", "hidden": 16, "workers": 1}, None),
        ({"system": "fixed-bits", "bits": 8, "hidden": 16}, None),
        ({"system": "fixed-bits", "bits": 8, "hidden": 2}, "rows of 2 hidden columns are too narrow to quantize"),
        ({"system": "adaqp", "hidden": 2}, "system adaqp sends more bytes than float32"),
        ({"hidden": 2}, None),
    ],
)
def test_settings_that_save_no_bytes_are_named(settings: dict[str, object], text: str | None) -> None:
    warnings = unused_settings(gq.configure("sbm:100,3,6", **{"layers": 2, **settings}))
    assert (not warnings) if text is None else text in warnings[0]


def test_launch_warns_of_narrow_rows_with_the_bytes_that_it_sends(tmp_path: Path) -> None:
    graph = random_graph(nodes=60, edges=300, features=2, classes=2)
    shape = {"workers": 2, "epochs": 2, "layers": 2, "hidden": 2, "out": tmp_path, "wait": True}
    plain_run = gq.launch(graph, **shape)
    with pytest.warns(UserWarning, match="got at least 30 per halo node and epoch, and 24 in float32"):
        run = gq.launch(graph, system="fixed-bits", bits=8, **shape)
    assert run.summary["bytes_sent"] * 24 == plain_run.summary["bytes_sent"] * 30
