"""The simulated link: the time that messages take on it, and their unchanged contents."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gnnqlab.message.transport import paced
from gnnqlab.message.transport import transport as moving
from gnnqlab.message.transport.paced import Paced, Pacer
from gnnqlab.message.transport.transport import TRANSPORTS
from tests.cases import each
from tests.ranks import run_ranks

RATE = 10e6


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock whose time is set by the test."""
    now = [100.0]
    monkeypatch.setattr(paced.time, "monotonic", lambda: now[0])
    return now


def pacers(workers: int, hosts: int, board: Path, rate: float = 1000.0) -> list[Pacer]:
    return [Pacer(rank, workers, hosts=hosts, bytes_per_s=rate, board=board) for rank in range(workers)]


def test_messages_leave_one_after_the_other_at_the_rate(clock: list[float], tmp_path: Path) -> None:
    first, second, third = pacers(3, 3, tmp_path / "board")
    assert first.leave({1: 500, 2: 1000}) == pytest.approx(101.5)  # 1500 bytes at 1000 a second
    assert second.come(0, second.prepost(0)) == pytest.approx(100.5)
    assert third.come(0, third.prepost(0)) == pytest.approx(101.5)
    assert first.leave({1: 500}) == pytest.approx(102.0)  # after those before it
    clock[0] = 110.0
    assert first.leave({1: 100}) == pytest.approx(110.1)  # an idle link does not save up capacity
    assert [second.come(0, second.prepost(0)) for _ in (500, 100)] == pytest.approx([102.0, 110.1])


def test_a_receiver_takes_no_more_than_its_link_carries(clock: list[float], tmp_path: Path) -> None:
    first, second, third = pacers(3, 3, tmp_path / "board")
    for sender in (second, third):
        assert sender.leave({0: 1000}) == pytest.approx(101.0)
    come = [first.come(peer, first.prepost(peer)) for peer in (1, 2)]
    assert come == pytest.approx([101.0, 102.0])


def test_workers_of_a_host_share_its_link_and_need_none_between_them(clock: list[float], tmp_path: Path) -> None:
    first = pacers(4, 2, tmp_path / "board")[0]
    assert [first.slow(peer) for peer in range(4)] == [False, False, True, True]
    assert first.leave({2: 500}) == pytest.approx(101.0)  # half of 1000 a second


def test_more_messages_than_slots_keep_their_own_times(clock: list[float], tmp_path: Path) -> None:
    first, second = pacers(2, 2, tmp_path / "board")
    for _ in range(200):
        left = first.leave({1: 10})
        assert second.come(0, second.prepost(0)) == pytest.approx(left)
    assert left == pytest.approx(102.0)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be a multiple of the hosts, got 3 worker\(s\) on 2 hosts; choose 4"):
        pacers(3, 2, tmp_path / "board")
    with pytest.raises(ValueError, match=r"bytes_per_s must be positive, got 0\.0"):
        pacers(2, 2, tmp_path / "board", rate=0.0)


SIZES = (20_000, 200_000, 1_000_000)


@each("transport", sorted(TRANSPORTS))
def test_message_times_follow_from_size_and_rate(transport: str, tmp_path: Path) -> None:
    expected = [size / RATE for size in SIZES]
    for shown, passed in run_ranks(exchange, 2, transport, tmp_path / "board"):
        assert shown == pytest.approx(expected) and passed == pytest.approx(expected)


def exchange(rank: int, workers: int, name: str, board: Path) -> tuple[list[float], list[float]]:
    """Exchange messages of all sizes on a clock that only advances by sleep.

    Return for each the seconds from post to completion, as recorded and as elapsed.
    """
    import torch.distributed as dist

    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock: Any = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0], sleep=sleep)
    paced.time = moving.time = clock
    pacer = Pacer(rank, workers, hosts=2, bytes_per_s=RATE, board=board)
    transport = Paced(TRANSPORTS[name](rank, workers), pacer)
    shown, passed = [], []
    for number, size in enumerate(SIZES):
        outgoing = torch.full((size,), 10 * rank + number, dtype=torch.uint8)
        incoming = torch.empty(size, dtype=torch.uint8)
        dist.barrier()
        began = now[0]
        transfer = transport.post({1 - rank: outgoing}, {1 - rank: incoming})
        transfer.wait()
        assert bool((incoming == 10 * (1 - rank) + number).all())
        assert transfer.wire_s == transfer.seconds[1 - rank]
        shown.append(transfer.wire_s)
        passed.append(now[0] - began)
    return shown, passed
