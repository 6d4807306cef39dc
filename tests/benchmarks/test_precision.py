"""Precision of messages compared with precision of products: lines, made-up trainings, refusals, and a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.studies.precision import COMPUTES, SYSTEMS_COMPARED, compare_with_float32, lines
from gnnqlab.cli import main
from gnnqlab.study import RunResult


def _training(train_s: float, score: float, **more: float) -> RunResult:
    usual = {"bits": 8.0, "stale": 0.0, "epochs": 2, "bytes_sent": 1.0, "epochs_s": (train_s,)}
    return RunResult(score=score, train_s=train_s, curve=((2, train_s, score),), **usual, **more)


def test_every_system_is_combined_with_every_compute_precision() -> None:
    found = lines()
    assert len(found) == len(SYSTEMS_COMPARED) * len(COMPUTES) and next(iter(found)) == "vanilla"
    for name, system in found.items():
        recipe, _, compute = name.partition(", ")
        assert system.compute == bench_part(compute or "float32") and system.name == name
        assert (type(system.codec), type(system.exchange)) == _axes(recipe)


def bench_part(name: str) -> object:
    from gnnqlab.systems.parts import PARTS

    return PARTS["compute"][name]()


def _axes(recipe: str) -> tuple[type, type]:
    from gnnqlab.systems import make_system

    made = make_system(recipe)
    return type(made.codec), type(made.exchange)


def test_a_line_is_set_beside_the_same_system_in_float32() -> None:
    found = {
        "vanilla": [_training(9.0, 0.5), _training(9.0, 0.5)],
        "adaqp": [_training(4.0, 0.90), _training(2.0, 0.80)],
        "adaqp, int8": [_training(1.0, 0.91, rounded_twice=0.2), _training(2.0, 0.83, rounded_twice=0.4)],
    }
    beside = compare_with_float32("adaqp, int8", found)
    assert (beside["messages"], beside["products"]) == ("adaqp", "int8")
    assert beside["faster_than_float32"] == pytest.approx(6.0 / 3.0)
    assert beside["float32_points"] == pytest.approx(2.0) and beside["rounded_twice"] == pytest.approx(0.3)
    assert compare_with_float32("adaqp", found)["float32_points"] == 0.0


@pytest.mark.slow
def test_they_train_once_and_are_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["bench", "precision", "--graph", "digits", "--systems", "vanilla", "--computes", "int8", "--hosts", "1"]
    asked += ["--seeds", "1", "--epochs", "2", "--trainings", str(tmp_path)]
    main(asked)
    first = capsys.readouterr()
    assert "2 of 2: digits, gcn, 2 workers, seed 0, vanilla, int8" in first.err
    assert "over the loopback" in first.out and "rounded twice" in first.out
    main(asked)
    assert capsys.readouterr().out == first.out
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 2
