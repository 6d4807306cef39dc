"""`make test` adds up its steps, names the slowest tests of all of them, and ends in one line."""

from __future__ import annotations

import time
from pathlib import Path

from tests import run_all


def report(path: Path, seconds: dict[str, float], *, failures: int = 0, skipped: int = 0) -> Path:
    """Write what pytest writes about tests that took so long."""
    cases = "".join(f'<testcase classname="here" name="{name}" time="{time}"/>' for name, time in seconds.items())
    counts = f'tests="{len(seconds)}" failures="{failures}" errors="0" skipped="{skipped}"'
    path.write_text(f"<testsuites><testsuite {counts}>{cases}</testsuite></testsuites>")
    return path


def test_the_slowest_of_all_steps_come_before_the_closing_line(tmp_path, monkeypatch, capsys):
    tests = report(tmp_path / "tests.xml", {f"test_{n}": float(n) for n in range(12)}, failures=1, skipped=2)
    cells = report(tmp_path / "notebooks.xml", {"Cell 0": 100.0, "Cell 1": 7.5})
    lanes = (
        {"tests": lambda out: run_all.read_junit(tests, exit_code=1)},
        {"notebooks": lambda out: (out.write(b"cells ran\n"), run_all.read_junit(cells, exit_code=0))[1]},
    )
    monkeypatch.setattr(run_all, "LANES", lanes)
    monkeypatch.setattr(run_all, "AFTERWARDS", {})
    monkeypatch.setattr(run_all, "install_chromium", lambda: None)
    assert run_all.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("== notebooks, beside the others") + 1 == lines.index("cells ran")
    slowest = lines[lines.index("== the 10 slowest of all") + 1 :]
    assert [line.split()[0] for line in slowest[:10]] == [
        "100.0", "11.0", "10.0", "9.0", "8.0", "7.5", "7.0", "6.0", "5.0", "4.0"
    ]  # fmt: skip
    assert slowest[0].endswith("here::Cell 0")
    assert slowest[10:] == ["", "== the 10 slowest files", "  173.5 s  here", "", "11 passed, 1 failed, 2 skipped"]


def test_a_run_that_broke_off_or_ran_nothing_has_failed(tmp_path):
    assert run_all.read_junit(tmp_path / "missing.xml", exit_code=2).failed == 1
    nothing = report(tmp_path / "nothing.xml", {"test_a": 0.0}, skipped=1)
    assert run_all.read_junit(nothing, exit_code=0).failed == 1
    broken = report(tmp_path / "broken.xml", {"test_a": 0.0})
    assert run_all.read_junit(broken, exit_code=3).failed == 1


def test_every_folder_of_tests_runs_in_one_lane_and_no_other():
    named = [*run_all.WAITING, *run_all.SEVERAL]
    assert len(set(named)) == len(named)
    assert all(list((run_all.ROOT / "tests" / name).rglob("test_*.py")) for name in named)


def test_a_step_of_the_first_lane_is_shown_as_it_goes(monkeypatch, capsys):
    shown = []

    def step(out):
        shown.append(out)
        return run_all.Outcome(passed=2, failed=1)

    assert run_all.run_lane({"some": step, "more": step}.items(), aside=False).passed == 4
    assert shown == [None, None] and "== some: failed in 0 s" in capsys.readouterr().out


def test_a_free_lane_goes_on_with_notebooks_and_each_part_is_run_once(monkeypatch):
    ran = []

    def first(out):
        while len(ran) < 3:  # held up until the other lane has run all the others
            time.sleep(0.01)
        return run_all.Outcome(passed=1, failed=0)

    def part(name):
        return lambda out: ran.append((name, out is None)) or run_all.Outcome(passed=1, failed=0)

    monkeypatch.setattr(run_all, "LANES", ({"long": first}, {"short": part("short")}))
    monkeypatch.setattr(run_all, "AFTERWARDS", {"a": part("a"), "b": part("b")})
    monkeypatch.setattr(run_all, "install_chromium", lambda: None)
    assert run_all.main() == 0
    assert ran == [("short", False), ("a", False), ("b", False)]


def test_every_notebook_is_in_one_part(monkeypatch):
    asked = []
    monkeypatch.setattr(run_all, "run_pytest", lambda *words, out: asked.extend(w for w in words if "ipynb" in w))
    for step in run_all.AFTERWARDS.values():
        step(None)
    assert sorted(asked) == sorted(str(path) for path in (run_all.ROOT / "notebooks").glob("*.ipynb"))
