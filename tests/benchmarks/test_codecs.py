"""The tables of codecs: choices, measurements, made-up and real trainings, and refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.studies import codecs as bench
from benchmarks.studies import spectrum
from benchmarks.studies.codec_trainings import LINES, codec_trainings, compare_lines, lines
from benchmarks.studies.codecs import codecs
from gnnqlab.bits.row import row_bytes
from gnnqlab.results import join
from gnnqlab.simulation.codec_error import RowsKey
from gnnqlab.study import RunResult


def training(score: float, at: int | None = 2) -> RunResult:
    """Make a training that has its best validation score after so many epochs of 1 MB, or never."""
    curve = ((1, 1.0, 0.1), *(((at, 2.0, 0.8),) if at else ()))
    return RunResult(score=score, bits=1.0, curve=curve, epochs=4, epochs_bytes=(1e6,) * 4)


def test_scores_are_paired_and_bytes_are_those_until_vanillas_accuracy() -> None:
    found = {
        "vanilla": [training(0.90), training(0.91), training(0.92)],
        "1-bit": [training(0.895), training(0.904), training(0.914)],
        "1-bit-r": [training(0.899), training(0.908), training(0.918)],
        "sylvie": [training(0.90, at=4), training(0.90, at=3), training(0.9, at=None)],
        "sylvie-r": [training(0.90, at=2), training(0.90, at=1), training(0.9, at=1)],
    }
    rows = {each["figure"].partition(":")[0] + str(each["unit"]): each for each in compare_lines("made up", found)}
    assert rows["1-bit-r%"]["points"] == pytest.approx(-0.5 / 3) and rows["1-bit-r%"]["goal"] is None
    lost = rows["1-bit-rpoints"]  # -0.1, -0.2, -0.2: t of two degrees of freedom
    assert lost["value"] == pytest.approx(0.5 / 3 + 4.303 * 0.1 / 3, rel=1e-3) and lost["reached"] is False
    assert rows["1-bit%"]["points"] == pytest.approx(-1.7 / 3) and rows["1-bit%"]["goal"] is None
    fewer = rows["sylvie-rMB"]
    assert fewer["ratio"] == pytest.approx(math.sqrt(2 * 3)) and fewer["reached"], "4 MB over 2, and 3 over 1"
    assert (fewer["value"], fewer["rival_value"]) == (1.5, 3.5) and "3 of 3 reach it, sylvie 2)" in fewer["figure"]
    half = 12.706 * math.log(1.5) / 2  # t of one degree of freedom, standard error of two logarithms
    assert math.log(fewer["high"] / fewer["ratio"]) == pytest.approx(half, rel=1e-3) and fewer["low"] < 1
    same = found | {"1-bit-r": found["vanilla"]}
    (none_lost,) = [each for each in compare_lines("made up", same) if each["unit"] == "points"]
    assert none_lost["value"] == 0 and none_lost["ratio"] == pytest.approx(30) and none_lost["reached"]
    beside = {
        each["rival"]: each for each in compare_lines("made up", found) if each["figure"].startswith("1-bit-r: bytes")
    }
    assert beside["1-bit"]["goal"] == 1.5 and beside["sylvie"]["goal"] is None
    assert beside["sylvie"]["ratio"] == pytest.approx(math.sqrt(2 * 1.5)), "4 MB over 2, and 3 over 2"
    never = {"vanilla": found["vanilla"], "adaqp": [training(0.9, at=None)] * 3, "adaqp-r": found["sylvie-r"]}
    last = compare_lines("made up", never)[-1]
    assert last["value"] is None and last["reached"] is None and "3 of 3 reach it, adaqp 0)" in last["figure"]


def test_bytes_are_added_up_epoch_by_epoch_and_survive_json() -> None:
    curve = ((1, 1.0, 0.5), (3, 2.0, 0.9))
    one = RunResult(score=0.9, bits=1, curve=curve, epochs_bytes=(5.0, 1.0, 2.0, 9.0))
    assert (one.bytes_to(0.4), one.bytes_to(0.9)) == (5.0, 8.0) and math.isnan(one.bytes_to(0.95))
    assert RunResult.from_json(one.to_json()) == one
    old = {name: value for name, value in one.to_json().items() if name != "epochs_bytes"}
    assert RunResult.from_json(old).epochs_bytes == ()


def test_rows_of_both_codes_take_as_many_bytes_on_every_line() -> None:
    made = lines()
    assert tuple(made) == LINES and list(lines(["sylvie-r"])) == ["vanilla", "sylvie-r"]
    for name in ("1-bit", "adaqp", "sylvie"):
        ours, theirs = (made[each].codec.param_bytes for each in (f"{name}-r", name))
        for bits in (1, 2, 4):
            assert row_bytes(bits, 256, ours) == row_bytes(bits, 256, theirs), name
        assert made[f"{name}-r"].bits == made[name].bits and made[f"{name}-r"].schedule == made[name].schedule


def test_once_for_real_and_found_again(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"seeds": 1, "graph": "digits", "systems": ("1-bit", "1-bit-r"), "epochs": 4,
                                "workers": (2,), "trainings": str(tmp_path)}  # fmt: skip
    rows = codec_trainings(**settings)
    assert [each["figure"].partition(":")[0] for each in rows] == ["1-bit"] * 2 + ["1-bit-r"] * 4
    assert rows[1]["value"] == 1.0 == rows[4]["value"]
    kept = (tmp_path / "cells.jsonl").read_text()
    assert codec_trainings(**settings) == rows and (tmp_path / "cells.jsonl").read_text() == kept


def test_parts_of_the_table_are_those_of_the_whole() -> None:
    asked: dict[str, Any] = {"graph": "digits", "models": ("gcn",), "epochs": 2}
    means = codecs(2, parts=("means",), **asked)
    assert {each["figure"].partition(",")[0] for each in means} == {"variance of rows"} and len(means) == 8
    both = codecs(2, parts=("means", "messages"), **asked)
    assert [each for each in both if each["figure"].startswith("variance of rows")] == means and len(both) > len(means)


def test_the_best_codec_of_a_direction_takes_no_more_bytes_and_has_no_bias() -> None:
    every = {"min-max": bench._min_max_codec(), **bench._codecs(1)}
    errors = {"min-max": 3.0, "rotated once": 0.1, "rotated twice": 0.5, "4 spikes apart": 0.2, "least variance": 0.5}
    assert bench._best(errors, every, 1) == "least variance", "spikes take 20 bytes more, one rotation has a bias"
    assert bench._best(errors | {"min-max": 0.4}, every, 1) == "min-max"


def test_rows_of_a_graph_can_be_joined_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variance of gradient rows has the goal; forward rows must only not be worse."""
    monkeypatch.setattr(bench, "GOALS", {1: 10.0, 8: 1.0})
    monkeypatch.setattr(bench, "_stateful_rows", lambda *of: [])
    rows = codecs(2, graph="digits", models=("gcn",), epochs=2)
    of_rows = [each for each in rows if each["figure"].startswith("variance of rows")]
    assert [each["goal"] for each in of_rows] == [10.0, 1.0, 1.0, 1.0]
    for each in of_rows:
        direction = each["case"].split(", ")[2]
        bits = each["case"].rpartition(", ")[2]
        layers = [one for one in rows if f"{direction}, layer" in one["case"] and one["case"].endswith(bits)]
        means = {
            kind: sum(one["value"] for one in layers if f"a message, {kind}," in one["figure"])
            / len({one["case"] for one in layers})
            for kind in (("rotated twice", "least variance") if bits == "1 bit" else ("FP8",))
        }
        assert each["value"] == pytest.approx(min(*means.values(), each["rival_value"]))
        assert each["ratio"] >= 1.0, "row min-max is among them"
    whole = [each for each in rows if each["figure"].startswith("variance of the gradient of all weights")]
    assert len(whole) == 3 and all(each["goal"] is None for each in whole)
    path = join("codecs", rows, command="once", folder=tmp_path)
    before = path.read_text()
    join("codecs", rows, command="again", folder=tmp_path)
    assert path.read_text().count('"case"') == before.count('"case"') == len(rows), "each replaces its own line"


