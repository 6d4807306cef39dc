"""What is shown of all systems is what was kept, and what chance may have done is not told as a difference."""

from __future__ import annotations

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.course.verdict_views import draw_verdict, verdict


def _rows(figures: list[str], values: list[float], points: list[float]) -> pd.DataFrame:
    facts = {"part": "systems", "case": "cora, gcn, 2 workers over 1mbit", "unit": "s"}
    return pd.DataFrame({**facts, "figure": figures, "value": values, "points": points, "half_interval": 0.5})


def test_each_is_held_against_vanilla_with_the_same_services() -> None:
    found = _rows(["vanilla", "vanilla+", "adaqp", "adaqp+"], [8.0, 4.0, 4.0, 3.0], [0.0, 0.0, 0.4, -0.6])
    assert verdict(found, services=False).loc["adaqp", "cora, gcn"] == 2.0
    table = verdict(found)
    assert table.loc["adaqp", "cora, gcn"] == pytest.approx(4 / 3)
    assert table.attrs["points"].loc["adaqp", "cora, gcn"] == -0.6
    assert verdict(found, services=False).attrs["points"].isna().all().all()


def test_cells_say_what_the_table_says() -> None:
    [cells] = draw_verdict(verdict(_rows(["vanilla", "adaqp"], [3.0, 2.0], [0.0, 2.0]), services=False)).figure.data
    assert cells.text[1][0] == "1.50 ×<br>+2.0" and cells.text[0][0] == "1.00 ×"
    with pytest.raises(ValueError, match="got none; keep them with --keep systems"):
        verdict(_rows(["adaqp"], [1.0], [0.0]))


def test_the_kept_table_has_every_case() -> None:
    table = verdict(gq.bench_results())
    assert table.shape[1] >= 5 and table.notna().all().all() and (table.loc["vanilla"] == 1.0).all()
