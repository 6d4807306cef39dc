"""The timeline: parts follow or enclose each other as the schedule defines, on a clock that workers share."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import torch.distributed as dist

from gnnqlab.exchange import Overlapped, Synchronous
from gnnqlab.exchange.timeline import WHATS, Timeline, transfers
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import fixed_bits
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

LATE_S = 0.15


class Late:
    """A transport of rank 1 that posts some time after rank 0 has begun to wait, however busy the machine is."""

    def __init__(self, inner, rank):
        self.inner, self.rank, self.count = inner, rank, 0
        self.store = dist.distributed_c10d._get_default_store()

    def post(self, send, receive, headers=None):
        self.count += 1
        key = f"rank 0 waits {self.count}"
        if self.rank == 1:
            self.store.wait([key])
            time.sleep(LATE_S)
            return self.inner.post(send, receive, headers)
        transfer = self.inner.post(send, receive, headers)
        wait = transfer.wait

        def signal_and_wait():
            self.store.set(key, "")
            wait()

        transfer.wait = signal_and_wait
        return transfer


def recorded(rank, workers, graph, owner, schedule):
    """Train two epochs, of which the second is recorded; rank 1 posts late in all of them."""
    shard = build_shard(graph, owner, rank, workers)
    system = replace(fixed_bits(), schedule=schedule)
    trainer = worker_trainer(shard, system, ModelSettings(layers=2, hidden=16), TrainSettings())
    wires = trainer.exchange.boundary.wires
    transport = Late(make_transport("direct", rank, workers), rank)
    trainer.exchange.boundary.wires = replace(wires, transport=transport)
    trainer.epoch(0)
    trainer.evaluate(0)
    for channel in trainer.exchange.channels:
        channel.arrivals.clear()
    began = time.perf_counter()
    trainer.exchange.timeline.begin()
    trainer.epoch(1)
    trainer.evaluate(1)
    arrivals = [arrival for channel in trainer.exchange.channels for arrival in channel.arrivals]
    spans = trainer.exchange.timeline.take()
    trainer.epoch(2)
    assert trainer.exchange.timeline.take() == []  # nothing is recorded unless requested
    return began, spans + transfers(arrivals), time.perf_counter()


@each("schedule", [Synchronous(), Overlapped()])
def test_timeline_parts_follow_the_order_of_the_schedule(schedule):
    graph = random_graph(seed=8)
    results = run_ranks(recorded, 2, graph, Random(seed=1).assign(graph, 2), schedule)
    posted = {}
    for rank, (began, spans, ended) in enumerate(results):
        places = {(span.layer, span.direction) for span in spans}
        assert places == {(0, "forward"), (1, "forward"), (1, "backward")}
        for layer, direction in places:
            part = {span.what: span for span in spans if (span.layer, span.direction) == (layer, direction)}
            assert set(part) == set(WHATS)
            assert all(began <= span.start <= span.end <= ended for span in part.values())
            assert part["transfer"].peer == 1 - rank
            assert all(span.peer == -1 for what, span in part.items() if what != "transfer")
            # Parts of this worker run one after the other ...
            order = (
                ["encode", "post", "wait", "central"] if schedule == Synchronous() else ["encode", "post", "central"]
            )
            order = ["marginal", *order] if direction == "backward" else [*order, "marginal"]
            for first, second in itertools.pairwise(order):
                assert part[first].end <= part[second].start, (first, second)
            assert part["wait"].end <= part["decode"].start
            # ... during the transfer, which begins with the post and ends with the wait at the latest.
            assert part["post"].start <= part["transfer"].start <= part["post"].end
            assert part["transfer"].end <= part["wait"].end
            if rank == 0:
                assert part["transfer"].end - part["transfer"].start > 0.9 * LATE_S
                inside = part["transfer"].start <= part["central"].start <= part["central"].end <= part["transfer"].end
                assert inside == (schedule == Overlapped())
            posted[rank, layer, direction] = part["post"]
            posted[rank, layer, direction, "transfer"] = part["transfer"]
    # Workers share the clock: nothing is received before the other has posted it.
    for layer, direction in places:
        assert posted[0, layer, direction, "transfer"].end > posted[1, layer, direction].start + 0.9 * LATE_S


def test_phases_pass_through_under_the_clocks_own_names():
    from gnnqlab.train.loop.phase_timer import PhaseTimer

    clock = PhaseTimer()
    timeline = Timeline(clock)
    with timeline("post"):
        time.sleep(0.001)
    assert clock.take()["wait"] >= 0.001


def test_spans_without_an_exchange_key_are_not_recorded():
    timeline = Timeline()
    timeline.begin()
    with timeline("wait"):
        pass
    with timeline("wait", ExchangeKey(3, "backward")):
        pass
    (span,) = timeline.take()
    assert (span.layer, span.direction, span.what, span.peer) == (3, "backward", "wait", -1)
    assert span.start <= span.end
