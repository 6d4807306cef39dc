"""Recorded messages: all epochs, or a few of them at the cost of those alone."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from gnnqlab.train.records import json_lines
from gnnqlab.train.records.json_lines import JsonLines
from gnnqlab.train.records.record import TRAFFIC_COLUMNS
from gnnqlab.train.records.traffic import read_traffic
from tests.cases import each


def _row(layer: int, sender: int, receiver: int, bits: int) -> list[object]:
    return [layer, "backward" if layer > 1 else "forward", sender, receiver, bits, 10, 10 * bits, 80, 0.001 * bits]


def _write(folder: Path, epochs: int, *, workers: int = 3) -> None:
    """Write messages to every worker, in layers that change from epoch to epoch; the last epoch lags by one."""
    for rank in range(workers):
        lines = JsonLines(folder / f"traffic-rank{rank}.jsonl")
        for epoch in range(epochs - (rank == workers - 1)):
            senders = [sender for sender in range(workers) if sender != rank]
            rows = [_row(layer, sender, rank, 2 << layer) for layer in range(epoch % 4) for sender in senders]
            lines.write({"epoch": epoch, "rows": rows})
        lines.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    _write(folder, 1000)
    return folder


def test_rows_have_their_columns(tmp_path: Path) -> None:
    assert read_traffic(tmp_path).empty and read_traffic(tmp_path, last=3).empty
    assert list(read_traffic(tmp_path, spread=3).columns) == [*TRAFFIC_COLUMNS, "tier"]
    _write(tmp_path, 4)
    row = read_traffic(tmp_path, epochs=[3]).iloc[-1]
    assert (row.epoch, row.layer, row.direction, row.sender, row.receiver) == (3, 2, "backward", 2, 1)
    assert (row.bits, row.rows, row.payload_bytes, row.param_bytes, row.seconds) == (8, 10, 80, 80, 0.008)


def test_types_are_those_of_a_table_made_of_all_rows(folder: Path) -> None:
    rows = [
        [line["epoch"], *row, 0, float("nan")]  # written before rounds and entropies were recorded
        for path in sorted(folder.glob("traffic-rank*.jsonl"))
        for line in map(json.loads, path.read_text().splitlines())
        for row in line["rows"]
    ]
    found = read_traffic(folder).drop(columns="tier")
    pd.testing.assert_frame_equal(found, pd.DataFrame(rows, columns=list(TRAFFIC_COLUMNS)))


def test_messages_between_hosts_are_of_the_outer_tier(tmp_path: Path) -> None:
    _write(tmp_path, 4, workers=4)
    assert set(read_traffic(tmp_path)["tier"]) == {"inner"}, "for one host, or without a configuration"
    config = {"graph": "g", "workers": 4, "system": {"name": "s"}, "model": {"name": "m"}, "train": {}}
    (tmp_path / "config.json").write_text(json.dumps({**config, "launch": {"hosts": 2}}))
    found = read_traffic(tmp_path)
    crossed = found["sender"] // 2 != found["receiver"] // 2
    assert crossed.any() and not crossed.all()
    assert (found["tier"] == "outer").tolist() == crossed.tolist()


@each("epochs", [[7], [998, 3, 3, 500], range(100, 140), range(0, 1000, 37), range(9, 5, -1), [-1, 2, 4000], []])
def test_some_epochs_are_those_of_all(folder: Path, epochs: list[int] | range) -> None:
    whole = read_traffic(folder)
    wanted = whole[whole["epoch"].isin(list(epochs))]
    pd.testing.assert_frame_equal(
        read_traffic(folder, epochs=epochs), wanted.reset_index(drop=True), check_dtype=len(wanted) > 0
    )


def test_the_newest_epochs_are_those_that_all_workers_have_written(folder: Path) -> None:
    assert set(read_traffic(folder, last=3)["epoch"]) == {997, 998}, "epoch 999 is incomplete, 996 has no messages"
    pd.testing.assert_frame_equal(read_traffic(folder, last=3), read_traffic(folder, epochs=range(996, 999)))
    assert set(read_traffic(folder, last=5000)["epoch"]) == set(read_traffic(folder)["epoch"]) - {999}


def test_a_few_are_evenly_spread(folder: Path) -> None:
    found = sorted(set(read_traffic(folder, spread=50)["epoch"]))
    assert 25 <= len(found) <= 50 and found[-1] - found[0] > 900


def test_other_epochs_are_not_parsed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = json_lines.parse_lines
    monkeypatch.setattr(json_lines, "parse_lines", lambda text: parsed.append(len(text)) or parse(text))
    read_traffic(folder, last=3)
    # Three workers: the last 4 KiB of a file to find its last epoch, then three lines of less than 1 KiB.
    assert 0 < sum(parsed) < 3 * (4096 + 3 * 1024)


def test_truncated_line_hides_only_its_own_epoch(tmp_path: Path) -> None:
    _write(tmp_path, 1000)
    for path in tmp_path.glob("traffic-rank*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        # Many times a full disk in the middle, as JsonLines leaves it, and a crash in the last line.
        lines[400:600] = [line[: 5 + number] + b"\n" for number, line in enumerate(lines[400:600])]
        path.write_bytes(b"".join(lines)[:-7])
    assert set(read_traffic(tmp_path, epochs=[399, 450, 602, 901])["epoch"]) == {399, 602, 901}
    assert set(read_traffic(tmp_path, last=2)["epoch"]) == {997}, "998 is truncated, and 996 has no messages"


def test_a_choice_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="selected in one way, got epochs and last; leave out all but one"):
        read_traffic(tmp_path, epochs=[1], last=2)
    with pytest.raises(ValueError, match="last must be at least 1, got 0"):
        read_traffic(tmp_path, last=0)
    with pytest.raises(ValueError, match="spread must be at least 1, got -2"):
        read_traffic(tmp_path, spread=-2)
