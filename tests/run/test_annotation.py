"""Name, tags and note of a run: given at the launch or later, listed, carried to the run that continues it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab import cli
from gnnqlab.lab.listing.run_rows import run_row
from gnnqlab.launch.run_history import carry_over
from gnnqlab.run.annotation import Annotation
from gnnqlab.run.run import Run
from tests.lab.synthetic_folder import Folder


def finished(place: Path) -> Run:
    place.mkdir(parents=True, exist_ok=True)
    folder = Folder(place)
    folder.write(range(6))
    folder.state("finished")
    return Run(folder.path)


def test_words_about_a_run_are_changed_one_by_one(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert (run.name, run.tags, run.note) == ("", (), "")
    run.annotate(name="first try", tags=["paper", "paper", " two bits "])
    run.annotate(note="λ = 0.5,\nsecond half on another machine")
    again = Run(run.folder)
    assert (again.name, again.tags) == ("first try", ("paper", "two bits")) and "another machine" in again.note
    assert "first try" in repr(again) and "two bits" in again._repr_html_()
    run.annotate(tags=[], name="")
    assert (run.name, run.tags) == ("", ())
    assert run.note.startswith("λ")


def test_runs_are_listed_by_tag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, other = finished(tmp_path / "a"), finished(tmp_path / "b")
    run.annotate(name="chosen", tags=["paper"])
    for each, place in ((run, "x-run"), (other, "y-run")):
        each.folder.rename(tmp_path / place)
    assert [each.name for each in gq.runs(tmp_path, tag="paper")] == ["chosen"]
    assert len(gq.runs(tmp_path)) == 2 and not gq.runs(tmp_path, tag="draft")
    cli.main(["runs", "--out", str(tmp_path), "--tag", "paper", "--json"])
    (row,) = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    assert (row["run"], row["name"], row["tags"]) == ("x-run", "chosen", "paper")
    shown = run_row(Run(tmp_path / "x-run"))
    assert (shown.name, shown.tags) == ("chosen", ("paper",))


def test_a_damaged_file_of_words_hides_no_run(tmp_path: Path) -> None:
    run = finished(tmp_path)
    for text in ("{", "[]", '{"tags": 3}', '{"tags": ["a,b"], "name": "x"}'):
        (run.folder / "annotation.json").write_text(text)
        assert (run.name, run.tags) == ("", ()) and "Run" in repr(run)


def test_a_run_that_continues_another_has_its_words(tmp_path: Path) -> None:
    run = finished(tmp_path)
    run.annotate(name="long one", tags=["night"])
    new = tmp_path / "next"
    new.mkdir()
    carry_over(run.folder, new, 3)
    assert json.loads((new / "annotation.json").read_text())["name"] == "long one"


def test_wrong_words_are_refused_before_a_run_starts(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"tags must be a list of texts, got 'paper'; write \['paper'\]"):
        gq.launch("digits", tags="paper", out=tmp_path)
    with pytest.raises(ValueError, match="a name must have at most 80 printable characters"):
        gq.launch("digits", name="two\nlines", out=tmp_path)
    with pytest.raises(ValueError, match="a tag must be a text without a comma, got 'a,b'"):
        Annotation(tags=("a,b",))
    assert not list(tmp_path.iterdir())