def test_a_basis_of_few_directions_is_used_and_compared_with_codecs_of_as_many_bytes(monkeypatch) -> None:
    """Rows of five epochs that lie in four directions, and of two epochs that share none."""
    generator = torch.Generator().manual_seed(0)
    few = torch.randn(6, 50, 4, generator=generator) @ torch.randn(4, 64, generator=generator)
    turned, still = torch.randn(6, 50, 64, generator=generator), few[:1].expand(6, -1, -1)
    turned[:5, :, 32:], turned[5, :, :32] = 0.0, 0.0
    made = {RowsKey("backward", 1): few, RowsKey("forward", 1): turned, RowsKey("forward", 0): still}
    monkeypatch.setattr(spectrum, "late_rows", lambda *of, last: made)
    rows = spectrum.spectrum_rows("made up", None, None, 9, bench._rivals_of_bases())
    assert not any("layer 0" in each["case"] for each in rows), "rows that never change can be sent once"
    shares = [each["value"] for each in rows if each["metric"].startswith("share")]
    assert shares == pytest.approx([1, 1, 1, 0, 0, 0], abs=1e-5)
    found = {each["case"]: each for each in rows if not each["metric"].startswith("share")}
    ours, mean = (found[f"made up, backward, {what}, epoch 8"] for what in ("layer 1", "mean of layers by bytes"))
    assert ours["value"] < 1e-3 and ours["ratio"] > 100 and ours["metric"].endswith("12 B a row")
    assert (mean["value"], mean["goal"], mean["reached"]) == (pytest.approx(ours["value"]), 3.0, True)
    other = found["made up, forward, layer 1, epoch 8"]
    assert "no basis is used" in other["figure"] and 0.8 < other["ratio"] < 1.2, "encoded as by LeastVariance"
    assert found["made up, forward, mean of layers by bytes, epoch 8"]["goal"] is None


def test_rivals_of_a_basis_take_at_most_the_bytes_of_min_max_codes() -> None:
    assert set(bench._rivals_of_bases()) == {
        "min-max", "rotated once", "rotated twice", "least variance", "linear to the nearest",
    }  # fmt: skip
