"""The measurement of the halo exchange: ratios, goals and the hidden share of given seconds; one run of each case."""

from __future__ import annotations

from benchmarks.kernels import halo as module

SECONDS = {
    "rival": [8.0, 9.0, 10.0], "32": [6.0, 6.0, 6.0], "8": [2.0, 3.0, 4.0], "4": [1.5] * 3, "2": [1.0] * 3,
    "two": [10.0] * 3, "two, processor": [2.5] * 3,
    "computing": [12.0] * 3, "overlapped": [13.0] * 3, "update": [1.0] * 3, "new plan": [4.0] * 3,
}  # fmt: skip


def test_rows_compare_medians_with_the_rival_and_the_goals():
    rows = {row["metric"]: row for row in module._rows("1gbit between hosts", 2, SECONDS, module.GOALS)}
    assert rows["exchange in 32 bits"]["ratio"] == 1.5 and rows["exchange in 32 bits"]["reached"]
    assert rows["exchange in 8 bits"]["ratio"] == 3.0 and not rows["exchange in 8 bits"]["reached"]
    assert rows["exchange in 4 bits"]["reached"] and not rows["exchange in 2 bits"]["reached"]
    # 10 s of exchanges over 12 s of computation take 13 s together: 9 of the 10 s are hidden.
    hidden = rows["hidden share of two exchanges"]
    assert hidden["ratio"] == 0.9 and hidden["reached"]
    assert rows["processor time of two exchanges, of a worker"]["ratio"] == 0.25
    assert rows["update of 100000 edges, and an exchange"]["ratio"] == 4.0
    loopback = module._rows("loopback", 2, SECONDS, {32: 1.0})
    assert [row["goal"] for row in loopback] == [1.0, None, None, None, None, None, None]


def test_two_workers_measure_every_case():
    seconds = module._measured(2, 1, 64, None)
    assert set(seconds) == set(SECONDS) and all(len(each) == 1 and each[0] > 0 for each in seconds.values())
