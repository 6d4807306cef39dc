"""Rows within hosts and between them, drawn."""

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.course.tier_views import draw_connections, tier_table

TABLE = pd.DataFrame({"inner": [100, 160], "outer": [80, 50]}, index=pd.Index([0.0, 0.1], name="γ"))


def test_both_tiers_over_gamma() -> None:
    drawn = draw_connections(TABLE)
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in drawn.figure.data] == [
        ("within hosts", [0.0, 0.1], [100, 160]),
        ("between hosts", [0.0, 0.1], [80, 50]),
    ]
    assert drawn.figure.layout.xaxis.title.text.startswith("γ") and drawn.frame is TABLE
    with pytest.raises(ValueError, match="at least one γ"):
        draw_connections(TABLE[:0])


def test_forecasts_side_by_side() -> None:
    probe = gq.probe("sbm:60,3,8", workers=2, layers=2, hidden=4, launched=False, epochs=3, theorem=False)
    found = tier_table({name: probe.forecast(system=name) for name in ("vanilla", "fixed-bits")})
    assert found.loc[("vanilla", "inner"), "bytes"] > found.loc[("fixed-bits", "inner"), "bytes"] > 0
    assert found.loc[("vanilla", "outer"), "bytes"] == 0
