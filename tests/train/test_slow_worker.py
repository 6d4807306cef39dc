"""A worker that computes longer than the others is found, with the epoch since when; noise and waiting are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gnnqlab.train.records.slow_worker import COMPUTING, SlowWorker, computing_seconds, find_slow_worker
from tests.cases import each


def noisy(workers: int, epochs: int, *, seed: int = 0) -> np.ndarray:
    """Return computing seconds with single epochs up to ten times as long, as on a shared machine, ``(P, E)``."""
    draw = np.random.default_rng(seed)
    seconds = draw.uniform(0.9, 1.1, (workers, epochs))
    seconds[draw.random(seconds.shape) < 0.1] *= 10
    return seconds


@each("workers", [2, 3, 8])
@each("since", [30, 77])
def test_a_worker_that_becomes_slow_is_found_with_its_epoch(workers: int, since: int) -> None:
    seconds = noisy(workers, 120)
    seconds[1, since:] *= 1.7
    slow = find_slow_worker(seconds)
    assert slow is not None and slow.rank == 1
    assert slow.ratio == pytest.approx(1.7, abs=0.2)
    assert abs(slow.epoch - since) <= 3  # an outlier just before or after may shift it


def test_without_noise_the_epoch_is_exact_and_set_up_is_left_out() -> None:
    seconds = np.ones((4, 60))
    seconds[3, :3] = 50.0
    assert find_slow_worker(seconds) is None
    seconds[2, 41:] = 1.3
    assert find_slow_worker(seconds) == SlowWorker(2, 1.3, 41)
    seconds[2] = 1.5
    slow = find_slow_worker(seconds)
    assert slow == SlowWorker(2, 1.5, 0) and "since" not in slow.text


@each("seed", range(20))
def test_noise_alone_is_no_finding(seed: int) -> None:
    for workers in (2, 4):
        assert find_slow_worker(noisy(workers, 200, seed=seed)) is None


def test_a_worker_that_has_recovered_is_no_finding() -> None:
    seconds = np.ones((2, 60))
    seconds[0, 20:40] = 3.0
    assert find_slow_worker(seconds) is None


@each("shape", [(1, 100), (4, 12), (2, 0)])
def test_too_little_to_compare_is_no_finding(shape: tuple[int, int]) -> None:
    assert find_slow_worker(np.ones(shape)) is None


def test_waiting_does_not_count_and_unfinished_epochs_are_left_out() -> None:
    rows = [
        {"rank": rank, "epoch": epoch, **dict.fromkeys(COMPUTING, 1.0), "wait_s": 100.0 * rank, "reduce_s": 5.0}
        for rank in range(2)
        for epoch in range(4 - rank)
    ]
    seconds = computing_seconds(pd.DataFrame(rows))
    assert seconds.shape == (2, 3) and (seconds == len(COMPUTING)).all()
