"""The breakdown and accuracies of CDFGNN: the arithmetic on made-up outcomes, and one real measurement."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.studies.cdfgnn import cdfgnn, lines, table
from gnnqlab.study import RunResult


def test_times_are_relative_to_baseline_and_scores_to_full_batch() -> None:
    def of(score: float, **seconds: float) -> list[RunResult]:
        return [RunResult(score=score, **seconds), RunResult(score=score + 0.01, **seconds)]

    found = {
        "full batch": of(0.90),
        "mini-batch": of(0.80),
        "baseline": of(0.90, computation_s=1.0, communication_s=4.0, gradients_s=0.5, train_s=9.0, bytes_sent=8e6),
        "both": of(0.91, computation_s=1.0, communication_s=1.0, gradients_s=0.5, train_s=6.0, bytes_sent=1e6),
    }
    rows = {row["figure"]: row for row in table("made up", found)}
    assert rows["both: communication of an epoch"]["ratio"] == 4.0 and rows["both: sent an epoch"]["ratio"] == 8.0
    assert (
        rows["both: computation of an epoch"]["ratio"] == rows["both: of it the sum of weight gradients"]["ratio"] == 1
    )
    assert rows["both: all epochs of a training"]["ratio"] == 1.5
    assert rows["both: test score, +1.00 ± 0.00 points"]["rival_value"] == pytest.approx(90.5)
    assert rows["mini-batch: test score, -10.00 ± 0.00 points"]["points"] == pytest.approx(-10)
    assert [name for name in rows if name.startswith("mini-batch")] == ["mini-batch: test score, -10.00 ± 0.00 points"]
    assert not any(name.startswith("full batch: ") and "score" not in name for name in rows)


def test_lines_differ_in_cache_and_codec_alone() -> None:
    found = lines()
    names = {name: (type(one.cache).__name__, type(one.codec).__name__) for name, one in found.items()}
    assert names == {
        "baseline": ("NoCache", "Float32"),
        "cache": ("AdaptiveCache", "Float32"),
        "quantize": ("NoCache", "Linear"),
        "both": ("AdaptiveCache", "Linear"),
        "both as printed": ("AdaptiveCache", "Linear"),
        "baseline meeting": ("NoCache", "Float32"),
        "both meeting": ("AdaptiveCache", "Linear"),
    }
    assert {name: one.cache.rule for name, one in found.items() if name.startswith("both")} == {
        "both": "text", "both as printed": "equation", "both meeting": "text",
    }  # fmt: skip
    assert len({(one.partition, one.schedule) for one in found.values()}) == 1
    assert {name for name, one in found.items() if one.exchange.hierarchical} == {"baseline meeting", "both meeting"}


@pytest.mark.slow
def test_all_lines_are_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = cdfgnn(graph="sbm:80,3,6", seeds=1, epochs=6, trainings=str(tmp_path))
    rows = {row["figure"].partition(",")[0]: row for row in found}
    sent = {name: rows[f"{name}: sent an epoch"]["value"] for name in lines()}
    assert sent["both"] < sent["quantize"] < sent["baseline"] and sent["cache"] < sent["baseline"]
    for name in lines():
        gradients = rows[f"{name}: of it the sum of weight gradients"]["value"]
        assert 0 < gradients < rows[f"{name}: communication of an epoch"]["value"]
    assert "full batch" in capsys.readouterr().err
