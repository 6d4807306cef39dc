"""Runs as rows, seeds as groups, the front, and the table: of launched runs, and of broken folders."""

from __future__ import annotations

import json
import math
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.lab.listing import RunBrowser, group_by_settings, run_row
from gnnqlab.lab.listing.front_view import draw_front, find_pareto_front
from gnnqlab.lab.listing.run_rows import Row, format_groups
from gnnqlab.lab.listing.run_table import rows_html
from tests.slow_down import HANG_S


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two seeds of one setting, another setting, and a folder with a truncated configuration."""
    root = tmp_path_factory.mktemp("runs")
    shape = {"workers": 1, "layers": 2, "hidden": 8, "epochs": 6, "out": root, "wait": True}
    for asked in ({"seed": 0}, {"seed": 1}, {"system": "fixed-bits", "bits": 4, "workers": 2}):
        gq.launch("sbm:60,3,6", **{**shape, **asked})
    torn = root / "torn"
    torn.mkdir()
    (torn / "config.json").write_text("{")
    yield root


def test_row_has_the_settings_and_results_of_its_run(folder: Path) -> None:
    run = next(run for run in gq.runs(folder) if "fixed" in run.id)
    row = run_row(run)
    assert (row.status, row.system, row.recipe_text, row.graph) == ("finished", "fixed-bits", "bits 4", "sbm:60,3,6")
    assert (row.model, row.workers, row.seed, row.epochs) == ("gcn 2 x 8", 2, 0, 6)
    assert row.score == run.summary["test_accuracy"] and row.train_s == pytest.approx(run.summary["train_s"])
    assert row.curve == tuple(round(score, 4) for score in run.records.query("rank == 0")["val_score"])
    assert row.size > 1000 and not row.trouble


def test_row_names_replaced_parts_in_place_of_their_settings(folder: Path, tmp_path: Path) -> None:
    run = next(run for run in gq.runs(folder) if "fixed" in run.id)
    # Without the folder that the run's guard still removes after the run has ended.
    shutil.copytree(run.folder, tmp_path / run.id, ignore=shutil.ignore_patterns("tmp"))
    config = json.loads((tmp_path / run.id / "config.json").read_text())
    system = gq.systems.adaqp(lam=0.3, parameters="bfloat16").replace(bits=gq.bits.Fixed(bits=4))
    stored = gq.configure("sbm:60,3,6", system=system).to_json()
    (tmp_path / run.id / "config.json").write_text(
        json.dumps(config | {"system": stored["system"], "recipe": stored["recipe"]})
    )
    (row,) = (run_row(each) for each in gq.runs(tmp_path))
    assert (row.system, row.recipe_text) == ("adaqp", "parameters bfloat16, bits=fixed:bits=4")


def test_a_torn_folder_is_a_row_of_its_own(folder: Path) -> None:
    rows = {row.id: row for row in gq.runs(folder).browse().rows}
    assert len(rows) == 4 and rows["torn"].status == "unreadable" and "config.json" in rows["torn"].trouble
    assert rows["torn"].size == 1


def test_runs_that_differ_only_in_the_seed_are_grouped(folder: Path) -> None:
    groups = gq.runs(folder).browse().groups()
    assert groups[["system", "seeds"]].to_numpy().tolist() == [["vanilla", 2], ["fixed-bits", 1]]
    scores = [run.summary["test_accuracy"] for run in gq.runs(folder) if "vanilla" in run.id]
    assert groups.loc[0, "score"] == pytest.approx(sum(scores) / 2)
    assert groups.loc[0, "score_half"] == pytest.approx(12.706 * abs(scores[0] - scores[1]) / 2, rel=1e-3)
    assert math.isnan(groups.loc[1, "score_half"]) and len(groups.loc[0, "runs"]) == 2


def test_runs_that_differ_in_other_settings_are_not_grouped() -> None:
    base = Row(id="a", status="finished", group="x", seed=0, score=0.5, train_s=1.0)
    other = replace(base, id="b", group="y", seed=1)
    running = replace(base, id="c", status="running", score=None)
    assert group_by_settings([base, other, running])["seeds"].tolist() == [1, 1]
    assert group_by_settings([]).empty and "score_half" in group_by_settings([])


def test_the_front_are_those_that_no_other_surpasses() -> None:
    table = pd.DataFrame({"score": [0.9, 0.8, 0.7, 0.9, 0.95], "train_s": [5.0, 2.0, 3.0, 6.0, math.nan]})
    assert find_pareto_front(table) == [True, True, False, False, False]


def test_the_front_is_drawn_with_intervals(folder: Path) -> None:
    browser = gq.runs(folder).browse()
    groups = browser.groups()
    figure = browser.front().figure
    drawn = {trace.name: trace for trace in figure.data}
    assert drawn["vanilla"].y[0] == pytest.approx(100 * groups.loc[0, "score"])
    assert drawn["vanilla"].error_y.array[0] == pytest.approx(100 * groups.loc[0, "score_half"])
    assert drawn["fixed-bits"].error_y.array[0] == 0.0
    low, high = figure.layout.yaxis.range
    assert low > -7 and high < 107, "two seeds give a wide interval; a score is in [0, 100]"
    least, most = figure.layout.xaxis.range
    assert least > -0.07 * most, "no seconds are below 0, however wide the interval"
    words = format_groups(groups)
    assert words.index.tolist() == ["vanilla", "fixed-bits (bits 4)"] and " ± " in words.loc["vanilla", "test (%)"]
    assert words["seeds"].tolist() == [2, 1] and "±" not in words["total (s)"].iloc[1]
    sent = {trace.name: trace for trace in browser.front(cost="bytes_sent").figure.data}
    assert sent["fixed-bits"].x[0] == pytest.approx(groups.loc[1, "bytes_sent"] / 1000)


def test_sweep_contains_the_selected_finished_runs(folder: Path) -> None:
    browser = gq.runs(folder).browse()
    sweep = browser.sweep()
    assert sweep.names == tuple(run.id for run in gq.runs(folder) if run.id != "torn")
    assert [one.name for one in sweep.factors] == ["system"] and "workers" in sweep.factors[0].dependent_names
    frame = browser.parallel().frame
    rows = {row.id: row for row in browser.rows}
    assert frame["test score (%)"].tolist() == pytest.approx([100 * rows[name].score for name in sweep.names])
    with pytest.raises(ValueError, match="at least two finished runs, got 1"):
        browser.parallel([sweep.names[2]])
    with pytest.raises(ValueError, match="at least 4 finished runs, got 3"):
        browser.importance()
    compared = gq.compare([run for run in gq.runs(folder) if run.id != "torn"])
    assert compared.parallel().frame.to_numpy().tolist() == frame.to_numpy().tolist()


def test_panel_buttons_show_the_sweep_and_display_errors(folder: Path) -> None:
    panel = gq.runs(folder).browse().panel
    assert "3 runs as lines" in panel._sweep() and panel.figure.data[0]["type"] == "parcoords"
    assert "fixed-bits" in panel.result.value and panel.buttons["Importance"].tooltip
    panel._do(panel._importance)
    for thread in threading.enumerate():
        if thread.name == "gnnqlab runs":
            thread.join(HANG_S)
    assert "at least 4 finished runs, got 3" in panel.words.value
    panel.close()


@pytest.mark.parametrize(
    ("table", "cost", "text"),
    [
        (group_by_settings([]), "train_s", "a front needs at least one finished run, got none"),
        (group_by_settings([]), "money", r"cost must be one of \['bytes_sent', 'train_s'\], got 'money'"),
        (pd.DataFrame({"graph": ["a", "b"]}), "train_s", "runs of a front must be of one graph, got a, b"),
    ],
)
def test_front_of_invalid_runs_or_cost_raises_value_error(table: pd.DataFrame, cost: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        draw_front(table, cost=cost)


def test_without_a_kernel_the_table_stays(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    bundle = gq.runs(folder)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"} and bundle["text/html"].count("<tr>") == 5
    names = re.findall('<th scope="col">([^<]*)</th>', bundle["text/html"])
    assert names.index("validation") == names.index("test") + 1, "a narrow page still shows the curves"
    assert "fixed-bits (bits 4)" in bundle["text/html"] and bundle["text/html"].count("<svg") == 3
    assert isinstance(gq.runs(folder), list) and len(gq.runs(folder)[:2]) == 2


def test_names_are_no_markup() -> None:
    assert "<script>" not in rows_html([Row(id="x", status="finished", system="<script>")])


def test_runs_that_have_ended_are_read_once(folder: Path, monkeypatch) -> None:
    browser = RunBrowser(gq.runs(folder))
    first = browser.rows
    monkeypatch.setattr("gnnqlab.lab.listing.browser.run_row", lambda run: pytest.fail(run.id) if run.id != "torn" else
                        Row(id="torn", status="unreadable"))  # fmt: skip
    assert [row.id for row in browser.rows] == [row.id for row in first]
    json.dumps(browser.to_frame().reset_index().to_dict("list"), default=str)


def test_where_one_run_is_refused_those_deleted_before_it_leave_the_table(tmp_path: Path, monkeypatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{")
    panel = gq.runs(tmp_path).browse().panel

    def delete(run: gq.Run) -> gq.Run:
        if run.id == "second":
            raise RuntimeError("a run must have ended before it is deleted")
        return run

    monkeypatch.setattr("gnnqlab.run.disk_usage.set_aside", delete)
    panel.table.tick(["first", "second"])
    with pytest.raises(RuntimeError, match="must have ended"):
        panel._delete()
    assert list(panel.browser.runs) == ["second"] == panel.table.ticked
    panel.close()


def test_deleted_runs_come_back_with_undo(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{")
        (tmp_path / name / "status.json").write_text('{"state": "finished"}')
    panel = gq.runs(tmp_path).browse().panel
    panel.table.tick(["first"])
    assert "Undo" in panel._delete() and [run.id for run in gq.runs(tmp_path)] == ["second"] == list(panel.browser.runs)
    panel._undo()
    assert [run.id for run in gq.runs(tmp_path)] == ["first", "second"] == sorted(panel.browser.runs)
    with pytest.raises(ValueError, match="is back already"):
        panel._undo()
    panel.close()


def test_name_and_tags_are_given_to_ticked_runs(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{")
    panel = gq.runs(tmp_path).browse().panel
    panel.table.tick(["first", "second"])
    panel.tags.value = "paper, slow"
    panel._label()
    assert [run.tags for run in gq.runs(tmp_path)] == [("paper", "slow")] * 2
    panel.name.value = "one"
    with pytest.raises(ValueError, match="a name is for one run, got 2 ticked"):
        panel._label()
    panel.table.tick(["second"])
    panel._label()
    assert [run.name for run in gq.runs(tmp_path)] == ["", "one"]
    panel.name.value = panel.tags.value = ""
    with pytest.raises(ValueError, match="a name or tags must be given"):
        panel._label()
    panel.close()


def test_settings_that_all_runs_share_stand_above_the_table() -> None:
    rows = [Row(id=str(seed), status="finished", graph="digits", workers=2, seed=seed) for seed in (0, 1)]
    page = rows_html(rows)
    names = re.findall('<th scope="col">([^<]*)</th>', page)
    assert "seed" in names and not {"graph", "workers", "model", "name"} & set(names)
    assert "all with graph digits, workers 2</caption>" in page
    assert "graph" in rows_html(rows[:1]), "one run has no other to differ from"
