"""Random faults: a draw is a function of its number, and outcomes are stored until the code changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.registry import measure
from benchmarks.studies import fault_draws
from benchmarks.studies.fault_draws import KINDS, TARGETS, Draw, Outcome, draw, outcomes
from benchmarks.studies.faults import _draw_rows
from gnnqlab.systems import SYSTEMS


def test_draws_take_systems_targets_and_workers_in_turn() -> None:
    for kind in KINDS:
        drawn = [draw(kind, number) for number in range(100)]
        assert drawn == [draw(kind, number) for number in range(100)]
        assert {each.system for each in drawn} == set(SYSTEMS) and {each.workers for each in drawn} == {2, 3}
        assert all(0 <= each.rank < each.workers for each in drawn)
    assert [draw("signals", number).target for number in range(100)] == [*TARGETS] * 25


def test_outcomes_are_stored_and_failed_draws_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def killed(drawn: Draw, root: Path, references: object) -> tuple[list[str], float]:
        made.append(drawn.number)
        return (["2 restarts"] if drawn.number == 1 and len(made) < 4 else []), 3.0

    monkeypatch.setattr(fault_draws, "_killed", killed)
    monkeypatch.setattr(fault_draws, "package", lambda: {"commit": "a"})
    found = outcomes("kills", range(3), tmp_path)
    assert [each.failures for each in found] == [(), ("2 restarts",), ()]
    assert found[1].text.endswith("P = 3, SIGKILL to worker 0): 2 restarts") or "SIGKILL to worker" in found[1].text
    rows = _draw_rows("kills", found)
    assert rows[0]["value"] == pytest.approx(2 / 3) and "(2 of 3) | draw 1 (" in rows[0]["figure"]
    assert rows[1]["value"] == 3.0 and rows[1]["reached"]
    assert all(not each.failures for each in outcomes("kills", range(3), tmp_path)) and made == [0, 1, 2, 1]
    monkeypatch.setattr(fault_draws, "package", lambda: {"commit": "b"})
    outcomes("kills", range(1), tmp_path)
    assert made[-1] == 0 and len(made) == 5


def test_signals_have_a_row_for_each_target() -> None:
    rows = _draw_rows("signals", [Outcome(draw=draw("signals", number), seconds=number) for number in range(8)])
    assert [row["case"] for row in rows[:-1]] == [f"signal to the {target}" for target in TARGETS]
    assert all(row["value"] == 1 and row["reached"] for row in rows[:-1]) and rows[-1]["value"] == 7


@pytest.mark.slow
def test_one_draw_of_each_kind_keeps_all_promises(tmp_path: Path) -> None:
    rows = measure("faults", parts=KINDS, draws=1, trainings=str(tmp_path))["rows"]
    assert all(row["reached"] for row in rows if row["metric"].startswith("all promises")), rows
