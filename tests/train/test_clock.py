"""Phases exclude each other and add up."""

from __future__ import annotations

import time

import pytest

from gnnqlab.train.clock import PARTS, PHASES, Clock


def test_phases_add_up_to_the_wall():
    clock = Clock()
    clock.take()
    begun = time.perf_counter()
    with clock("dense"):
        time.sleep(0.01)
        with clock("wait"):
            time.sleep(0.02)
        time.sleep(0.01)
    time.sleep(0.005)
    wall = time.perf_counter() - begun
    seconds = clock.take()
    assert set(seconds) == set(PHASES) | set(PARTS["dense"])
    assert sum(seconds.values()) == pytest.approx(wall, abs=1e-3)
    assert seconds["wait"] >= 0.02 and seconds["dense"] >= 0.02 and seconds["other"] >= 0.005
    assert seconds["dense"] < wall - 0.02


def test_a_whole_phase_claims_what_is_inside():
    clock = Clock()
    with clock.whole("evaluate"), clock("central"):
        time.sleep(0.005)
    seconds = clock.take()
    assert seconds["evaluate"] >= 0.005 and seconds["central"] == 0.0


def test_waiting_is_seen_inside_a_whole_phase():
    beats = []
    clock = Clock(beats.append)
    with clock.whole("evaluate"), clock("wait"):
        pass
    assert beats == ["evaluate", "wait", "evaluate", "compute"]


def test_the_phase_around_opens_again_after_an_error():
    beats = []
    clock = Clock(beats.append)
    with pytest.raises(KeyError), clock("encode"):
        raise KeyError
    assert beats[-2:] == ["encode", "compute"]


def test_a_clock_may_count_something_else():
    ticks = iter(range(100))
    clock = Clock(timer=lambda: float(next(ticks)))
    with clock("dense"):
        pass
    assert clock.take()["dense"] == 1.0
