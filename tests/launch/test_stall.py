"""The rules of the guard, with a simulated clock."""

import dataclasses

import pytest

from gnnqlab.launch.stall import Rules, Stall, StallWatch
from gnnqlab.run.processes import Process
from gnnqlab.train.heartbeat import Pulse
from tests.cases import each


@dataclasses.dataclass
class Rank:
    """A rank that the tests advance."""

    number: int
    phase: str = "compute"
    epoch: int = -1
    limit_s: float = 0.0
    state: str = "S"
    beats: int = 0
    cpu: float = 0.0
    beat_s: float = 0.0
    began_s: float = 0.0
    epoch_s: float = 0.0


class World:
    """Ranks, a clock that ticks every 50 ms, and a stall watch that observes them."""

    def __init__(self, *ranks: Rank, rules: Rules | None = None) -> None:
        self.ranks, self.now_s = ranks, 0.0
        self.received: dict[int, int | None] = {}
        self.watch = StallWatch(rules or Rules(), look=self._look, received=self.received.get)

    def _look(self, pid: int) -> Process:
        rank = self.ranks[pid]
        return Process(pid, rank.state, 1, int(rank.cpu * 100), 0, 0)

    def beat(self, rank: Rank, phase: str, epoch: int | None = None) -> None:
        rank.phase, rank.beats, rank.beat_s = phase, rank.beats + 1, self.now_s
        if epoch is not None and epoch != rank.epoch:
            rank.epoch_s = 0.0 if rank.epoch < 0 else self.now_s - rank.began_s
            rank.epoch, rank.began_s = epoch, self.now_s

    def tick(self, seconds: float = 0.05) -> Stall | None:
        self.now_s += seconds
        for rank in self.ranks:
            rank.cpu += seconds if rank.state == "R" else 0.0
        pulses = [
            Pulse(r.number, 0, r.number, 0, r.beats, r.epoch, int(r.beat_s * 1e9), r.limit_s, r.epoch_s, r.phase)
            for r in self.ranks
        ]
        return self.watch.observe(self.now_s, pulses)

    def until(self, *, fatal: bool, at_most_s: float = 700.0) -> tuple[float, Stall]:
        """Return the seconds until the first stall that is reported, or that ends the run."""
        began = self.now_s
        while self.now_s - began < at_most_s:
            stall = self.tick()
            if stall is not None and stall.fatal >= fatal:
                return self.now_s - began, stall
        raise AssertionError(f"no stall within {at_most_s} s")

    def train(self, epochs: int, epoch_s: float) -> None:
        for epoch in range(epochs):
            for phase in ("compute", "wait"):
                for rank in self.ranks:
                    self.beat(rank, phase, epoch)
                until = self.now_s + epoch_s / 2
                while self.now_s < until - 1e-9:
                    assert self.tick() is None


@each("epoch_s", [0.1, 1.0, 4.0])
def test_training_is_no_stall(epoch_s: float) -> None:
    World(Rank(0, state="R"), Rank(1)).train(8, epoch_s)


def test_a_stopped_rank_is_named_after_3_s_and_ended_after_8_s() -> None:
    world = World(Rank(0), Rank(1), Rank(2))
    world.train(5, 0.2)
    for rank in world.ranks:
        world.beat(rank, "wait")
    world.ranks[1].state = "T"
    seconds, stall = world.until(fatal=False)
    assert (stall.kind, stall.ranks) == ("stopped", (1,)) and 2.5 < seconds <= 3.5
    more, stall = world.until(fatal=True)
    assert (stall.kind, stall.ranks) == ("stopped", (1,)) and 7.5 < seconds + more <= 8.5


def test_a_stopped_rank_is_named_even_if_others_go_on_or_have_hours() -> None:
    world = World(Rank(0, phase="load", limit_s=86400.0), Rank(1, phase="partition", limit_s=86400.0))
    for _ in range(2000):
        assert world.tick() is None  # 100 s of loading
    world.ranks[1].state = "T"
    for _ in range(100):
        world.beat(world.ranks[0], "load")
        stall = world.tick()
    assert stall is not None and (stall.kind, stall.ranks, stall.fatal) == ("stopped", (1,), False)


def test_a_short_stop_is_forgiven() -> None:
    world = World(Rank(0), Rank(1))
    world.train(3, 0.2)
    world.ranks[1].state = "T"
    for _ in range(40):
        assert world.tick() is None
    world.ranks[1].state = "S"
    world.train(3, 0.2)


def test_a_sleeping_rank_is_the_one_that_does_not_wait_for_others() -> None:
    world = World(Rank(0), Rank(1), Rank(2))
    world.train(5, 0.2)
    world.beat(world.ranks[0], "wait")
    world.beat(world.ranks[2], "reduce")
    world.beat(world.ranks[1], "encode")
    seconds, stall = world.until(fatal=False)
    assert (stall.kind, stall.ranks) == ("hung", (1,)) and seconds <= 3.5
    more, stall = world.until(fatal=True)
    assert (stall.kind, stall.ranks) == ("hung", (1,)) and seconds + more <= 8.5


def test_a_working_rank_is_slow_and_has_ten_minutes() -> None:
    world = World(Rank(0), Rank(1))
    world.train(5, 0.2)
    world.beat(world.ranks[0], "wait")
    world.beat(world.ranks[1], "compute")
    world.ranks[1].state = "R"
    seconds, stall = world.until(fatal=False)
    assert (stall.kind, stall.ranks, stall.fatal) == ("slow", (1,), False) and seconds <= 3.5
    more, stall = world.until(fatal=True)
    assert stall.kind == "slow" and 599 < seconds + more < 602


