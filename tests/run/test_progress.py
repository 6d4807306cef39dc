"""Progress of a run on standard error: a bar on a screen, lines in a file."""

import json
import sys
from pathlib import Path

import pytest

from gnnqlab.run import progress
from gnnqlab.run.progress import Progress


def test_progress_writes_whole_lines_into_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_FILE_S", 0.0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # as outside of a notebook
    with Progress(tmp_path, 5, shown=True) as bar:
        bar.show(-1, "")
        (tmp_path / "records-rank0.jsonl").write_text(json.dumps({"epoch": 1, "loss": 0.5}) + "\n")
        bar.show(2, "")
        bar.show(2, "")  # nothing new, no line
        bar.show(2, "rank 1 is silent")
    written = capsys.readouterr().err
    assert "\r" not in written and "\x1b" not in written
    lines = [line.rpartition(",")[0] for line in written.splitlines()]
    figures = "epoch 2 of 5, loss 0.5000"
    assert lines == ["starting: epoch 0 of 5", f"training: {figures}", f"rank 1 is silent: {figures}"]
