"""The pass between convolutions, measured: every line is present, each with its rival."""

from __future__ import annotations

import torch

from benchmarks.kernels.nodewise import ACTIVATIONS, JUMPS, MODELS, nodewise
from tests.benchmarks.answers import here


def test_passes_and_epochs_are_measured() -> None:
    rows = here(nodewise)(1, graph="sbm:200,3,6", rows=300, columns=16)
    rivals = [row["rival"] for row in rows]
    assert rivals.count("one step after another") == 2 + len(ACTIVATIONS) + 2 * len(JUMPS) + len(MODELS) - 1
    assert rivals.count("memcpy of the rows") == 2 and rivals.count("memcpy of the layers") == 2 * len(JUMPS)
    cases = [row["case"].split(",")[0] for row in rows if row["rival"] == "memcpy of the layers"]
    assert cases == [f"join {jump} of 3 x 300 x 16" for jump in JUMPS for _ in range(2)]
    assert [row["case"] for row in rows if row["rival"] == "its joins in steps"] == [
        f"sbm:200,3,6, jknet {jump} 3 x 16, one worker, {torch.get_num_threads()} thread(s)" for jump in JUMPS
    ]
    assert all(row["value"] > 0 and row["ratio"] > 0 for row in rows)
    (share,) = [row for row in rows if row["unit"] == "%"]
    assert share["rival_value"] == 15.0 and share["reached"] == (share["value"] <= 15.0)
