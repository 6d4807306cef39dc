"""How often a live view draws."""

from __future__ import annotations

from gnnqlab.lab.training.live_panel import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _pace(clock: Clock) -> Pace:
    return Pace(share=0.005, credit_s=0.1, least_s=1.0, most_s=10.0, clock=clock)


def test_the_first_drawings_come_every_second_then_the_share_is_kept() -> None:
    clock = Clock()
    pace = _pace(clock)
    begun, spent, waits = clock.now, 0.0, []
    for _ in range(200):
        spent += 0.03
        waits.append(pace.after(0.03))
        clock.now += waits[-1]
    assert waits[:3] == [1.0, 1.0, 1.0]
    assert spent <= 0.1 + 0.005 * (clock.now - begun) + 1e-9
    assert round(waits[-1], 6) == 6.0  # 0.03 s at half a per cent


def test_no_drawing_waits_longer_than_the_most() -> None:
    clock = Clock()
    pace = _pace(clock)
    assert pace.after(3.0) == 10.0, "a slow drawing, as of a long run that was just opened"
    clock.now += 10.0
    assert pace.after(0.02) == 4.0, "the next ones are not billed for it"
    clock.now += 4.0
    assert pace.after(3.0) == 10.0


def test_a_page_just_opened_moves_at_once() -> None:
    clock = Clock()
    pace = _pace(clock)
    pace.after(3.0)
    pace.refill()
    assert pace.after(0.03) == 1.0
    clock.now += 1e6
    pace.after(0.09)
    assert pace.after(0.09) == 10.0, "no more than the credit is saved"
