"""Student's intervals, compared with the distribution of scipy.stats."""

from __future__ import annotations

import pytest
from scipy import stats

from gnnqlab.theory.intervals import interval


@pytest.mark.parametrize("count", [2, 3, 10, 24, 200])
def test_the_factor_is_student_s(count: int) -> None:
    values = [float(number % 7) for number in range(count)]
    mean, half = interval(values)
    spread = stats.tstd(values) / count**0.5
    assert mean == pytest.approx(sum(values) / count)
    assert half == pytest.approx(stats.t.ppf(0.975, count - 1) * spread)
