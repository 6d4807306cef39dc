"""One file that opens anywhere: of one run, of several, of a long one."""

import json
from pathlib import Path

import pytest

from gnnqlab.lab.training.report import export
from gnnqlab.run.run import Run
from tests.lab.synthetic import make_run
from tests.lab.training.test_live import Folder


def test_a_launched_run_brings_its_course_command_and_configuration(tmp_path: Path) -> None:
    folder = Folder(tmp_path, system="pipegcn")
    folder.write(range(20))
    page = Run(folder.path).export(tmp_path / "new" / "report.html").read_text()
    for words in ("From epoch to epoch", "Staleness of halo rows", "gnnqlab train", "All settings", "loopback"):
        assert words in page, words
    assert Run(folder.path).export(tmp_path / "again.html").read_text() == page


def test_several_runs_are_compared(tmp_path: Path) -> None:
    page = export([make_run("vanilla"), make_run("adaqp", bits=2)], tmp_path / "two.html").read_text()
    assert "<h2>Comparison</h2>" in page and "adaqp" in page and "From epoch to epoch" not in page


def test_another_ending_or_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"its name must end in \.html, got 'report\.pdf'"):
        export(make_run(), tmp_path / "report.pdf")
    with pytest.raises(ValueError, match="at least one run, got none"):
        export([], tmp_path / "report.html")


def test_the_page_of_a_long_run_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnnqlab.lab.training.snapshot._MAX_BYTES", 100_000)
    folder = Folder(tmp_path, epochs=4000)
    folder.write(range(4000))
    path = Run(folder.path).export(tmp_path / "report.html")
    assert path.stat().st_size < 3_000_000
    text = path.read_text()
    figures = json.loads(text.partition('id="figures">')[2].partition("</script>")[0])["figures"]
    assert all(len(trace.get("x") or ()) <= 600 for figure in figures.values() for trace in figure["data"])
    maps = [trace["z"] for figure in figures.values() for trace in figure["data"] if trace["type"] == "heatmap"]
    assert [cells[0][1] for cells in maps] == [1216, 1216], "a mean over the same epochs on all workers"
