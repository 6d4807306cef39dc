"""The walk through a recorded epoch: parts in order, messages from post to arrival, gaps, and stale rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.players.run_walk import Moment, RunWalk
from gnnqlab.course.players.run_words import run_title, say_run_step
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.train.records.timeline import TIMELINE_COLUMNS

FORWARD, BACKWARD = ExchangeKey(0, "forward"), ExchangeKey(0, "backward")
# Milliseconds of worker 0; those of worker 1 are two later. Time 0 of the timeline is the start of an earlier transfer.
PARTS = (
    ("forward", (("encode", 0, 1), ("post", 1, 2), ("wait", 2, 8), ("central", 8, 9), ("central", 9, 12),
                 ("marginal", 12, 14))),
    ("backward", (("marginal", 20, 21), ("encode", 21, 22), ("post", 22, 23), ("wait", 23, 28), ("decode", 28, 29))),
)  # fmt: skip
# From the receiver's post to the arrival: worker 1 posts at 3 and 24.
CAME = ((0, "forward", 1, 8), (1, "forward", 3, 5), (0, "backward", 22, 28), (1, "backward", 24, 27))


@dataclass
class Recorded:
    """A synthetic run of two workers over ten nodes."""

    spans: list[tuple[Any, ...]]
    sent: list[tuple[Any, ...]]
    workers: int = 2
    id: str = "run"
    summary: dict[str, Any] = field(default_factory=lambda: {"system": "vanilla"})

    @property
    def config(self) -> Any:
        return SimpleNamespace(workers=self.workers, system=gq.systems.vanilla())

    @property
    def timeline(self) -> pd.DataFrame:
        return pd.DataFrame(self.spans, columns=list(TIMELINE_COLUMNS))

    @property
    def records(self) -> pd.DataFrame:
        facts = {"epoch": 2, "loss": 1.5, "reduce_s": 3e-3, "optimizer_s": 1e-3, "bytes_gradients": 488}
        return pd.DataFrame([{**facts, "rank": rank} for rank in (0, 1)])

    def read_traffic(self, *, epochs: Any) -> pd.DataFrame:
        columns = ["epoch", "layer", "direction", "sender", "receiver", "bits", "rows", "payload_bytes", "param_bytes"]
        frame = pd.DataFrame(self.sent, columns=[*columns, "seconds", "round"])
        return frame[frame["epoch"].isin(epochs)]

    def parts(self, period: int = 0) -> Any:
        return gq.partition(course.ten_nodes(), course.Halves(), workers=self.workers)


def spans(parts: Any = PARTS, came: Any = CAME, *, shift: float = 0.05) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for rank in (0, 1):
        for direction, some in parts:
            found += [
                (2, 0, direction, rank, what, -1, shift + (a + 2 * rank) / 1e3, shift + (b + 2 * rank) / 1e3, 0)
                for what, a, b in some
            ]
    found += [(2, 0, way, rank, "transfer", 1 - rank, shift + a / 1e3, shift + b / 1e3, 0) for rank, way, a, b in came]
    return found


def sent(epoch: int = 2) -> list[tuple[Any, ...]]:
    return [
        (epoch, 0, way, sender, 1 - sender, bits, rows, 8 * rows, rows, 4e-3, 0)
        for way in ("forward", "backward")
        for sender in (0, 1)
        for bits, rows in ((2, 1), (8, 1))
    ]


@pytest.fixture(scope="module")
def walk() -> RunWalk:
    return RunWalk.from_run(Recorded(spans(), sent()))  # type: ignore[arg-type]


def at(walk: RunWalk, time: float) -> Moment:
    return next(step for step in walk.steps if step.start <= time < step.end)


def test_activities_are_ordered_by_their_start_time(walk: RunWalk) -> None:
    mine = [
        (activity.kind, round(activity.start, 3), round(activity.end, 3))
        for activity in walk.activities
        if activity.rank == 0
    ]
    assert mine == [
        ("encode", 0, 1), ("post", 1, 2), ("wait", 2, 8), ("central", 8, 12), ("marginal", 12, 14), ("loss", 14, 20),
        ("marginal", 20, 21), ("encode", 21, 22), ("post", 22, 23), ("wait", 23, 28), ("decode", 28, 29),
        ("reduce", 29, 32), ("optimizer", 32, 33),
    ]  # fmt: skip
    assert walk.milliseconds == pytest.approx(35)
    starts = [step.start for step in walk.steps]
    assert starts == sorted(starts) and starts[0] == 0 and walk.steps[-1].end == walk.milliseconds
    assert {3.0, 5.0, 8.0, 14.0} <= {round(start, 3) for start in starts}, (
        "a start, an arrival, the end of a wait, a gap"
    )


def test_messages_are_under_way_from_the_senders_post_until_they_come(walk: RunWalk) -> None:
    found = {(m.place, m.sender): (round(m.start, 3), round(m.end, 3), m.timing) for m in walk.messages}
    assert found == {
        (FORWARD, 0): (1, 5, "now"), (FORWARD, 1): (3, 8, "now"),
        (BACKWARD, 0): (22, 27, "now"), (BACKWARD, 1): (24, 28, "now"),
    }  # fmt: skip
    assert [(m.rows, m.num_rows, m.num_bytes) for m in walk.messages] == [(((2, 1), (8, 1)), 2, 18)] * 4
    assert walk.num_bytes == 72
    [(message, gone)] = walk.messages_in_transit(2.0)
    assert message.sender == 0 and gone == pytest.approx(0.25)


def test_step_text_names_the_waiting_worker_and_the_sender(walk: RunWalk) -> None:
    step = at(walk, 6.5)
    words = say_run_step(walk, step)
    assert words.startswith("5.00 to 8.00 ms of 35.0 in epoch 2. Worker 0 is waiting for 2 rows of worker 1 (layer 1")
    assert "Worker 1 is at the end of its wait: all rows have arrived" in words
    assert "In transit, 18 B: 2 rows (1 in 2 bits, 1 in 8 bits), layer 1, from 1 to 0." in words
    assert run_title(walk, step) == f"{step.number + 1} · 5.00 ms · layer 1, forward"
    assert "Workers 0 and 1 are computing the loss" in say_run_step(walk, at(walk, 17))
    assert "summing weight gradients with all others (488 B)" in say_run_step(walk, at(walk, 30))
    table = walk.to_frame(step)
    assert table["does"].tolist() == ["wait", "wait"] and table["rows under way to it"].tolist() == [2, 0]


def test_old_rows_come_from_the_epoch_before_and_leave_for_the_next() -> None:
    late = (
        ("forward", (("central", 0, 2), ("wait", 2, 2.1), ("encode", 2.1, 3), ("post", 3, 4), ("marginal", 4, 5))),
        ("backward", (("marginal", 6, 7), ("wait", 7, 7.1), ("decode", 7.1, 8), ("encode", 12, 13), ("post", 13, 14))),
    )
    came = ((0, "forward", -5, 1), (1, "forward", -4, -1), (0, "backward", -1, 2), (1, "backward", -1, 2))
    found = RunWalk.from_run(Recorded(spans(late, came), [*sent(2), *sent(3)]))  # type: ignore[arg-type]
    before = [m for m in found.messages if m.timing == "before"]
    after = [m for m in found.messages if m.timing == "after"]
    assert len(before) == len(after) == 4
    assert [(round(m.start, 3), round(m.end, 3)) for m in before if m.receiver == 0 and m.place == FORWARD] == [(-5, 1)]
    assert [(round(m.start, 3), round(m.end, 3)) for m in after if m.sender == 1 and m.place == FORWARD] == [(5, 9)]
    mine = [activity.kind for activity in found.activities if activity.rank == 0]
    assert mine[-4:] == ["reduce", "encode", "post", "optimizer"], "messages were deferred until the sum"
    assert "not waiting: the rows were sent an epoch ago" in say_run_step(found, at(found, 2.05))
    assert found.num_bytes == 72, "bytes that this epoch used"


def test_transfers_without_a_sender_end_all_messages_together() -> None:
    came = [(*span[:5], -1, *span[6:]) if span[4] == "transfer" else span for span in spans()]
    found = RunWalk.from_run(Recorded(came, sent()))  # type: ignore[arg-type]
    assert {(m.sender, round(m.end)) for m in found.messages if m.place == FORWARD} == {(0, 5), (1, 8)}


def test_run_without_required_recordings_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"got run run on 1 worker\(s\); launch one with workers=2"):
        RunWalk.from_run(Recorded([], [], workers=1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be recorded to be shown, got none; launch with timeline_every=5"):
        RunWalk.from_run(Recorded([], []))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"one that was recorded, \[2\], got 3"):
        RunWalk.from_run(Recorded(spans(), sent()), 3)  # type: ignore[arg-type]
    many = [(*row[:6], 5, *row[7:]) for row in sent()]
    with pytest.raises(ValueError, match="got 10 from worker 0 to worker 1 and 2 in its cut; launch the run again"):
        RunWalk.from_run(Recorded(spans(), many))  # type: ignore[arg-type]
