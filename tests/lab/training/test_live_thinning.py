"""Long runs in few points: extremes and ends stay, and groups stay as epochs are added."""

from __future__ import annotations

import numpy as np
import pytest

from gnnqlab.lab.training.live_thinning import Buckets, thin
from tests.cases import each


def test_thinning_keeps_extremes_and_ends() -> None:
    x = np.arange(10_000.0)
    y = np.sin(x / 700)
    y[4321], y[8765] = 9.0, -9.0
    few_x, few_y = thin(x, y, buckets=100)
    assert len(few_x) <= 202 and {4321, 8765, 0, 9999} <= set(few_x.astype(int)) and (np.diff(few_x) > 0).all()
    assert (few_y == y[few_x.astype(int)]).all()
    few_x, _ = thin(np.arange(4.0), np.array([1.0, np.nan, 2.0, np.nan]))
    assert few_x.tolist() == [0, 2], "a missing value is no point"


@each(("count", "most"), [(1, 10), (10, 10), (11, 10), (1000, 48), (12345, 48)])
def test_groups_of_epochs_are_few_and_stay_as_epochs_are_added(count: int, most: int) -> None:
    values = np.random.default_rng(0).random(count)
    buckets = Buckets(np.arange(float(count)), most=most)
    means = buckets.mean(values)
    assert len(means) == len(buckets.centers) <= most
    length = buckets.length
    assert means[0] == pytest.approx(values[:length].mean()) and str(length).rstrip("0") in ("1", "2", "5")
    assert Buckets(np.zeros(0), most=5).mean(np.zeros(0)).tolist() == []
