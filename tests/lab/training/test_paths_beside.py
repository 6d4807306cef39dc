"""Two epochs against each other: the same worker's phases beside each other, differences known by hand."""

import pandas as pd
import pytest

import gnnqlab as gq
from tests.lab.training.test_critical_path import two_workers


def test_phases_stand_beside_each_other_worker_by_worker() -> None:
    beside = gq.critical_path(two_workers(), two_workers(arrives=9.0))
    table = beside.by_phase()
    assert list(table.columns) == ["the first", "the other", "difference", "on the path", "on the other's"]
    assert table.loc[(0, "wait")].tolist() == pytest.approx([1.0, 3.0, -2.0, 0.0, 0.0])
    assert table.loc[(1, "encode")].tolist() == pytest.approx([3.0, 3.0, 0.0, 3.0, 3.0])
    assert table.loc[(0, "between"), "the first"] == pytest.approx(0.0)
    assert list(table.index[:2]) == [(0, "central"), (0, "marginal")]


def test_what_is_exposed_and_hidden_is_told_of_both() -> None:
    words = gq.critical_path(two_workers(), two_workers(arrives=9.0)).words
    assert (
        "The critical path of the first, epoch 2, takes 9 ms, that of the other, epoch 2, 11 ms: 1.22 times as fast."
        in words
    )
    assert (
        "Worker 0: messages under way 5 ms instead of 7, exposed (it waited) 1 instead of 3, hidden behind its own "
        "work 4 instead of 4." in words
    )
    assert "These differ most: wait of worker 0 2 ms shorter." in words
    back = gq.critical_path(two_workers(arrives=9.0), two_workers())
    assert "1.22 times as slow" in back.words and "wait of worker 0 2 ms longer" in back.words
    assert "No phase differs." in gq.critical_path(two_workers(), two_workers()).words


def test_lanes_begin_together_and_the_path_lies_below_them() -> None:
    later = two_workers(arrives=9.0)
    later[["start_s", "end_s"]] += 7.0
    shown = gq.critical_path(two_workers(), later).draw(dark=True)
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
    beside = gq.critical_path(one, other)
    assert beside.one.path.epoch == beside.other.path.epoch in (4, 6)
    apart = gq.critical_path(recorded((2, 7)), recorded((4, 7)))
    assert (apart.one.path.epoch, apart.other.path.epoch) == (2, 4)
    with pytest.raises(ValueError, match=r"one that was recorded, \[4, 6, 8\], got 2"):
        gq.critical_path(one, other, epoch=2)
    with pytest.raises(ValueError, match=r"must have the same workers, got \[0, 1\] and \[0\]"):
        gq.critical_path(two_workers(), two_workers(arrives=5.5).query("rank == 0"))
