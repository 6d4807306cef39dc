"""Sampled neighbours compared with the whole graph: the arithmetic on made-up scores, and one real measurement."""

from __future__ import annotations

import pytest

from benchmarks.studies.fanouts import FANOUTS, fanouts, table


def test_differences_are_of_the_same_seed() -> None:
    found = {"full graph": [0.80, 0.90, 0.85], "fan-out 5": [0.78, 0.88, 0.83], "fan-out 15": [0.80, 0.91, 0.84]}
    five, fifteen = table("made up", found)
    assert five["points"] == pytest.approx(-2.0) and five["half_interval"] == pytest.approx(0.0, abs=1e-9)
    assert (five["value"], five["rival"], five["rival_value"]) == (pytest.approx(83), "full graph", pytest.approx(85))
    assert five["figure"] == "fan-out 5: test score, -2.00 ± 0.00 points" and five["goal"] is None
    assert fifteen["points"] == pytest.approx(0.0, abs=1e-9) and fifteen["half_interval"] > 1


@pytest.mark.slow
def test_every_fan_out_of_the_table_trains_above_80_percent(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("dgl")
    rows = fanouts(graph="digits", seeds=1, epochs=6, batch_size=128)
    assert [row["figure"].partition(":")[0] for row in rows] == [f"fan-out {fanout}" for fanout in FANOUTS]
    assert all(row["value"] > 80 and row["rival_value"] > 20 for row in rows)  # six steps, or six times six
    assert "4 of 4: digits, graphsage, 1 workers, seed 0, fan-out 15" in capsys.readouterr().err
