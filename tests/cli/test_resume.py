"""``gnnqlab train --resume``: its own settings and no others."""

from __future__ import annotations

import pytest

from gnnqlab import cli
from tests.cases import each


@each(
    ("words", "text"),
    [
        (["--resume", "nowhere"], "a run folder must hold config.json, got"),
        (["--resume", "nowhere", "--lr", "0.1"], "goes on with the settings of its run, got ['--lr'] as well"),
        (["--resume", "nowhere", "--port", "1"], "goes on with the settings of its run, got ['--port'] as well"),
        (["--resume", "nowhere", "--nnodes", "2"], "launches on one machine, got --nnodes 2; add --print-command"),
        (["--resume", "nowhere", "--nnodes", "2", "--print-command"], "a run folder must hold config.json, got"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words, text, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path))
    with pytest.raises(SystemExit) as end:
        cli.main(["train", *words])
    said = capsys.readouterr()
    assert end.value.code == 2 and text in said.err and len(said.err.strip().splitlines()) == 1
