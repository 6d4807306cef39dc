"""Progress of a run on standard error: a bar on a screen, lines in a file."""

import json
import re
import sys
from pathlib import Path

import pytest

from gnnqlab.run import progress
from gnnqlab.run.progress import Progress


def test_progress_writes_whole_lines_into_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_UPDATE_S", 0.0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # as outside of a notebook
    records = tmp_path / "records-rank0.jsonl"
    with Progress(tmp_path, 40, shown=True) as bar:
        bar.show(-1, "")
        for epoch in (7, 8, 10, 12):  # 8, 9 and 11 of 40 epochs: all in the third tenth
            records.write_text(json.dumps({"epoch": epoch, "loss": 0.5}) + "\n")
            bar.show(epoch, "")
        bar.show(12, "rank 1 is silent")
    written = capsys.readouterr().err
    assert "\r" not in written and "\x1b" not in written
    lines = [re.sub(r", \d+ s.*", "", line) for line in written.splitlines()]
    assert lines == [
        "starting: epoch 0 of 40",
        "training: epoch 8 of 40, loss 0.5000",
        "training: epoch 13 of 40, loss 0.5000",
        "rank 1 is silent: epoch 13 of 40, loss 0.5000",
    ]
    # The time left is that of epochs: none before the first ones, whose time includes the start.
    assert ["s left" in line for line in written.splitlines()] == [False, False, True, True]
