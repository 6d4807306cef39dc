"""The plan of the course: all notebooks, working links, minutes that add up, existing exercises."""

from __future__ import annotations

import re
from pathlib import Path

import gnnqlab as gq
from gnnqlab.course import graded
from gnnqlab.course.exercises import EXERCISES
from tests.pages import ROOT

PAGE = ROOT / "docs" / "teaching.md"


def section(name: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", text, re.S | re.M)
    assert found is not None
    return found[1]


def linked(text: str) -> list[str]:
    return re.findall(r"\]\(\.\./notebooks/(\S+?)\)", text)


def test_the_term_has_every_notebook_once_and_every_link_leads_somewhere() -> None:
    there = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb") if path.name != "00_index.ipynb")
    assert sorted(linked(section("A term"))) == there
    assert set(linked(PAGE.read_text(encoding="utf-8"))) == set(there)


def test_ninety_minutes_are_ninety_and_name_notebooks_as_they_name_themselves() -> None:
    plan = section("Ninety minutes")
    assert sum(map(int, re.findall(r"^\| (\d+) \|", plan, re.M))) == 90
    for title, name in re.findall(r"\[(\d\d · .*?)\]\(\.\./notebooks/(\S+?)\)", plan):
        first = Path(ROOT / "notebooks" / name).read_text(encoding="utf-8")
        assert f"# {title.removeprefix('0')}" in first, title


def test_assignments_name_existing_exercises_and_graders() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`(\d\d\.\w+)`", text))
    assert len(named) > 20 and named <= set(EXERCISES)
    for week in re.findall(r"^\| \d+ \|.*$", section("A term"), re.M):
        taught = {name[:2] for name in linked(week)}
        assert {name[:2] for name in re.findall(r"`(\d\d\.\w+)`", week)} <= taught, week
    graders = set(re.findall(r"`(grade_\w+)`", text))
    assert {"grade_policy", "grade_codec", "grade_rounding", "grade_widths"} == graders
    assert graders <= set(graded.__all__) and hasattr(gq.course, "EpochPlayer")
    said = re.search(r"\*Build it\* \(([\d, ]+)\)", text)
    built = [
        name[:2] for name in sorted(set(linked(text))) if "grade_" in (ROOT / "notebooks" / name).read_text("utf-8")
    ]
    assert said is not None and said[1].split(", ") == built
