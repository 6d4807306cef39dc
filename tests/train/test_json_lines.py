"""Files of JSON lines while they grow: complete or truncated, read as a whole or in part."""

import itertools
import json
from pathlib import Path

import pytest

from gnnqlab.train.records import json_lines
from gnnqlab.train.records.json_lines import (
    JsonLinesTail,
    last_line,
    lines_at,
    parse_lines,
    read_ends,
    read_lines,
    spread_lines,
)


def test_torn_lines_and_other_values_are_skipped() -> None:
    text = b'{"a":1}\n\n{"a":\n[2]\n7\n{"a":3}\n{"a'
    assert parse_lines(text) == [{"a": 1}, {"a": 3}]
    assert parse_lines(b"") == parse_lines(b"\n\n") == []
    assert parse_lines(b'{"a":[1\n{"b":2}\n') == [{"b": 2}], "two lines never form one value"


def test_ends_of_lines_are_read_without_their_middle(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text(
        '{"epoch":0,"rows":[[1,"forward"]],"cache":[[0,1]]}\n{"epoch":1,"rows":[[1,"cache"]]}\n{"epoch":2,"rows":[[1,\n'
        '{"epoch":3,"rows":[],"cache":[]}\n{"epoch":4,"cache":[[7]]}\n{"epoch":5,"rows":[],"cache":[[\n{"epoch":6,"cac'
    )
    found = [{"epoch": 0, "cache": [[0, 1]]}, {"epoch": 3, "cache": []}, {"epoch": 4, "cache": [[7]]}]
    assert list(read_ends(path, "cache")) == found


def test_a_growing_file_is_read_on_from_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lines = JsonLinesTail(path)
    assert lines.poll() == []
    path.write_text('{"a":1}\n{"a":2}\n{"a"')
    assert lines.poll() == [{"a": 1}, {"a": 2}]
    assert lines.poll() == []
    with path.open("a") as file:
        file.write(':3}\n{"a":4}\n')
    assert lines.poll() == [{"a": 3}, {"a": 4}]
    path.write_text('{"a":5}\n')
    assert lines.poll() == [{"a": 5}], "a shorter file is a new one"


def test_poll_with_a_limit_reads_only_the_newest_bytes(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f'{{"a":{number:3}}}\n' for number in range(100)))
    lines = JsonLinesTail(path)
    assert [line["a"] for line in lines.poll(35)] == [97, 98, 99], "35 bytes hold three complete lines of ten"
    assert lines.poll(35) == []
    with path.open("a") as file:
        file.write('{"a":100}\n')
    assert lines.poll(35) == [{"a": 100}]


def test_lines_of_a_long_file_are_taken_evenly(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert spread_lines(path, 10) == []
    path.write_text("".join(json.dumps({"epoch": epoch}) + "\n" for epoch in range(5000)) + '{"epo')
    taken = [line["epoch"] for line in spread_lines(path, 10)]
    assert len(taken) == 10 and taken[0] == 0 and taken == sorted(taken)
    assert all(400 < after - before < 600 for before, after in itertools.pairwise(taken))
    path.write_text('{"epoch":0}\n{"epoch":1}\n{"ep')
    assert spread_lines(path, 10) == [{"epoch": 0}, {"epoch": 1}]


def test_lines_are_found_by_a_value_that_ascends(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert list(lines_at(path, "epoch", [0])) == []
    lines = [{"epoch": epoch, "rows": [0] * (epoch % 7)} for epoch in range(0, 2000, 2)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"epoch": 2000')
    wanted = [0, 2, 3, 400, 998, 1998, 2000, 5000]
    assert list(lines_at(path, "epoch", wanted)) == [line for line in lines if line["epoch"] in wanted]
    assert list(lines_at(path, "epoch", range(2000))) == lines


def test_lines_at_finds_the_value_anywhere_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lines = [{"rows": [{"epoch": 7}], "epoch": epoch} for epoch in range(100)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(lines_at(path, "epoch", [3, 98])) == [lines[3], lines[98]]


def test_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert last_line(path) is None
    path.write_text('{"a":')
    assert last_line(path) is None
    path.write_text('{"a":1}\n{"a":2}\n{"a":')
    assert last_line(path) == {"a": 2}
    long = {"a": 3, "rows": [[0, "forward"]] * 5000}
    path.write_text('{"a":1}\n' + json.dumps(long) + "\n")
    assert last_line(path) == long, "longer than the first read"


def test_a_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    lines = [{"a": number, "b": "x" * (number % 50)} for number in range(300)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"a":')
    for piece in (1, 64, 1000, 1 << 20):
        monkeypatch.setattr(json_lines, "_CHUNK", piece)
        assert list(read_lines(path)) == lines
