"""Pictures of GPU measurements, from tables in the format that ``make gpu`` writes; the figures are made up."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks.engine.rows import row
from gnnqlab.course.gpu_views import (
    Notice,
    draw_compiled,
    draw_kernels,
    draw_overlap,
    draw_training,
    list_measurements,
    training_table,
)
from gnnqlab.results import bench_results, keep
from gnnqlab.train.records.provenance import machine
from tests.cases import each

DEVICE = "Made-up GPU"
KERNELS = [
    row(f"{DEVICE}, codec, D = 256, 524288 of 1048576 rows", "encode 2 bit, bytes read and written",
        2400.0, "GB/s", "device copy", 3000.0, 0.8, 0.8, kernel="codec", variant="D = 256"),
    row(f"{DEVICE}, codec, D = 256, 524288 of 1048576 rows", "encode 2 bit", 0.001, "s", "index_select float32", 0.002,
        2.0, kernel="codec", variant="D = 256"),
    row(f"{DEVICE}, sums, power law, 200 k nodes: 200000 nodes, 9300000 edges, D = 256",
        "float32 rows, weighted", 0.002, "s", "cached cuSPARSE, float32",
        0.0022, 1.1, 1.2, kernel="sums", variant="200 k nodes"),
]  # fmt: skip
CASE = {"graph": "sbm, generated at the shape of reddit", "backend": "gloo", "device": "cuda"}
TRAINING = [
    {**CASE, "system": system, "workers": workers, "epoch_s": seconds, "fastest_s": seconds, "memory_bytes": 4_000_000,
     "bytes_sent": 1000, "first_loss": 3.0, "final_loss": 1.0, "epochs": 8}
    for system, workers, seconds in (("vanilla", 1, 0.5), ("vanilla", 2, 0.4), ("adaqp", 2, 0.3))
] + [{**CASE, "system": "sylvie", "workers": 2, "error": "RuntimeError: out of memory"}]  # fmt: skip
OVERLAP = [
    {**CASE, "system": system, "workers": 2, "rank": rank, "layer": layer, "direction": way, "central_s": 0.1,
     "transfer_s": 0.2, "hidden_share": share, "contended_s": 0.0}
    for system, share in (("vanilla", None), ("adaqp", 0.75))
    for rank in (0, 1) for layer in (0, 1) for way in ("forward", "backward")
]  # fmt: skip


@pytest.fixture
def results(tmp_path, monkeypatch):
    found = machine()
    monkeypatch.setattr("gnnqlab.train.records.provenance.machine", lambda: {**found, "gpu": DEVICE})
    for part, rows in (("gpu-kernels", KERNELS), ("gpu-train", TRAINING), ("gpu-overlap", OVERLAP)):
        keep(part, rows, command="make gpu", folder=tmp_path)
    return bench_results(tmp_path)


@pytest.fixture
def nothing(tmp_path):
    return bench_results(tmp_path)


def test_measurements_are_listed_with_device_and_command(results) -> None:
    table = list_measurements(results)
    assert table["rows"].to_dict() == {"gpu-kernels": 3, "gpu-train": 4, "gpu-overlap": 16}
    assert set(table["device"]) == {DEVICE} and set(table["command"]) == {"make gpu"}


@each("draw", [draw_kernels, draw_training, draw_overlap])
def test_charts_without_measurements_are_a_notice(nothing, draw) -> None:
    notice = draw(nothing)
    assert isinstance(notice, Notice) and "Not measured on a GPU yet" in notice.text and "make gpu" in notice.text
    assert notice._repr_mimebundle_()["text/html"].startswith("<p>")
    assert list_measurements(nothing)["rows"].sum() == 0


def test_kernel_bars_are_drawn_with_their_goals(results) -> None:
    bundle = draw_kernels(results)
    bars = {bar.name: bar for bar in bundle.figure.data}
    assert list(bars) == ["codec", "sums", "goal"]
    assert bars["codec"].y == ("encode 2 bit, bytes read and written, D = 256", "encode 2 bit, D = 256")
    assert bars["sums"].y == ("float32 rows, weighted, 200 k nodes",) and bars["goal"].x == (0.8, 1.2)
    caption = bundle.figure.layout.meta["caption"]
    assert "1 of 2 goals reached; missed: float32 rows, weighted, 200 k nodes 1.10 of 1.2" in caption


def test_training_chart_has_one_bar_per_run_and_counts_failed_runs(results) -> None:
    bundle = draw_training(results)
    drawn = {(bar.name, name): value for bar in bundle.figure.data for name, value in zip(bar.x, bar.y)}
    assert drawn == {
        ("1 worker", "vanilla"): 500.0, ("2 workers, gloo", "vanilla"): 400.0, ("2 workers, gloo", "adaqp"): 300.0,
    }  # fmt: skip
    caption = bundle.figure.layout.meta["caption"]
    assert "adaqp with 2 workers, 300 ms" in caption and "1 runs failed" in caption and DEVICE in caption
    table = training_table(results)
    assert table["memory"].tolist()[0] == "4 MB" and "out of memory" in table["error"].iloc[-1]


def test_hidden_shares_are_means_over_workers(results) -> None:
    bundle = draw_overlap(results)
    assert bundle.frame["adaqp"].tolist() == [75.0] * 4 and "vanilla" not in bundle.frame
    assert "adaqp 75 %" in bundle.figure.layout.meta["caption"]


def test_registers_by_kernel() -> None:
    columns = ["file", "registers", "stack (B)", "spilled (B)", "occupancy (%)"]
    kernels = pd.Index(["encode<float, 2>", "decode"], name="kernel")
    table = pd.DataFrame([("a.cu", 44, 0, 0, 62.5), ("b.cu", 32, 0, 8, 100.0)], columns=columns, index=kernels)
    bundle = draw_compiled(table)
    marks = [trace for trace in bundle.figure.data if trace.mode == "markers"]
    assert [(trace.name, list(trace.y), list(trace.x)) for trace in marks] == [
        ("a.cu", ["encode"], [44]), ("b.cu", ["decode"], [32]),
    ]  # fmt: skip
    caption = bundle.figure.layout.meta["caption"]
    assert (
        "2 kernels compiled for sm_90: 1 spill registers" in caption and "62.5 %, fit for encode<float, 2>" in caption
    )
    notice = draw_compiled(table.iloc[:0])
    assert isinstance(notice, Notice) and "nvcc" in notice.text
