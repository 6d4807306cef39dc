"""The cache view shows the recorded rows of one run, of several runs, and in reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.lab.training.cache_view import draw_cache, sent_by_layer
from gnnqlab.lab.training.comparison_table import match_evaluations
from gnnqlab.lab.training.snapshot import Snapshot, take
from gnnqlab.train.records.cache_stats import read_cache
from tests.lab.synthetic import make_run


def cached(*, epochs: int = 3, every: int = 1, epsilon: bool = True) -> Snapshot:
    """Two workers send 4 - epoch - layer of 4 rows."""
    counts = pd.DataFrame(
        [(epoch, rank, layer, "forward", 0, 4 - epoch - layer, 4, 0.05 + 0.01 * epoch if epsilon else None)
         for epoch in range(3) for rank in range(2) for layer in range(2)],
        columns=["epoch", "rank", "layer", "direction", "round", "rows_sent", "rows_offered", "epsilon"],
    ).astype({"epsilon": float})  # fmt: skip
    return replace(take(make_run("cdfgnn", epochs=epochs, every=every)), cache=counts)


def test_cache_chart_shows_the_recorded_rows() -> None:
    run = cached()
    bundle = draw_cache(run)
    traces = {trace.name: trace for trace in bundle.figure.data}
    assert list(traces["layer 0"].y) == [100, 75, 50] and list(traces["layer 1"].y) == [75, 50, 25]
    assert list(traces["ε"].y) == pytest.approx([0.05, 0.06, 0.07])
    scores = run.records[run.records["rank"] == 0]["val_score"]
    assert list(traces["validation"].y) == pytest.approx(list(100 * scores))
    assert bundle.figure.layout.meta["caption"].startswith(
        "Over the whole training 38 % of the rows were skipped; ε went"
    )
    assert run.cache is not None and sent_by_layer(run.cache)[1].tolist() == [0.75, 0.5, 0.25]
    assert list(bundle.frame) == ["layer 0", "layer 1", "epsilon"]


def test_a_cache_with_another_rule_has_no_panel_of_epsilon() -> None:
    bundle = draw_cache(cached(epsilon=False))
    assert [trace.name for trace in bundle.figure.data] == ["layer 0", "layer 1", "training", "validation"]
    assert "nan" not in bundle.figure.layout.meta["caption"] and list(bundle.frame) == ["layer 0", "layer 1"]
    axes = [bundle.figure.layout[f"yaxis{number}"].title.text for number in ("", "2")]
    assert axes == ["rows sent (%)", "accuracy (%)"]


def test_comparison_draws_the_cache_of_the_selected_run() -> None:
    comparison = gq.compare([make_run(epochs=3), cached()])
    bundle = comparison.cache(1)
    assert bundle.figure.layout.title.text == "Rows sent by the cache of cdfgnn"
    assert list(bundle.figure.data[0].y) == [100, 75, 50] and "Link: loopback" in bundle.figure.layout.meta["caption"]
    with pytest.raises(
        ValueError, match="must have a cache to be drawn, got vanilla without one; launch it with cache="
    ):
        comparison.cache()


def test_a_run_that_was_looked_at_more_often_keeps_its_cache() -> None:
    often, _ = match_evaluations([cached(epochs=9), take(make_run(epochs=9, every=3))])
    assert "looks" in often.summary and often.cache is not None and len(often.cache) == 12


def test_the_report_draws_each_cache_and_no_run_without_one(tmp_path: Path) -> None:
    none = replace(take(make_run("sylvie", epochs=3)), cache=cached().cache.head(0))  # type: ignore[union-attr]
    text = gq.compare([make_run(epochs=3), none, cached()]).report(tmp_path / "report.html").read_text()
    assert text.count("sent by the cache") == text.count("Rows sent by the cache of cdfgnn") > 0
    assert "38 % of the rows were skipped" in text


def test_a_handle_of_a_folder_is_taken_with_its_cache(tmp_path: Path) -> None:
    lines = [{"epoch": epoch, "rows": [], "cache": [[0, "forward", 0, 3, 4, None]]} for epoch in range(2)]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (tmp_path / "traffic-rank0.jsonl").write_text(text)

    class Handle:
        folder = tmp_path
        records, traffic, config, summary = (getattr(make_run(epochs=2), name) for name in
                                             ("records", "traffic", "config", "summary"))  # fmt: skip

        @property
        def cache(self) -> pd.DataFrame:
            return read_cache(self.folder)

    taken = take(Handle())
    assert taken.cache is not None and taken.cache["rows_sent"].tolist() == [3, 3]
    assert take(make_run(epochs=2)).cache is None
