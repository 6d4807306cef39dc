"""Names and files of a run folder."""

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from gnnqlab.run import folder as files


def test_names_sort_by_time_and_never_meet() -> None:
    names = {files.new_id("adaqp") for _ in range(50)}
    assert all(re.fullmatch(r"\d{8}-\d{6}-adaqp-[0-9a-f]{4}", name) for name in names)
    assert files.new_id("../../etc").count("/") == 0


def test_the_place_of_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GNNQLAB_RUNS", raising=False)
    assert files.default_root() == tmp_path / "runs"
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "elsewhere"))
    assert files.default_root() == tmp_path / "elsewhere"


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"x": 1})
    files.write_json(tmp_path / "a.json", {"x": 2})
    assert files.read_json(tmp_path / "a.json") == {"x": 2} and os.listdir(tmp_path) == ["a.json"]
    (tmp_path / "a.json").write_text('{"x":')
    assert files.read_json(tmp_path / "a.json") is None


def test_a_failed_write_keeps_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_json(tmp_path / "a.json", {"x": 1})

    def full(self: Path, text: str, **_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        files.write_json(tmp_path / "a.json", {"x": 2})
    files.append_event(tmp_path / "missing", "anything")  # never raises
    assert files.read_json(tmp_path / "a.json") == {"x": 1}


def test_a_folder_that_another_machine_has_made_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int = 12345

    folder = files.create(tmp_path, "both")
    (folder / "records-rank0.jsonl").write_text("{}")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage())
    with pytest.raises(RuntimeError, match="needs 64 MB of free space"):
        files.create(tmp_path, "both", exist_ok=True)
    assert (folder / "records-rank0.jsonl").exists()


def test_the_end_of_a_log_begins_at_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first line\nsecond\nthird\n")
    assert files.tail(tmp_path / "log", 10) == "third\n"
    assert files.tail(tmp_path / "log") == "first line\nsecond\nthird\n"
    assert files.tail(tmp_path / "nothing") == ""
