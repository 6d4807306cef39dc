"""Timed transfers: every pair, every size, often enough."""

from __future__ import annotations

import pytest

from gnnqlab.message.transport.links import SIZES, sizes_up_to, time_transfers
from tests.ranks import run_ranks


def timed(rank, workers):
    return time_transfers(rank, workers, sizes=(1000, 50_000), repeats=5)


def test_every_pair_is_timed_at_every_size():
    for rank, seen in enumerate(run_ranks(timed, 3)):
        assert sorted(seen) == sorted({0, 1, 2} - {rank})
        for samples in seen.values():
            assert [size for size, _ in samples] == [1000] * 5 + [50_000] * 5
            assert all(seconds > 0 for _, seconds in samples)


def test_one_sample_is_refused():
    with pytest.raises(ValueError, match="repeats must be at least 5, for reliable medians, got 1"):
        time_transfers(0, 1, repeats=1)


def test_links_are_timed_by_messages_no_larger_than_trainings_own():
    assert sizes_up_to(200_000)[-1] == 200_000 and sizes_up_to(10**9) == SIZES
    least = sizes_up_to(0)  # a line fitted to latencies alone would make bytes free
    assert least == sizes_up_to(1000) and least[-1] == 64 * 2**10 and least[0] < least[1] < least[2]
