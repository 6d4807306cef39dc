"""Lines of the page of results: the number, goal and source of a stored row; charts have the same bytes every time."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.engine.rows import row
from benchmarks.summary.chart import Dot, dot_chart, ticks
from benchmarks.summary.measures import (
    Measure,
    Shown,
    bytes_sent,
    difference,
    line,
    points,
    ratio,
    time_to_accuracy,
    value,
)

ROW = row("cora", "epoch", 2.0, "s", "vanilla", 3.0, 1.5, 2.0, contestant="adaqp")


def tables(*rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    machine = {"instruction_set": "avx512", "cores": 2, "torch": "2.13.0"}
    table = {
        "date": "2026-01-02T03:04:05",
        "device": "Some(R) Chip Processor",
        "command": "gnnqlab bench epoch --repeats 5",
    }
    return {"epoch": {**table, "machine": machine, "rows": list(rows)}}


def test_line_has_number_goal_and_source() -> None:
    found = line(Measure(text="AdaQP", part="epoch", contestant="adaqp", show=ratio, unit="× as fast"), tables(ROW))
    assert found.shown == Shown(value=1.5, unit="× as fast", goal="≥ 2") and found.reached is False
    assert found.source == "[`gnnqlab bench epoch`](../gnnqlab/results/epoch.md), Some Chip, AVX-512, 2026-01-02"
    later = tables({**ROW, "date": "2026-02-03", "command": "gnnqlab bench epoch --link 1gbit"})
    assert line(Measure(text="AdaQP", part="epoch", show=ratio), later).source.endswith("2026-02-03")


def test_line_without_a_table_names_the_command() -> None:
    found = line(Measure(text="killed", part="faults", show=value), {})
    assert found.shown is None and found.source == "`gnnqlab bench faults --keep faults`"


def test_line_needs_one_row_unless_it_takes_the_worst() -> None:
    two = tables(ROW, {**ROW, "case": "pcg", "ratio": 1.25})
    with pytest.raises(ValueError, match="'any' must be one row of the stored table 'epoch', got 2; correct its case"):
        line(Measure(text="any", part="epoch", show=ratio), two)
    with pytest.raises(ValueError, match="got 0"):
        line(Measure(text="any", part="epoch", case="citeseer", show=ratio), two)
    worst = line(Measure(text="worst of {count}", part="epoch", show=ratio, worst=True), two)
    assert worst.text == "worst of 2" and worst.shown is not None and worst.shown.value == 1.25


def test_goal_is_in_the_unit_of_the_value() -> None:
    lower = row("a", "time", 1.0, "s", "vanilla", 3.0, 3.0, 1.5)
    higher = row("a", "rate", 6.0, "GB/s", "memcpy", 3.0, 2.0, 1.5)
    share = row("a", "fewer", 40.0, "%", "paper", 31.0, 0.4, 0.25)
    limit = row("a", "buffers", 2.0, "buffers", "at most", 2.0, 1.0, 1.0)
    assert [value(each, (), "").goal for each in (lower, higher, share, limit)] == ["≤ 2", "≥ 4.5", "≥ 25", "≤ 2"]
    assert value(row("a", "right rank", 1.0, "share", "promised", 1.0, 1.0, 1.0), (), "of all").goal == "≥ 1"
    score = row("a", "score", 89.6, "%", "vanilla", 90.0, 1.25, 1.0, points=-0.4, half_interval=0.2)
    assert points(score, (), "") == Shown(value=-0.4, unit="points", half=0.2, goal="≥ \N{MINUS SIGN}0.5")
    part = row("a", "score", 80.0, "%", "DGL", 90.0, 8 / 9, 0.9)
    assert difference(part, (), "") == Shown(value=-10.0, unit="points", goal="≥ \N{MINUS SIGN}9.0")
    assert value({**lower, "goal": None}, (), "").goal == ""


def test_columns_of_studies_are_relative_to_the_baseline() -> None:
    vanilla = {**ROW, "contestant": "vanilla", "bytes_per_epoch": 100.0}
    adaqp = {**ROW, "bytes_per_epoch": 25.0, "reached_by": 5, "seeds": 5, "faster_to_target": 1.25}
    assert bytes_sent(adaqp, [vanilla, adaqp], "").value == 0.25
    assert time_to_accuracy(adaqp, (), "").value == 1.25
    assert time_to_accuracy({**adaqp, "reached_by": 3}, (), "") == Shown(value=3, unit="of 5 seeds")


def test_chart_is_svg_with_named_axis_and_shapes() -> None:
    dots = [Dot(name="A & B", series="one", value=1.0, half=0.5), Dot(name="A & B", series="two", value=-2.0)]
    text = dot_chart("Scores", "points", dots, reference=0.0)
    assert text == dot_chart("Scores", "points", dots, reference=0.0) and len(text) < 100_000
    root = ElementTree.fromstring(text)
    tags = [each.tag.partition("}")[2] for each in root.iter()]
    assert tags.count("circle") == 2 and root.get("aria-label") == "Scores"  # one in the legend
    words = [each.text for each in root.iter() if each.tag.endswith("}text")]
    assert {"Scores", "points", "A & B", "one", "two", "\N{MINUS SIGN}2"} <= set(words)
    with pytest.raises(ValueError, match="at least one dot and at most 3 series, got 0"):
        dot_chart("Scores", "points", [], reference=0.0)


def test_ticks_cover_the_range_in_round_steps() -> None:
    assert ticks(-8.3, 1.5) == [-10.0, -8.0, -6.0, -4.0, -2.0, 0.0, 2.0]
    assert ticks(0.0, 0.0) == [0.0, 0.2]
