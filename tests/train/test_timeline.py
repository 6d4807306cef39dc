"""The timeline on disk: written in the selected epochs, read as one table with one clock."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gnnqlab.bits.row import two_parameters
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.message.channels.incoming import MessageRecord
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.layout import make_layout
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.records.recorder import EndedEpoch
from gnnqlab.train.records.timeline import TIMELINE_COLUMNS, TimelineFile, read_timeline


class Exchange:
    """The attributes of an exchange that a timeline file needs."""

    def __init__(self):
        self.timeline = Timeline()


def written(folder, rank, every, epochs):
    exchange = Exchange()
    file = TimelineFile(folder, rank, SimpleNamespace(exchange=exchange), every)
    layout = make_layout(2, 3, 4, param_bytes=two_parameters(4))
    for epoch in range(epochs):
        file.begin(epoch)
        with exchange.timeline("encode", ExchangeKey(1, "forward")):
            pass
        arrival = MessageRecord(1, "forward", 1 - rank, rank, layout, 0.25, posted=100.0)
        file.write(EndedEpoch(epoch, 0.0, {}, [arrival]))


def test_epoch_2_and_every_nth_are_recorded(tmp_path):
    for rank in range(2):
        written(tmp_path, rank, 5, 11)
    frame = read_timeline(tmp_path)
    assert tuple(frame.columns) == TIMELINE_COLUMNS
    assert sorted(frame["epoch"].unique()) == [2, 5, 10]
    assert set(frame["rank"]) == {0, 1} and len(frame) == 3 * 2 * 2
    transfers = frame[frame["what"] == "transfer"]
    assert (transfers["peer"] == 1 - transfers["rank"]).all()
    assert (transfers["end_s"] - transfers["start_s"]).round(6).eq(0.25).all()
    assert (frame.groupby("epoch")["start_s"].min() == 0).all()


def test_no_timeline_is_written_when_recording_is_off(tmp_path):
    written(tmp_path, 0, 0, 5)
    assert not list(tmp_path.iterdir())
    frame = read_timeline(tmp_path)
    assert tuple(frame.columns) == TIMELINE_COLUMNS and frame.empty


def test_every_machine_has_its_own_zero(tmp_path):
    for rank, (clock, start) in enumerate([("a", 5.0), ("a", 5.5), ("b", 900.0)]):
        line = {"epoch": 2, "rank": rank, "clock": clock, "spans": [[0, "forward", "encode", -1, start, start + 1]]}
        (tmp_path / f"timeline-rank{rank}.jsonl").write_text(json.dumps(line) + '\n{"torn')
    frame = read_timeline(tmp_path).sort_values("rank")
    assert frame["start_s"].tolist() == [0.0, 0.5, 0.0]


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="timeline_every must not be negative, got -1"):
        TrainSettings(timeline_every=-1)
    with pytest.raises(ValueError, match="verify_messages must be 'auto', 'on' or 'off', got 'yes'"):
        TrainSettings(verify_messages="yes")
