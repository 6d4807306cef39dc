"""The README is short, its code prints the shown output, and its links and those of the pages below it resolve."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import gnnqlab as gq
from tests.cases import each
from tests.pages import ROOT, blocks, section

README = ROOT / "README.md"
MAX_WORDS = 900
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("*/*.md")),
]
SECONDS = ("train_s", "faster")
"""Columns of the printed table that differ from run to run."""


def headings(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and the site name them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading of a page."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        address, _, anchor = link.partition("#")
        target = page.parent / address if address else page
        if "://" in link or (target.exists() and not anchor):
            continue
        if not target.is_file() or anchor not in headings(target.read_text(encoding="utf-8")):
            found.append(link)
    return found


def printed_rows(table: str) -> dict[str, dict[str, str]]:
    """Return a printed data frame with a named index as its cells by row and column."""
    header, _, *lines = table.rstrip().splitlines()
    columns = header.split()
    return {name: dict(zip(columns, cells, strict=True)) for name, *cells in (line.split() for line in lines)}


def test_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= MAX_WORDS


@each("page", PAGES)
def test_every_link_resolves(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](#a-title) [b](#b) [c](page.md) [d](other.md) [e](page.md#e) [f](https://f.org/)")
    assert broken_links(page) == ["#b", "other.md", "page.md#e"]


def test_guarantees_name_tests_that_exist() -> None:
    named = re.findall(r"`(tests/\S+\.py)`", (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8"))
    assert len(named) > 10 and [path for path in named if not (ROOT / path).is_file()] == []


def test_readme_names_the_bytes_of_its_picture() -> None:
    picture = (ROOT / "docs" / "epoch.svg").read_text(encoding="utf-8")
    counts = set(re.findall(r"([\d,]+ bytes) and [\d,]+ µs", picture))  # in its title and in its description
    caption = re.search(r"^\*One epoch.*\*$", README.read_text(encoding="utf-8"), re.M)
    assert caption is not None and len(counts) == 2 and all(count in caption[0] for count in counts)


def span(values: Iterable[float]) -> str:
    """Return the lowest and the highest of some ratios in the form that the README uses."""
    low, *_, high = (f"{value:.2f}" for value in sorted(values))
    return f"{low} ×" if low == high else f"{low} to {high} ×"


def test_readme_has_todays_table_of_systems() -> None:
    frame = gq.results.bench_results()
    rows = frame[frame["part"] == "systems"].set_index(["case", "contestant"])
    vanilla = rows.xs("vanilla", level="contestant")
    lines = []
    for name in ("adaqp", "pipegcn", "bns-gcn", "sylvie", "cdfgnn"):
        mine = rows.xs(name, level="contestant")
        speed, sent = vanilla["value"] / mine["value"], mine["bytes_per_epoch"] / vanilla["bytes_per_epoch"]
        reached = f"{mine['reached_by'].sum():.0f} of {mine['seeds'].sum():.0f}"
        lines.append(f"| `{name}` | {span(speed)} | {reached} | {span(sent)} |")
    shown = section(README, "Which system should I use?")
    assert [line for line in shown.splitlines() if line.startswith("| `")] == lines


@pytest.mark.slow
def test_readme_code_prints_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("GNNQLAB_CACHE", "GNNQLAB_RUNS"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    (code,), (shown,) = blocks(README), blocks(README, language="text")
    capsys.readouterr()
    exec(compile(code, "README.md", "exec"), {})
    printed, expected = printed_rows(capsys.readouterr().out), printed_rows(shown)
    assert {name: list(row) for name, row in printed.items()} == {name: list(row) for name, row in expected.items()}
    for name, row in expected.items():
        for column in (column for column in row if column not in SECONDS):
            # The bytes of a fixed bit-width follow from the partition; an accuracy may differ by a few of 360 nodes.
            tolerance = 0.02 if column == "accuracy" else 1e-9
            assert float(printed[name][column]) == pytest.approx(float(row[column]), abs=tolerance), (name, column)
