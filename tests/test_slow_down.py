"""Limits in seconds, scaled by recorded loads."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from tests import slow_down


@pytest.mark.parametrize(
    ("now", "before", "seconds", "expected"),
    [
        (1.0, 0.5, 1.9, True),
        (1.0, 0.5, 5.9, True),
        (1.0, 0.5, 6.1, False),
        (4.0, 0.5, 23.0, True),
        (1.0, 4.0, 23.0, True),
        (2.0, 4.0, 25.0, False),
    ],
)
def test_in_time_allows_for_the_load_before_and_now(
    monkeypatch: pytest.MonkeyPatch, now: float, before: float, seconds: float, expected: bool
) -> None:
    monkeypatch.setattr(slow_down, "slow_down", lambda: now)
    monkeypatch.setattr("os.getloadavg", lambda: (2 * before, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert slow_down.in_time(seconds, 2.0) is expected


def test_wait_until_ends_when_its_condition_holds_or_something_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0.0, slow_down.HANG_S / 4)
    clock = SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda seconds: None)
    monkeypatch.setattr(slow_down, "time", clock)
    held = iter((False, False, True))
    assert slow_down.wait_until(lambda: next(held), what="the third answer") == 0.75 * slow_down.HANG_S
    with pytest.raises(AssertionError, match="not within 900.0 s: a hang"):
        slow_down.wait_until(lambda: False, what="a hang")


def test_wait_until_ends_as_soon_as_a_promise_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0.0, 1.0)
    clock = SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda seconds: None)
    monkeypatch.setattr(slow_down, "time", clock)
    monkeypatch.setattr(slow_down, "in_time", lambda seconds, promised_s: seconds < 4 * promised_s)
    with pytest.raises(AssertionError, match=r"not within 27.0 s, 5.0 s are promised: the end of a leftover"):
        slow_down.wait_until(lambda: False, promised_s=5.0, what="the end of a leftover")


def test_slow_down_is_at_least_one() -> None:
    assert slow_down.slow_down() >= 1.0
