"""The link that is not there: how long messages take on it, and that they arrive unchanged."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
import torch

from gnnqlab.message import paced
from gnnqlab.message.paced import Paced, Pacer
from gnnqlab.message.transport import TRANSPORTS
from tests.cases import each
from tests.ranks import run_ranks
from tests.slow_down import kept

RATE = 10e6


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    now = [100.0]
    monkeypatch.setattr(paced.time, "monotonic", lambda: now[0])
    return now


def pacers(workers: int, hosts: int, board: Path, rate: float = 1000.0) -> list[Pacer]:
    return [Pacer(rank, workers, hosts=hosts, bytes_per_s=rate, board=board) for rank in range(workers)]


def test_messages_leave_one_after_the_other_at_the_rate(clock: list[float], tmp_path: Path) -> None:
    first, second, third = pacers(3, 3, tmp_path / "board")
    assert first.leave({1: 500, 2: 1000}) == pytest.approx(101.5)  # 1500 bytes at 1000 a second
    assert second.come(0, second.expect(0)) == pytest.approx(100.5)
    assert third.come(0, third.expect(0)) == pytest.approx(101.5)
    assert first.leave({1: 500}) == pytest.approx(102.0)  # behind those before it
    clock[0] = 110.0
    assert first.leave({1: 100}) == pytest.approx(110.1)  # a link at rest saves up nothing
    assert [second.come(0, second.expect(0)) for _ in (500, 100)] == pytest.approx([102.0, 110.1])


def test_a_receiver_takes_no_more_than_its_link_carries(clock: list[float], tmp_path: Path) -> None:
    first, second, third = pacers(3, 3, tmp_path / "board")
    for sender in (second, third):
        assert sender.leave({0: 1000}) == pytest.approx(101.0)
    come = [first.come(peer, first.expect(peer)) for peer in (1, 2)]
    assert come == pytest.approx([101.0, 102.0])


def test_workers_of_a_host_share_its_link_and_need_none_between_them(clock: list[float], tmp_path: Path) -> None:
    first = pacers(4, 2, tmp_path / "board")[0]
    assert [first.slow(peer) for peer in range(4)] == [False, False, True, True]
    assert first.leave({2: 500}) == pytest.approx(101.0)  # half of 1000 a second


def test_more_messages_than_slots_keep_their_own_times(clock: list[float], tmp_path: Path) -> None:
    first, second = pacers(2, 2, tmp_path / "board")
    for _ in range(200):
        left = first.leave({1: 10})
        assert second.come(0, second.expect(0)) == pytest.approx(left)
    assert left == pytest.approx(102.0)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers must be a multiple of the hosts, got 3 workers on 2 hosts"):
        pacers(3, 2, tmp_path / "board")
    with pytest.raises(ValueError, match=r"bytes_per_s must be positive, got 0\.0"):
        pacers(2, 2, tmp_path / "board", rate=0.0)


@each("transport", sorted(TRANSPORTS))
def test_the_rate_is_held_within_a_tenth(transport: str, tmp_path: Path) -> None:
    seconds = run_ranks(exchange, 2, transport, tmp_path / "board")
    for size, took in zip(SIZES, statistics_of(seconds), strict=True):
        print(f"{transport}: {size} bytes in {took:.4f} s, {size / RATE / took:.3f} of the rate")
        assert took >= 0.999 * size / RATE and kept(took, 1.1 * size / RATE + 5e-3)


SIZES = (20_000, 200_000, 1_000_000)


def statistics_of(seconds: list[list[list[float]]]) -> list[float]:
    """Mean over ranks (one that posts late sees less), least of all repeats (the machine is shared)."""
    return [
        min(statistics.fmean(pair) for pair in zip(*(rank[index] for rank in seconds), strict=True))
        for index in range(len(SIZES))
    ]


def exchange(rank: int, workers: int, name: str, board: Path) -> list[list[float]]:
    """Exchange messages of all sizes; the seconds from post to arrival."""
    import torch.distributed as dist

    pacer = Pacer(rank, workers, hosts=2, bytes_per_s=RATE, board=board)
    transport = Paced(TRANSPORTS[name](rank, workers), pacer)
    seconds: list[list[float]] = []
    for size in SIZES:
        seconds.append([])
        for repeat in range(5):
            outgoing = torch.full((size,), 10 * rank + repeat, dtype=torch.uint8)
            incoming = torch.empty(size, dtype=torch.uint8)
            dist.barrier()
            transfer = transport.post({1 - rank: outgoing}, {1 - rank: incoming})
            transfer.wait()
            assert bool((incoming == 10 * (1 - rank) + repeat).all())
            assert transfer.wire_s >= transfer.seconds[1 - rank] >= 0
            seconds[-1].append(transfer.seconds[1 - rank])
    return seconds
