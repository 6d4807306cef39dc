"""The list of runs names unreadable folders and continues."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab import cli
from gnnqlab.run import folder as files
from gnnqlab.run.run import Run
from tests.lab.synthetic_folder import Folder

MODULE = "gnnqlab_test_bits_elsewhere"


def with_own_part(place: Path) -> Run:
    """Make a run whose bit-widths come from a module that does not exist."""
    folder = Folder(place)
    folder.write(range(6))
    folder.state("finished")
    run = Run(folder.path)
    settings = files.read_json(run.folder / "config.json") or {}
    settings["system"] |= {"name": "growing", "bits": {"name": f"{MODULE}:Growing", "switch": 30}}
    settings["system"]["schedule"] = {"name": f"{MODULE}:Slow"}
    files.write_json(run.folder / "config.json", settings | {"recipe": None})
    files.write_json(run.folder / "facts.json", {"lag": 2})
    return run


def neighbours(place: Path) -> None:
    """Make folders with damaged files of runs."""
    for name, text in (
        ("1-torn", '{"graph": "dig'),
        ("2-empty", "{}"),
        ("3-list", "[]"),
        ("4-odd", '{"graph": "digits", "workers": "two", "system": {}, "model": [], "train": {}, "launch": {}}'),
    ):
        (place / name).mkdir()
        (place / name / "config.json").write_text(text)
    (place / "5-folder" / "config.json").mkdir(parents=True)


def test_a_listing_survives_its_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    neighbours(tmp_path)
    whole = with_own_part(tmp_path)
    cli.main(["runs", "--out", str(tmp_path), "--json"])
    out, err = capsys.readouterr()
    rows = {row["run"]: row for row in json.loads(out.splitlines()[-1])["runs"]}
    assert set(rows) == {"1-torn", "2-empty", "3-list", "4-odd", whole.id}
    assert (rows[whole.id]["status"], rows[whole.id]["system"], rows[whole.id]["epochs"]) == ("finished", "growing", 6)
    for name in ("1-torn", "2-empty", "3-list", "4-odd"):
        file = str(tmp_path / name / "config.json")
        assert rows[name]["status"] == "unreadable" and file in rows[name]["cause"] and file in err
        assert set(rows[whole.id]) <= set(rows[name])
    assert "without workers, model, system.name" in rows["4-odd"]["cause"]
    cli.main(["runs", "--out", str(tmp_path)])
    assert str(tmp_path / "2-empty" / "config.json") in capsys.readouterr().out
    assert gq.launch.cleanup(tmp_path) == []


def test_reading_a_run_does_not_import_user_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = with_own_part(tmp_path)
    (tmp_path / f"{MODULE}.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert len(run.records) == 12 and run.summary["system"] == "growing" and run.status == "finished"
    # Its schedule cannot be loaded to compute the age of rows: the run has recorded it.
    assert run.records.groupby("epoch")["after_evaluation"].max().tolist() == [0, 1, 1, 1, 1, 1]
    assert run.settings["system"]["bits"] == {"name": f"{MODULE}:Growing", "switch": 30}
    assert list(gq.compare([run, run]).to_frame()["epochs"]) == [6, 6]
    assert "No command can repeat this run" in run.export(tmp_path / "page.html").read_text()
    assert run.live() is not None and run.wait(progress=True) is run
    assert MODULE not in sys.modules
    with pytest.raises(AssertionError, match="imported"):
        assert run.config
    (tmp_path / f"{MODULE}.py").unlink()
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"modules of run {run.id} must be importable .* No module named .*run.sett"):
        assert run.config
