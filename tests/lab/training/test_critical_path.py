"""The critical path through computation and messages, of one run or two: two workers whose path is known by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from gnnqlab.lab.training.critical_path import UNRECORDED, critical_path

COLUMNS = ["epoch", "layer", "direction", "rank", "what", "peer", "start_s", "end_s", "round"]


def timeline(*parts: tuple[int, str, float, float], layer: int = 0, peer: int | None = None) -> pd.DataFrame:
    """Make a table of (worker, what, start, end) in milliseconds; a transfer comes from the other worker."""
    rows = [
        (2, layer, "forward", rank, what, (1 - rank if peer is None else peer) if what == "transfer" else -1,
         1e-3 * start, 1e-3 * end, 0)
        for rank, what, start, end in parts
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def two_workers(*, arrives: float = 7.0, **settings: int) -> pd.DataFrame:
    """Worker 1 is slow to encode; its message arrives at worker 0 at a given time, before or during its wait."""
    return timeline(
        (0, "encode", 0, 1), (0, "post", 1, 2), (0, "central", 2, 6), (0, "wait", 6, max(6, arrives)),
        (0, "decode", max(6, arrives), max(6, arrives) + 1), (0, "marginal", max(6, arrives) + 1, max(6, arrives) + 2),
        (0, "transfer", 2, arrives),
        (1, "encode", 0, 3), (1, "post", 3, 4), (1, "central", 4, 5), (1, "wait", 5, 5), (1, "decode", 5, 6),
        (1, "marginal", 6, 7), (1, "transfer", 4, 4.5), **settings,
    )  # fmt: skip


def links(path: pd.DataFrame) -> list[tuple[int, str, int, float]]:
    rows = path[["worker", "what", "sender", "ms"]].itertuples(index=False, name=None)
    return [(worker, what, sender, round(ms, 6)) for worker, what, sender, ms in rows if ms > 1e-9]


def test_a_wait_leads_to_the_sender_that_was_late() -> None:
    path = critical_path(two_workers())
    assert links(path.segments) == [
        (1, "encode", -1, 3.0), (1, "post", -1, 1.0), (0, "message", 1, 3.0), (0, "decode", -1, 1.0),
        (0, "marginal", -1, 1.0),
    ]  # fmt: skip
    assert path.milliseconds == pytest.approx(9.0) and path.epoch == 2
    table = path.by_phase()
    assert table.loc[0].to_dict() == pytest.approx({"decode": 1, "encode": 0, "marginal": 1, "message": 3, "post": 0})
    assert table.loc[1, "encode"] == pytest.approx(3.0)


def test_message_received_before_the_wait_is_not_on_the_critical_path() -> None:
    path = critical_path(two_workers(arrives=5.5))
    assert links(path.segments) == [
        (0, "encode", -1, 1.0), (0, "post", -1, 1.0), (0, "central", -1, 4.0), (0, "decode", -1, 1.0),
        (0, "marginal", -1, 1.0),
    ]  # fmt: skip


def test_links_join_without_a_gap() -> None:
    later = two_workers(layer=1)
    later[["start_s", "end_s"]] += 0.0105
    path = critical_path(pd.concat([two_workers(), later])).segments
    assert path["start (ms)"].tolist()[1:] == pytest.approx(path["end (ms)"].tolist()[:-1])
    between = path[path["what"] == UNRECORDED]
    # Of worker 1 from the end of its first layer (7) to its next encode (10.5).
    assert between[["worker", "ms"]].to_numpy().tolist() == [[1, pytest.approx(3.5)]]


def test_a_message_of_an_epoch_before_begins_the_path() -> None:
    old = two_workers().query("not (rank == 1 and what in ('encode', 'post'))")
    late = timeline((1, "encode", 7, 7.5), (1, "post", 7.5, 8))
    path = critical_path(pd.concat([old, late]))
    assert links(path.segments)[0] == (0, "message", 1, 5.0), (
        "in transfer from 2 to 7, sent before the first recorded span"
    )
    assert path.milliseconds == pytest.approx(7.0)


def test_transfer_without_a_peer_is_attributed_to_the_posting_worker() -> None:
    path = critical_path(two_workers(peer=-1))
    assert (0, "message", 1, 3.0) in links(path.segments)


def test_workers_table_has_exposed_and_hidden_communication_of_one_run() -> None:
    path = critical_path(two_workers())
    assert path.workers.loc["worker 0"].tolist() == pytest.approx([5.0, 1.0, 4.0])
    assert path.workers.loc["worker 1"].tolist() == pytest.approx([0.5, 0.0, 0.5])
    assert "takes 9 ms and passes from worker to worker 1 time:" in path.words
    assert "worker 0: messages under way 5 ms, 1 ms of them exposed (it waited), 4 ms hidden" in path.words


def test_the_figure_has_the_path_over_all_parts_and_messages_between_lanes() -> None:
    shown = critical_path(two_workers()).draw(dark=True)
    drawn = {trace.name: trace for trace in shown.figure.data}
    assert len(drawn["not on the path"].y) == 12
    assert list(drawn["message"].y) == ["worker 1", "worker 0", None]
    assert list(drawn["message"].x)[:2] == pytest.approx([4.0, 7.0])
    assert list(drawn["encode"].y) == ["worker 1"] and "central rows" not in drawn
    assert shown.figure.layout.meta["caption"] == critical_path(two_workers()).words
    assert shown.frame["ms"].sum() == pytest.approx(9.0)


def test_the_median_epoch_is_taken_and_one_that_was_not_recorded_refused() -> None:
    three = [two_workers(arrives=arrives).assign(epoch=epoch) for epoch, arrives in ((2, 9), (4, 7), (6, 6.5))]
    assert critical_path(pd.concat(three)).epoch == 4
    with pytest.raises(ValueError, match=r"one that was recorded, \[2\], got 5"):
        critical_path(two_workers(), epoch=5)
    with pytest.raises(ValueError, match="must be recorded to be shown, got none"):
        critical_path(two_workers().head(0))


def test_by_phase_compares_two_runs_for_each_worker_and_phase() -> None:
    beside = critical_path(two_workers(), two_workers(arrives=9.0))
    table = beside.by_phase()
    assert list(table.columns) == ["the first", "the other", "difference", "on the path", "on the other's"]
    assert table.loc[(0, "wait")].tolist() == pytest.approx([1.0, 3.0, -2.0, 0.0, 0.0])
    assert table.loc[(1, "encode")].tolist() == pytest.approx([3.0, 3.0, 0.0, 3.0, 3.0])
    assert table.loc[(0, "between"), "the first"] == pytest.approx(0.0)
    assert list(table.index[:2]) == [(0, "central"), (0, "marginal")]


def test_comparison_text_has_exposed_and_hidden_communication_of_both_runs() -> None:
    words = critical_path(two_workers(), two_workers(arrives=9.0)).words
    assert (
        "The critical path of the first, epoch 2, takes 9 ms, that of the other, epoch 2, 11 ms: 1.22 times as fast."
        in words
    )
    assert (
        "Worker 0: messages under way 5 ms instead of 7, exposed (it waited) 1 instead of 3, hidden behind its own "
        "work 4 instead of 4." in words
    )
    assert "These differ most: wait of worker 0 2 ms shorter." in words
    back = critical_path(two_workers(arrives=9.0), two_workers())
    assert "1.22 times as slow" in back.words and "wait of worker 0 2 ms longer" in back.words
    assert "No phase differs." in critical_path(two_workers(), two_workers()).words


def test_lanes_begin_together_and_the_path_lies_below_them() -> None:
    later = two_workers(arrives=9.0)
    later[["start_s", "end_s"]] += 7.0
    shown = critical_path(two_workers(), later).draw(dark=True)
    drawn = {trace.name: trace for trace in shown.figure.data}
    assert list(shown.figure.layout.yaxis.ticktext) == [
        "worker 0, the first", "worker 0, the other", "worker 1, the first", "worker 1, the other",
    ]  # fmt: skip
    assert sorted(zip(drawn["encode"].y, drawn["encode"].base)) == [
        (lane, pytest.approx(0.0, abs=1e-6)) for lane in sorted(drawn["encode"].y)
    ]
    assert max(base + ms for base, ms in zip(drawn["critical path"].base, drawn["critical path"].x)) == pytest.approx(
        11.0
    )
    under_way = dict(zip(drawn["bytes under way"].y, drawn["bytes under way"].x))
    assert under_way[-0.37] == pytest.approx(5.0) and under_way[0.63] == pytest.approx(7.0)


def test_an_epoch_that_both_recorded_is_taken() -> None:
    def recorded(*epochs: tuple[int, float]) -> pd.DataFrame:
        return pd.concat([two_workers(arrives=arrives).assign(epoch=epoch) for epoch, arrives in epochs])

    one, other = recorded((2, 9), (4, 7), (6, 8)), recorded((4, 9), (6, 7), (8, 7))
    beside = critical_path(one, other)
    assert beside.first.path.epoch == beside.baseline.path.epoch in (4, 6)
    apart = critical_path(recorded((2, 7)), recorded((4, 7)))
    assert (apart.first.path.epoch, apart.baseline.path.epoch) == (2, 4)
    with pytest.raises(ValueError, match=r"one that was recorded, \[4, 6, 8\], got 2"):
        critical_path(one, other, epoch=2)
    with pytest.raises(ValueError, match=r"must have the same workers, got \[0, 1\] and \[0\]"):
        critical_path(two_workers(), two_workers(arrives=5.5).query("rank == 0"))
