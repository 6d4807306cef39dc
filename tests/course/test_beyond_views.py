"""Views of the last notebook: counted, predicted and measured values are drawn; gains are computed by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from gnnqlab.course import beyond_views as views
from gnnqlab.tune.at_scale import at_scale
from tests.tune.probes import written_down

PARTS = ("computing_s", "coding_s", "wire_s", "reduce_s", "uneven_s")


def _found(**seconds: tuple[float, float]) -> pd.DataFrame:
    """Make results for two numbers of workers per system; a tenth of the epoch sums gradients, half is the wire."""
    rows = []
    for system, epochs in seconds.items():
        for workers, epoch in zip((2, 8), epochs):
            parts = dict(zip(PARTS, (0.2 * epoch, 0.1 * epoch, 0.5 * epoch, 0.1 * epoch, 0.1 * epoch)))
            rows.append({"system": system, "workers": workers, "epoch_s": epoch, **parts, "bytes": 100.0 * workers})
    return pd.DataFrame(rows)


FOUND = _found(vanilla=(0.4, 0.2), adaqp=(0.2, 0.2))


def _run(workers: int, epoch_s: float) -> Any:
    epochs = [epoch for epoch in range(8) for _ in range(workers)]
    records = pd.DataFrame({"epoch": epochs, "rank": list(range(workers)) * 8})
    records = records.assign(
        epoch_s=epoch_s, assign_s=0.0, central_s=0.01, wait_s=0.0, bytes_payload=90, bytes_params=5
    )
    # the first three are left out, and half of one has little weight
    records.loc[records["epoch"] < 4, "epoch_s"] = 9.0
    return SimpleNamespace(records=records)


def test_counts_are_drawn_as_they_are():
    index = pd.Index([2, 4], name="workers")
    table = pd.DataFrame({"halo_share": [0.5, 1.0], "central_share": [0.25, 0.125], "held_rows": [30, 20]}, index=index)
    drawn = views.draw_cut_costs({"one": table, "other": 2 * table})
    lines = {(trace.name, trace.yaxis): list(trace.y) for trace in drawn.figure.data}
    assert lines["one", "y"] == [0.5, 1.0] and lines["one", "y2"] == [25.0, 12.5] and lines["other", "y3"] == [60, 40]
    assert drawn.frame.loc[("other", 4), "held_rows"] == 40
    with pytest.raises(ValueError, match="one or 2 graphs can be drawn, got 0"):
        views.draw_cut_costs({})


def test_predicted_epochs_are_compared_with_measured_epochs(monkeypatch):
    seen = {0.5: 0.5, 0.1: 0.1}
    monkeypatch.setattr(
        views, "read_epoch_time", lambda run, quantile: SimpleNamespace(epoch_s=seen[run.records["epoch_s"].iloc[-1]])
    )
    runs = cast("Any", {("vanilla", 2): _run(2, 0.5), ("adaqp", 8): _run(8, 0.1)})
    table = views.compare_with_measured(FOUND, runs)
    assert table["predicted_ms"].tolist() == [400, 200] and table["measured_ms"].tolist() == [500, 100]
    assert table["error_percent"].tolist() == pytest.approx([-20, 100])
    assert table["predicted_bytes"].tolist() == [200, 800] and table["sent_bytes"].tolist() == [2 * 95, 8 * 95]
    drawn = views.draw_epochs(FOUND, table, title="any").figure
    marks = {trace.name: (list(trace.x), list(trace.y)) for trace in drawn.data}
    assert marks["vanilla"] == ([2, 8], [400, 200]) and marks["vanilla, measured"] == ([2], [500])
    assert "off by 60 % (median), 100 % (worst)" in drawn.layout.meta["caption"]
    with pytest.raises(ValueError, match="an epoch at least is needed"):
        views.draw_epochs(FOUND.iloc[:0], title="any")


def test_parts_are_shares_of_an_epoch():
    drawn = views.draw_parts(FOUND)
    assert drawn.frame.sum(axis=1).tolist() == pytest.approx([100] * 4)
    assert drawn.frame.loc[("adaqp", 2), "wire_s"] == 50 and len(drawn.figure.data) == 2 * 5
    with pytest.raises(ValueError, match="between 1 and 4 systems can be drawn, got 0"):
        views.draw_parts(FOUND.iloc[:0])


def test_gains_are_factors_over_the_same_place():
    table = views.gains({"1gbit": FOUND, "10gbit": _found(vanilla=(0.1, 0.1), adaqp=(0.2, 0.05))})
    said = table.set_index(["link", "workers"])["gain"]
    assert said["1gbit", 2] == 2 and said["1gbit", 8] == 1 and said["10gbit", 2] == 0.5 and said["10gbit", 8] == 2
    assert set(table["system"]) == {"adaqp"} and set(table["bits_per_s"]) == {1e9, 1e10}
    drawn = views.draw_gain(table, system="adaqp").figure
    assert [list(trace.y) for trace in drawn.data] == [[2, 0.5], [1, 2]]
    with pytest.raises(ValueError, match="must have 1 to 4 numbers of workers to be drawn, got 0"):
        views.draw_gain(table, system="vanilla")
    with pytest.raises(ValueError, match=r"over must be one of \['adaqp'\], got 'vanilla'"):
        views.gains({"1gbit": FOUND[FOUND["system"] == "adaqp"]})


def test_extrapolated_epochs_grow_only_by_the_ring_reduction():
    told = views.extrapolate_epochs(FOUND, workers=101, gradient_bytes=1010.0, bytes_per_s=1e4, latency_s=0.001)
    assert told["all_but_reduce_s"].tolist() == pytest.approx([0.18, 0.18])
    assert told["reduce_s"].tolist() == pytest.approx([2 * 100 / 101 * 0.101 + 0.2] * 2)
    assert told["reduce_percent"].tolist() == [69.0, 69.0]


def test_beyond_claims_hold_with_written_down_seconds():
    """The notebook prints these claims for this machine's own seconds, so it cannot guarantee them."""
    probe, names = written_down(2), {name: name for name in ("vanilla", "fixed-bits", "adaqp")}
    links, cluster = ("1mbit", "10mbit", "100mbit", "1gbit"), {"speed": 30.0, "gamma_s": 0.01, "latency_s": 0.001}
    by_link = {link: at_scale(probe, names, workers=(4, 8, 16, 32), link=link, **cluster) for link in links}
    parts = by_link["1mbit"].assign(share=lambda found: found["reduce_s"] / found["epoch_s"])
    share = parts.pivot(index="workers", columns="system", values="share")
    assert (share.diff().iloc[1:] > 0).all(axis=None), "the sum of gradients takes a growing share"
    assert (share["fixed-bits"] > share["vanilla"]).all(), "other parts get shorter, this one does not"
    gain = views.gains(by_link).pivot(index="bits_per_s", columns=["system", "workers"], values="gain")
    assert (gain.diff().iloc[1:] < 0).all(axis=None), "few bits gain less over a faster link"
    for workers in (2, 3):
        bits = written_down(workers).forecast(system="adaqp").bytes_sent
        found = at_scale(probe, {"adaqp": "adaqp"}, workers=(workers,))["bytes"].item()
        assert found == pytest.approx(bits, rel=0.2), "assigned bit-widths are scaled with their mean"
