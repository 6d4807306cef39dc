"""The training part of the GPU pass, run on the CPU: its cases, its rows, and its overlap."""

from __future__ import annotations

import pytest

from benchmarks.studies import gpu_training
from benchmarks.studies.gpu_training import cases, hidden_parts, overlap_rows, shaped_graph, train_row
from gnnqlab.graph import load
from tests.slow_down import HANG_S


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(gpu_training, "HIDDEN", 8)


def test_generated_graphs_have_the_requested_shape_and_a_label(small):
    path, label = shaped_graph("ogbn-products", 2.0**-12)
    graph = load(path)
    assert label == "rmat, generated at the shape of ogbn-products, x 0.000244141"
    assert graph.num_nodes == 512 and graph.features.shape[1] == 100
    path, label = shaped_graph("reddit", 0.001)
    assert load(path).num_nodes == 233 and "sbm, generated" in label
    assert shaped_graph("reddit", 0.001) == (path, label)


def test_every_case_has_a_row_and_a_timeout_has_an_error_row(small):
    path, label = shaped_graph("reddit", 0.001)
    found = list(cases(["reddit"], ["fixed-bits"], [2], gpus=0))
    assert found == [{"graph": "reddit", "system": "fixed-bits", "workers": 2, "backend": "gloo"}]
    row = train_row(found[0], path, label, epochs=4, device="cpu", limit_s=HANG_S)
    assert row["epochs"] == 4 and row["bytes_sent"] > 0 and 0 < row["fastest_s"] <= row["epoch_s"]
    assert row["final_loss"] < row["first_loss"] and row["memory_bytes"] > 0 and "error" not in row
    late = train_row(found[0], path, label, epochs=10**6, device="cpu", limit_s=0.1)
    assert late["error"].startswith("TimeoutError")
    rows = overlap_rows(found[0] | {"system": "adaqp"}, path, label, device="cpu", limit_s=HANG_S)
    assert {(row["rank"], row["layer"]) for row in rows} == {(rank, layer) for rank in (0, 1) for layer in range(3)}
    assert all(row["contended_s"] == 0 and row["transfer_s"] > 0 for row in rows)


def test_hidden_share_and_contended_seconds_of_known_spans():
    spans = [
        [0, "forward", "encode", -1, 0.0, 1.0],
        [0, "forward", "central", -1, 1.0, 5.0],
        [0, "forward", "transfer", 1, 1.0, 3.0],
        [0, "forward", "transfer", 2, 2.0, 4.0],
        [0, "forward", "decode", -1, 4.5, 6.0],
    ]
    (row,) = hidden_parts({"rank": 0, "spans": spans})
    assert row["hidden_share"] == 0.75 and row["contended_s"] == 0.5
    assert row["transfer_s"] == 2.0 and row["central_s"] == 4.0
