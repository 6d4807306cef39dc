"""Halo rows that are summed as received codes: the same training, bit for bit, where products read codes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits.policy import Fixed, UniformRandom
from gnnqlab.compute.float32 import PlainProducts
from gnnqlab.exchange import Overlapped, Pipelined, Synchronous
from gnnqlab.message import BoundarySampling, Unchanged
from gnnqlab.message.channels.incoming import PendingReceive
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.nn import ModelSettings
from gnnqlab.observe import Observer, Observers
from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.kernels.backends import AVAILABLE
from tests.ranks import run_ranks

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="compiled kernels are not built")
GRAPH = random_graph(nodes=90, edges=200, features=64)
SETTINGS = TrainSettings(seed=5, input_features="resend")


def shape(model: str = "gcn", dropout: float = 0.3) -> ModelSettings:
    return ModelSettings(name=model, layers=3, hidden=96, dropout=dropout)


def in_bits(bits: int, *, schedule=None, parameters: str = "float32"):
    codec = Stochastic(parameters=parameters)
    return replace(vanilla(), codec=codec, bits=Fixed(bits=bits), schedule=schedule or Overlapped())


class Received(Observer):
    """Decoded messages of one worker, and bytes of its halo buffers."""

    def __init__(self):
        self.messages, self.halo_bytes = [], []

    def on_message_decoded(self, event):
        rows = float(event.decode().double().sum())
        self.messages.append((event.epoch, event.layer, event.direction, event.sender, event.node_ids.tolist(), rows))

    def on_tensor_allocated(self, event):
        self.halo_bytes.append(event.tensor.nbytes)


def trained(monkeypatch, system, *, reads: bool, workers: int = 3, **of_model):
    """Train three epochs; return losses and gradients, what observers received, and (tables, forward decodings)."""
    tables, decodings = [], []
    codes, decode = PendingReceive.codes, PendingReceive.decode

    def counted_codes(self):
        tables.append(self._place)
        return codes(self)

    def counted_decode(self, *out):
        if self._place.direction == "forward" and self._codec != vanilla().codec:
            decodings.append(self._place)
        return decode(self, *out)

    received = [Received() for _ in range(workers)]
    with monkeypatch.context() as patch:
        patch.setattr(PlainProducts, "reads_codes", reads)
        patch.setattr(PendingReceive, "codes", counted_codes)
        patch.setattr(PendingReceive, "decode", counted_decode)
        observers = [Observers([each_one], rank) for rank, each_one in enumerate(received)]
        cut = cut_graph(GRAPH, Random(seed=1), workers)
        options = {"as_launched": True, "observers": observers}
        run = ThreadedWorkers(GRAPH, cut, system, shape(**of_model), SETTINGS, **options)
        results = []
        for epoch in range(3):
            results += [torch.tensor(run.step(epoch)), run.trainers[0].parameters.gradients.clone()]
    return results, received, (len(tables), len(decodings))


@each("model", ["gcn", "graphsage", "gcnii", "jknet", "sgc"])
@each("schedule", [Overlapped(), Synchronous()])
def test_training_is_identical_bit_for_bit(monkeypatch, model, schedule):
    system = in_bits(2, schedule=schedule)
    results, received, (tables, _) = trained(monkeypatch, system, reads=True, model=model)
    expected, expected_received, counts = trained(monkeypatch, system, reads=False, model=model)
    assert tables > 0 and counts[0] == 0
    assert all(torch.equal(*pair) for pair in zip(results, expected, strict=True))
    for one, other in zip(received, expected_received, strict=True):
        assert one.messages and one.messages == other.messages


@each("workers", [1, 2, 3, 5])
@each("parameters", ["float32", "bfloat16", "bfloat16-after"])
def test_any_number_of_workers_and_any_parameters(monkeypatch, workers, parameters):
    for bits in (1, 4, 8, 32):
        system = in_bits(bits, parameters=parameters)
        results, _, _ = trained(monkeypatch, system, reads=True, workers=workers)
        expected, _, _ = trained(monkeypatch, system, reads=False, workers=workers)
        assert all(torch.equal(*pair) for pair in zip(results, expected, strict=True)), bits


def test_rows_of_several_widths(monkeypatch):
    system = replace(in_bits(2), bits=UniformRandom())
    (results, _, (tables, _)), (expected, *_) = (trained(monkeypatch, system, reads=reads) for reads in (True, False))
    assert tables > 0
    assert all(torch.equal(*pair) for pair in zip(results, expected, strict=True))


def test_forward_rows_have_a_table_and_no_float32_buffer(monkeypatch):
    _, received, (_, decodings) = trained(monkeypatch, in_bits(2), reads=True)
    _, expected, _ = trained(monkeypatch, in_bits(2), reads=False)
    for worker, other in zip(received, expected, strict=True):
        num_rows = min(other.halo_bytes) // 16  # rows of 4 classes, in float32
        assert {size // num_rows for size in other.halo_bytes} == {4 * 4, 4 * 64, 4 * 96}
        assert {size // num_rows for size in worker.halo_bytes} == {16, 4 * 4, 4 * 96}  # gradients of the second layer
    assert decodings == 3 * 3  # the last layer sends rows of 4 classes, too few columns


def test_messages_that_must_be_decoded_are(monkeypatch):
    cached, sampled = (
        replace(in_bits(2), cache=Unchanged(tolerance=0.1)),
        replace(in_bits(2), sampler=BoundarySampling(p=0.5)),
    )
    for system in (in_bits(16), in_bits(2, schedule=Pipelined()), cached, sampled):
        # Without dropout no mask forbids codes of stale rows.
        one, other = (trained(monkeypatch, system, reads=reads, dropout=0.0) for reads in (True, False))
        assert all(torch.equal(*pair) for pair in zip(one[0], other[0], strict=True))
        assert [worker.messages for worker in one[1]] == [worker.messages for worker in other[1]]


def losses_over_sockets(rank, workers, owner, reads):
    PlainProducts.reads_codes = reads  # this process runs nothing else
    trainer = worker_trainer(build_shard(GRAPH, owner, rank, workers), in_bits(4), shape(), SETTINGS)
    return [(trainer.epoch(epoch), repr(trainer.evaluate(epoch))) for epoch in range(4)]


def test_receives_are_posted_early_and_evaluated_between():
    owner = Random(seed=1).assign(GRAPH, 3)
    assert run_ranks(losses_over_sockets, 3, owner, True) == run_ranks(losses_over_sockets, 3, owner, False)
