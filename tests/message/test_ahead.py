"""Preposted receives: no sender waits, bytes and rows are the same, and no two messages share memory."""

from __future__ import annotations

import datetime
import time
from dataclasses import replace

import torch
import torch.distributed as dist

from gnnqlab.bits import Fixed
from gnnqlab.exchange import Overlapped
from gnnqlab.message.caches.cache import NoCache
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.message.transport import transport as moving
from gnnqlab.message.transport.preposted_receives import PrepostedReceives
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import fixed_bits
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.message.kept import ROWS, Two
from tests.ranks import run_ranks

LATE_S = 0.3
COLUMNS = 13


def sent_to_one_who_is_late(rank, workers):
    """Send 100 bytes to a worker that posts late, with and without preposted receives; return if it had posted by then.

    With preposted receives the receiver posts only after they were sent: if they were delayed, both would wait.
    """
    store, found = dist.distributed_c10d._get_default_store(), []
    for foreseen in (False, True):
        transport, body = make_transport("direct", rank, workers), torch.full((100,), 7, dtype=torch.uint8)
        expected = transport.prepost({0: body.zero_()}) if rank == 1 and foreseen else None
        dist.barrier()
        if rank == 0:
            transfer = transport.post({1: body}, {})
            store.set(f"sends {foreseen}", "")
            transfer.wait()
            found.append(store.check([f"posts {foreseen}"]))
            store.set(f"has left {foreseen}", "")
        else:
            store.wait([f"has left {foreseen}" if foreseen else f"sends {foreseen}"], datetime.timedelta(seconds=60))
            time.sleep(0 if foreseen else LATE_S)  # without a wait for the receiver, bytes are sent meanwhile
            store.set(f"posts {foreseen}", "")
            transport.post({}, {0: body}, expected=expected).wait()
            assert body.tolist() == [7] * 100
    return found


def test_a_message_that_is_expected_leaves_before_its_receiver_posts():
    assert run_ranks(sent_to_one_who_is_late, 2)[0] == [True, False]


def trained(rank, workers, graph, owner):
    """Losses, bytes and the last weights with and without preposted receives, and how many were posted at once."""
    real, ahead, found = moving.Direct.prepost, [], []

    def watched(*of_exchange):
        expected = real(*of_exchange)
        ahead.append(len(expected.works))
        return expected

    for posts in (watched, lambda *_: None):
        moving.Direct.prepost = posts
        shard = build_shard(graph, owner, rank, workers)
        system = replace(fixed_bits(bits=2), schedule=Overlapped())
        trainer = worker_trainer(shard, system, ModelSettings(layers=3, hidden=16), TrainSettings(), run="ahead")
        losses = []
        for epoch in range(4):
            losses.append(trainer.epoch(epoch))
            trainer.evaluate(epoch)
        counts = [
            (channel.bytes_payload, channel.bytes_params, channel.bytes_headers)
            for channel in trainer.exchange.channels
        ]
        found.append((losses, counts, torch.cat([each.detach().flatten() for each in trainer.model.parameters()])))
        right = trainer.exchange.boundary._ahead._is_order_stable
    moving.Direct.prepost = real
    return found, ahead, right


def test_trainings_are_the_same_to_the_bit_and_the_byte():
    graph = random_graph(seed=8)
    for found, ahead, right in run_ranks(trained, 3, graph, Random(seed=1).assign(graph, 3)):
        (losses, counts, weights), (other_losses, other_counts, others) = found
        assert losses == other_losses and counts == other_counts and torch.equal(weights, others)
        assert counts[0][2] > 0  # headers were counted once
        # Five exchanges an epoch: each posts before it encodes, or was posted after the one before it.
        assert len(ahead) == 4 * 5 and right


def in_changing_order(rank, workers, graph, owner, run):
    """Return rows of three channels with one memory, in changing order."""
    shard, found = build_shard(graph, owner, rank, workers), []
    plan, transport, buffers = shard.plan("forward"), make_transport("direct", rank, workers), {}
    for ahead in (PrepostedReceives(buffers), None):
        channels = [
            Channel(
                layer=layer, direction="forward", plan=plan, codec=Stochastic(), bits=Fixed(bits=4),
                transport=transport, seed=7, run=run, buffers=buffers, ahead=ahead,
            )
            for layer in range(3)
        ]  # fmt: skip
        for epoch, order in enumerate([(0, 1, 2), (0, 1, 2), (0, 2, 1), (0, 1, 2)]):
            for layer in order:
                x = torch.arange(shard.num_owned * COLUMNS).view(-1, COLUMNS).float().sin() + layer + rank
                out = torch.full((shard.num_halo, COLUMNS), float("nan"))
                came = channels[layer].post(x, out, epoch=epoch)
                dist.barrier()
                found.append(came.decode().clone())
    return found


@each("run", [3, None])
def test_changed_exchange_order_does_not_change_decoded_rows(run):
    graph = random_graph(seed=3)
    for found in run_ranks(in_changing_order, 2, graph, Random(seed=1).assign(graph, 2), run):
        ours, plain = found[:12], found[12:]
        assert all(torch.equal(one, other) for one, other in zip(ours, plain, strict=True))
        assert not any(one.isnan().any() for one in ours)


def test_receives_are_preposted_only_with_headers():
    two, told = Two(NoCache(), Stochastic(), Fixed(bits=4)), []
    two.epoch([torch.rand(ROWS, COLUMNS) for _ in range(2)], 0)
    channel = two.channels[0]
    channel._transport.prepost = lambda *of_exchange: told.append(of_exchange) or object()
    assert not channel.prepost(1) and not told
    channel._run = 3
    assert channel.prepost(1) and len(told) == 1


class Told:
    """A channel that records the epochs in which it preposts."""

    def __init__(self):
        self.epochs = []

    def prepost(self, epoch):
        self.epochs.append(epoch)
        return True


def test_next_exchange_is_predicted_within_an_epoch_until_the_order_changes():
    buffers = {("receive", 0): torch.zeros(1)}
    ahead, first, second, third = PrepostedReceives(buffers), Told(), Told(), Told()
    for epoch in range(2):
        for channel in (first, second):
            ahead.posts(channel, epoch)
            ahead.read(channel, epoch)
    assert (first.epochs, second.epochs) == ([], [1]) and buffers  # the last exchange of an epoch preposts nothing
    ahead.posts(first, 2)
    ahead.read(first, 2)
    ahead.posts(third, 2)  # but not the second
    assert second.epochs == [1, 2] and not buffers
    ahead.read(third, 2)
    ahead.posts(second, 2)
    for channel in (first, third):
        ahead.posts(channel, 3)
        ahead.read(channel, 3)
    assert (second.epochs, third.epochs) == ([1, 2], [])


def test_evaluation_takes_no_memory_that_is_spoken_for():
    buffers = {("receive", 0): torch.zeros(1)}
    ahead, first, second = PrepostedReceives(buffers), Told(), Told()
    for epoch in range(2):
        ahead.leave()
        assert buffers
        for channel in (first, second)[: 2 - epoch]:
            ahead.posts(channel, epoch)
            ahead.read(channel, epoch)
    ahead.leave()
    assert second.epochs == [1] and not buffers
