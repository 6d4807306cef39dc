"""Phases exclude each other and add up."""

from __future__ import annotations

import pytest

from gnnqlab.train.loop.phase_timer import PARTS, PHASES, PhaseTimer


def test_phases_add_up_to_the_wall():
    now = [0.0]
    clock = PhaseTimer(timer=lambda: now[0])
    clock.take()
    with clock("dense"):
        now[0] += 1
        with clock("wait"):
            now[0] += 2
        now[0] += 4
    now[0] += 8
    seconds = clock.take()
    assert set(seconds) == set(PHASES) | set(PARTS["dense"])
    assert {name: spent for name, spent in seconds.items() if spent} == {"dense": 5, "wait": 2, "other": 8}


def test_inclusive_phase_counts_the_time_of_inner_phases():
    now = [0.0]
    clock = PhaseTimer(timer=lambda: now[0])
    with clock.open_inclusive("evaluate"), clock("central"):
        now[0] += 1
    seconds = clock.take()
    assert seconds["evaluate"] == 1 and seconds["central"] == 0


def test_waiting_inside_an_inclusive_phase_is_reported():
    beats = []
    clock = PhaseTimer(beats.append)
    with clock.open_inclusive("evaluate"), clock("wait"):
        pass
    assert beats == ["evaluate", "wait", "evaluate", "compute"]


def test_the_phase_around_opens_again_after_an_error():
    beats = []
    clock = PhaseTimer(beats.append)
    with pytest.raises(KeyError), clock("encode"):
        raise KeyError
    assert beats[-2:] == ["encode", "compute"]


def test_a_clock_may_count_something_else():
    ticks = iter(range(100))
    clock = PhaseTimer(timer=lambda: float(next(ticks)))
    with clock("dense"):
        pass
    assert clock.take()["dense"] == 1.0
