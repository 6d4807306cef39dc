"""The arithmetic of calibration: from bytes and seconds to a rate, and from one rate to a better one."""

from __future__ import annotations

import dataclasses

import pytest

import gnnqlab as gq
from gnnqlab.launch import calibrate
from gnnqlab.launch.calibrate import (
    Calibration,
    LinkTrial,
    estimate_host_bytes,
    first_rate,
    next_rate,
    resolve_comm_share,
    search,
)
from gnnqlab.train.link import parse_link


class Machine:
    """Computes for 100 ms; sends 3 MB at a part of the rate, and waits 5 ms at any rate."""

    def __init__(self, *, compute_s: float = 0.1, num_bytes: float = 3e6, goodput: float = 0.9) -> None:
        self.compute_s, self.num_bytes, self.goodput = compute_s, num_bytes, goodput
        self.asked: list[str] = []

    def __call__(self, link: str) -> LinkTrial:
        self.asked.append(link)
        communicate_s = 0.005 + 8 * self.num_bytes / (self.goodput * parse_link(link))
        epoch_s = self.compute_s + communicate_s
        return LinkTrial(link=link, share=communicate_s / epoch_s, epoch_s=epoch_s)


@pytest.mark.parametrize("target_share", [0.3, 0.5, 0.75, 0.89, 0.94])
def test_search_reaches_the_target_share_within_one_percentage_point(target_share: float) -> None:
    machine = Machine()
    found = search(machine, first_rate(machine.num_bytes, machine.compute_s, target_share), target_share)
    assert abs(found.best.share - target_share) <= 0.01
    assert len(found.trials) == len(machine.asked) <= 4


def test_on_a_wire_without_losses_the_first_guess_is_right() -> None:
    rate = first_rate(3e6, 0.1, 0.75)
    assert 3e6 * 8 / rate == pytest.approx(0.3)  # 300 of 400 ms
    assert next_rate(rate, 0.75, 0.75) == pytest.approx(rate)
    assert next_rate(rate, 0.5, 0.75) == pytest.approx(rate / 3)  # from 1 : 1 to 3 : 1


def test_host_bytes_are_the_message_share_plus_a_ring_of_gradients() -> None:
    # Two workers on two hosts: each sends half of all messages, and the gradients once in the two passes of a ring.
    assert estimate_host_bytes(600.0, 0.0, 2, 2) == 300.0 and estimate_host_bytes(0.0, 100.0, 2, 2) == 100.0
    # Four workers on two hosts: two of three peers are on the other host; a ring of four sends 2 · 3/4 of the
    # gradients.
    assert estimate_host_bytes(600.0, 100.0, 4, 2) == pytest.approx(600 * 2 / 3 / 2 + 150)


def test_a_share_out_of_reach_ends_the_search_with_the_nearest_trial() -> None:
    busy = Machine(num_bytes=3e11)  # even the fastest link takes longer
    found = search(busy, first_rate(busy.num_bytes, busy.compute_s, 0.1), 0.1)
    assert found.trials[-1].link == "100000mbit"
    assert len(set(busy.asked)) == len(busy.asked) <= 4
    assert found.best.share > 0.9


def test_all_systems_get_the_link_that_vanilla_was_measured_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def found(config: object) -> Calibration:
        asked.append(config)
        trials = [LinkTrial(link=f"{10 * share:g}mbit", share=share / 10, epoch_s=1.0) for share in (5, 7, 9)]
        return Calibration(target_share=0.75, trials=tuple(trials))

    monkeypatch.setattr(calibrate, "calibrate", found)
    configs = [gq.configure("digits", system=name, comm_share=0.75) for name in ("vanilla", "adaqp")]
    changed = resolve_comm_share(configs)
    assert asked == configs[:1]
    for before, after in zip(configs, changed, strict=True):
        launch = dataclasses.replace(before.launch, link="70mbit", comm_share=None, vanilla_share=0.7)
        assert after == dataclasses.replace(before, launch=launch)
    assert resolve_comm_share(changed) == changed
    assert len(asked) == 1
