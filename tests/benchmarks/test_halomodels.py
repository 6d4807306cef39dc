"""The measurement of the worked models: ratios to the float32 all-to-all, and one run of a model."""

from __future__ import annotations

from benchmarks.studies.halomodels import _rows, halomodels
from gnnqlab.course.halo_models.model_training import TrainedHere


def test_rows_compare_with_the_all_to_all():
    trained = {
        8: TrainedHere((1.0,), error=0.202, step_bytes=100.0, step_s=0.5),
        "all-to-all": TrainedHere((1.0,), error=0.2, step_bytes=400.0, step_s=1.0),
    }
    error, size, seconds = _rows("flow", trained)
    assert error["contestant"] == "8 bits" and error["goal"] and error["reached"], "one percent more is reached"
    assert (size["ratio"], seconds["ratio"]) == (4.0, 2.0) and size["value"] == 0.1
    assert not _rows("flow", {**trained, 8: TrainedHere((1.0,), 0.21, 100.0, 0.5)})[0]["reached"]


def test_ranks_of_their_own_processes_train_a_model():
    rows = halomodels(models=("flow",), workers=(2,), epochs=2)
    found = {(row["contestant"], row["metric"]): row for row in rows}
    assert found["32 bits", "bytes a step"]["ratio"] == 1.0, "the same rows, in float32"
    assert found["8 bits", "bytes a step"]["ratio"] == 3.2, "40 bytes in place of 128"
    assert found["all-gather", "bytes a step"]["ratio"] < 0.5
    assert abs(found["32 bits", "error"]["ratio"] - 1) < 1e-4