def test_a_rank_that_waits_in_a_phase_of_its_own_does_not_hang_while_another_works() -> None:
    world = World(Rank(0), Rank(1))
    for rank in world.ranks:
        # the first evaluation of a large graph, before the length of any epoch is known
        world.beat(rank, "evaluate", 0)
    world.ranks[1].state = "R"
    for _ in range(2000):
        stall = world.tick()
        assert stall is None or (stall.kind, stall.ranks, stall.fatal) == ("slow", (1,), False)


def test_the_odd_wake_up_is_no_work() -> None:
    world = World(Rank(0), Rank(1))
    world.train(5, 0.2)
    kinds = set()
    for tick in range(140):
        world.ranks[0].cpu += 0.01 if tick % 20 == 0 else 0.0  # one clock tick per second
        world.ranks[1].cpu += 0.01 if tick % 20 == 0 else 0.0
        stall = world.tick()
        kinds |= {stall.kind} if stall else set()
    assert kinds == {"waiting"}  # both are in the phase wait


def test_ranks_wait_in_peace_while_bytes_come_over_a_slow_wire() -> None:
    world = World(Rank(0), Rank(1), rules=Rules(slow_wire=True))
    for rank in world.ranks:
        world.beat(rank, "wait", 0)
    for tick in range(1600):  # one message of 80 s, which only rank 1 receives, at 100 kbit/s
        world.received[1] = 625 * tick
        assert world.tick() is None
    seconds, stall = world.until(fatal=False)
    assert stall.kind == "waiting" and 19 < seconds < 22 and not stall.fatal


def test_small_talk_of_idle_connections_is_no_message() -> None:
    world = World(Rank(0), Rank(1))
    world.train(5, 0.2)
    for rank in world.ranks:
        world.beat(rank, "wait")
    for tick in range(70):
        world.received[0] = world.received[1] = 60 * tick  # an acknowledgement every 50 ms
        stall = world.tick()
    assert stall is not None and stall.kind == "waiting"


@each("phase", ["wait", "compute"])
def test_first_epoch_without_a_reference_is_slow_or_waiting_after_20_s(phase: str) -> None:
    world = World(Rank(0, state="R"), Rank(1), rules=Rules(slow_wire=True))
    world.beat(world.ranks[0], phase, 0)
    world.beat(world.ranks[1], "wait", 0)
    seconds, stall = world.until(fatal=False)
    assert stall.kind == ("slow" if phase == "compute" else "waiting") and 19 < seconds < 21


def test_all_waiting_blames_the_furthest_behind() -> None:
    world = World(Rank(0), Rank(1), Rank(2))
    world.train(4, 0.2)
    world.beat(world.ranks[0], "wait", 4)
    world.beat(world.ranks[2], "wait", 4)
    _, stall = world.until(fatal=True)
    assert (stall.kind, stall.ranks) == ("waiting", (1,))


def test_over_several_machines_waiting_is_given_longer() -> None:
    world = World(Rank(0), Rank(1), rules=Rules(machines=2))
    world.train(4, 0.2)
    seconds, stall = world.until(fatal=True)
    assert stall.kind == "waiting" and 19 < seconds < 21


def test_over_several_machines_the_first_epoch_may_be_long_elsewhere() -> None:
    world = World(Rank(0), Rank(1), rules=Rules(machines=2))
    for rank in world.ranks:
        world.beat(rank, "wait", 0)
    seconds, _ = world.until(fatal=True)
    assert 599 < seconds < 602


def test_epoch_between_two_polls_counts_in_the_median() -> None:
    world = World(Rank(0), Rank(1), rules=Rules(machines=2))
    world.tick()
    for epoch in (0, 1):
        world.now_s += 0.02
        for rank in world.ranks:
            world.beat(rank, "wait", epoch)
    seconds, stall = world.until(fatal=True)
    assert (stall.kind, stall.ranks) == ("waiting", (0, 1)) and 19 < seconds < 21
    assert world.watch.median_epoch_s == pytest.approx(0.02)


def test_long_epochs_widen_all_limits() -> None:
    world = World(Rank(0), Rank(1))
    world.train(4, 2.0)
    assert world.watch.median_epoch_s == pytest.approx(2.0, rel=0.1)
    for rank in world.ranks:
        world.beat(rank, "encode")
    seconds, _ = world.until(fatal=False)
    more, _ = world.until(fatal=True)
    assert 9.5 < seconds < 11 and 39 < seconds + more < 42


def test_a_phase_with_a_limit_keeps_it() -> None:
    world = World(Rank(0), Rank(1))
    world.train(4, 0.2)
    world.ranks[0].limit_s = 100.0
    world.beat(world.ranks[0], "evaluate")
    world.beat(world.ranks[1], "wait")
    seconds, stall = world.until(fatal=False)
    more, _ = world.until(fatal=True)
    assert stall.ranks == (0,) and 49 < seconds < 51 and 99 < seconds + more < 101


def test_settings_replace_the_rules() -> None:
    world = World(Rank(0, state="R"), Rank(1, state="R"), rules=Rules(report_s=0.5, stop_s=1.5))
    world.train(2, 0.2)
    for rank in world.ranks:
        world.beat(rank, "compute")
    seconds, _ = world.until(fatal=False)
    more, _ = world.until(fatal=True)
    assert seconds < 1 and seconds + more < 2


def test_time_in_which_the_guard_did_not_run_does_not_count() -> None:
    world = World(Rank(0), Rank(1))
    world.train(4, 0.2)
    assert world.tick(seconds=3600.0) is None  # the machine was suspended
    assert world.tick() is None
    world.train(4, 0.2)


def test_finished_ranks_are_not_watched() -> None:
    world = World(Rank(0, phase="done"), Rank(1, phase="done"))
    assert all(world.tick() is None for _ in range(1000))
