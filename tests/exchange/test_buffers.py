"""Memory of messages and halo rows: layers share it, and contiguous rows are sent without a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.course.experiments.kept_bytes import live_matrices, live_matrices_of_pass
from gnnqlab.errors import NonFiniteMessage
from gnnqlab.exchange import Overlapped, Pipelined, Replicas
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.codecs.codec import Float32
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.records.memory_tracker import persistent_tensors
from tests.cases import each
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph

SHAPE = ModelSettings(name="gcn", layers=4, hidden=24, dropout=0.3)


def workers_of(schedule, shape=SHAPE) -> ThreadedWorkers:
    graph = random_graph(nodes=120, edges=480, features=shape.hidden)
    system = replace(vanilla(), schedule=schedule)
    cut = cut_graph(graph, Random(seed=1), 2)
    return ThreadedWorkers(graph, cut, system, shape, TrainSettings(seed=5), as_launched=True)


def test_two_workers_hold_the_memory_of_one_plus_one_exchange():
    """For any number of layers: halo rows of each width, and the bytes of the messages of one aggregation."""
    graph, found = random_graph(nodes=120, edges=480, features=SHAPE.hidden), workers_of(Overlapped())
    found.step(0)
    narrow = graph.num_classes / SHAPE.hidden  # the last layer aggregates rows of classes
    for trainer, alive in zip(
        found.trainers, found.run(lambda one: live_matrices_of_pass(one, SHAPE.hidden)), strict=True
    ):
        boundary = trainer.exchange.boundary
        sent = boundary._plans["forward"].sent_rows.sum().item()
        exchange = (boundary.num_halo * (1 + narrow) + sent) / boundary.num_owned
        assert alive <= live_matrices(graph, SHAPE) + exchange + 0.2


@each("schedule", [Overlapped(), Pipelined()])
def test_gradients_are_sent_from_where_they_lie_unless_they_outlive_their_step(schedule):
    found, sent_from = workers_of(schedule), {}

    def watch(trainer) -> None:
        transport, sent_from[trainer] = trainer.exchange.boundary.wires.transport, []
        post = transport.post

        def watched(send, *others, **how):
            sent_from[trainer] += [body.untyped_storage().data_ptr() for body in send.values()]
            return post(send, *others, **how)

        transport.post = watched

    found.run(watch)
    for epoch in range(2):
        found.step(epoch)
    for trainer, places in sent_from.items():
        channels = trainer.exchange.boundary.every_channel
        own = {buffer.untyped_storage().data_ptr() for channel in channels for buffer in channel.buffers}
        lying = sum(place not in own for place in places)
        assert lying == (0 if isinstance(schedule, Pipelined) else 2 * (SHAPE.layers - 1))


@each("model", ["gcn", "gat"])
def test_sending_without_a_copy_gives_bit_identical_training(model, monkeypatch):
    """Equal to the bit: the bytes are the same, only the copy is not made."""
    shape, passes = replace(SHAPE, name=model), []
    for _ in range(2):
        found = workers_of(Overlapped(), shape)
        losses = [found.step(epoch) for epoch in range(3)]
        sent = [channel.bytes_payload for one in found.trainers for channel in one.exchange.channels]
        passes.append((losses, sent, found.trainers[0].parameters.values.clone()))
        monkeypatch.setattr(Float32, "send_view", lambda self, x: None)
    (losses, sent, weights), (other_losses, other_sent, other_weights) = passes
    assert losses == other_losses
    assert sent == other_sent
    assert torch.equal(weights, other_weights)


@each("model", ["gcn", "gat"])
def test_copies_of_a_node_have_the_same_memory_for_messages_in_every_layer(model, monkeypatch):
    """Bytes to and from the one peer, by direction, for any number of layers; the same training to the bit."""
    graph = random_graph(nodes=120, edges=480, features=SHAPE.hidden)
    system = replace(vanilla(), partition=EdgesAtRandom(), exchange=Replicas(), schedule=Overlapped())
    cut, shape, passes = EdgesAtRandom(seed=1).cut(graph, 2), replace(SHAPE, name=model), []
    for shared in (True, False):
        found = ThreadedWorkers(graph, cut, system, shape, TrainSettings(seed=5), as_launched=True)
        losses = [found.step(epoch) for epoch in range(3)]
        found.run(lambda trainer: trainer.evaluate(3))
        passes.append((losses, found.trainers[0].parameters.values.clone()))
        memory = {each.untyped_storage().data_ptr() for each in persistent_tensors(found.trainers[0])["buffers"]}
        assert (len(memory) == 2) == shared
        for name in ("channel", "exact_channel"):
            monkeypatch.setattr(ChannelFactory, name, _with_buffers_of_its_own(getattr(ChannelFactory, name)))
    assert passes[0][0] == passes[1][0] and torch.equal(passes[0][1], passes[1][1])


def _with_buffers_of_its_own(make):
    return lambda wires, *where, **how: make(wires, *where, **{**how, "buffers": None})


def test_a_gradient_that_is_no_number_is_refused_with_its_node():
    found = workers_of(Overlapped())

    def broken(trainer) -> None:
        x = torch.zeros(trainer.exchange.boundary.num_halo, 3)
        x[4, 1] = torch.nan
        channel = found.trainers[0].exchange.channels[-1]
        with pytest.raises(NonFiniteMessage, match=f"node {int(found.shards[0].halo[4])}"):
            channel.post(x, torch.Size([trainer.graph.ids.numel(), 3]), epoch=9, still=True)

    found.step(0)
    assert found.trainers[0].exchange.channels[-1].direction == "backward"
    broken(found.trainers[0])


def test_rows_of_a_codec_that_encodes_otherwise_are_encoded():
    """A subclass of Float32 that changes or reads rows while it encodes them must still be called."""

    class Doubled(Float32):
        def encode(self, x, rows, ids, layout, segment, noise):
            return super().encode(2 * x, rows, ids, layout, segment, noise)

    rows = torch.ones(3, 2)
    assert Doubled().send_view(rows) is None
    sent = Float32().send_view(rows)
    assert sent is not None and sent.data_ptr() == rows.data_ptr()
