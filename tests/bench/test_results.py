"""Kept tables: what is written is what is read, as JSON and for reading."""

from __future__ import annotations

import gnnqlab as gq
from gnnqlab.bench.results import bench_results, keep, load, markdown

ROWS = [{"system": "vanilla", "epoch_s": 1.25, "workers": 2}, {"system": "adaqp", "error": "a | b"}]


def test_a_table_comes_back_with_date_device_and_command(tmp_path):
    path = keep("gpu-train", ROWS, command="make gpu", folder=tmp_path)
    table = load(tmp_path)["gpu-train"]
    assert path.name == "gpu-train.json" and table["rows"] == ROWS and table["command"] == "make gpu"
    assert table["date"].endswith("+00:00") and table["device"]
    text = path.with_suffix(".md").read_text()
    assert "`make gpu`" in text and "| vanilla | 1.25 | 2 |  |" in text and "a \\| b" in text


def test_rows_of_all_tables_in_one_frame(tmp_path):
    keep("gpu-train", ROWS, command="make gpu", folder=tmp_path)
    keep("gpu-kernels", [{"case": "copy", "value": 3.0}], command="other", folder=tmp_path)
    frame = bench_results(tmp_path)
    assert frame["part"].tolist() == ["gpu-kernels", "gpu-train", "gpu-train"]
    assert frame["value"].tolist()[0] == 3.0 and frame["epoch_s"].tolist()[1] == 1.25
    assert list(frame.columns[:4]) == ["part", "date", "device", "command"]


def test_nothing_kept_is_an_empty_frame(tmp_path):
    frame = gq.bench_results(tmp_path)
    assert frame.empty and list(frame.columns) == ["part", "date", "device", "command"]
    assert "No rows" in markdown({"part": "p", "date": "d", "device": "x", "command": "c", "rows": []})
