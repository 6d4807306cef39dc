"""Every named phase of an epoch has its own column: a worker that sleeps in it lengthens this column and no other."""

from __future__ import annotations

import itertools
from dataclasses import replace
from unittest import mock

import torch
from torch import nn

from gnnqlab.adaptive import Adaptive
from gnnqlab.exchange import Synchronous
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.nn import ModelSettings, message_passing
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import fixed_bits
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.phase_timer import PARTS, PHASES, PhaseTimer, include_parts
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks

COLUMNS = sorted((set(PHASES) | set(PARTS["dense"])) - set(PARTS))
BOTH_WAYS = ("central", "marginal", "encode", "decode", "wait", "products", "elementwise", "loss", "other")
"""Phases of a training pass that occur forward and backward."""


class Napping:
    """Sleeps and counts in every part that belongs to one phase; its clock advances only while it sleeps.

    Nothing else takes time, so that a wait for another worker, or for a busy machine, is in no column.
    """

    def __init__(self):
        self.phase, self.naps, self.total = "", 0, 0

    def here(self, phase):
        if phase == self.phase:
            self.naps += 1
            self.total += 1

    def now(self):
        return float(self.total)

    def before(self, phase, method):
        def run(*args, **kwargs):
            self.here(phase)
            return method(*args, **kwargs)

        return run

    def around(self, phase, x):
        """Return x; sleep now, and again when its gradient is computed."""
        return _Nap.apply(x, self, phase)


class _Nap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, napping, phase):
        ctx.napping, ctx.phase = napping, phase
        napping.here(phase)
        return x.clone()

    @staticmethod
    def backward(ctx, *gradients):
        ctx.napping.here(ctx.phase)
        return gradients[0], None, None


class Plain(nn.Module):
    """Has a projection, two aggregations, a computation by rows, and one without a named phase."""

    takes_sparse_input = False

    def __init__(self, widths, napping):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(pair) / 4 for pair in itertools.pairwise(widths))
        self.bias = nn.Parameter(torch.zeros(widths[2]))
        self.napping = napping

    def forward(self, g, x):
        h = g.linear(x, self.weights[0])
        h = g.rowwise(lambda h: self.napping.around("elementwise", h).relu(), h)
        h = g.convolve(g.dropout(h, 0.5), self.weights[1], self.bias)
        h = self.napping.around("other", h)
        return g.aggregate(g.linear(h, self.weights[2]))


class Decides(Adaptive):
    name = "napping"

    def __init__(self, napping):
        self.napping = napping

    def after_epoch(self, epoch, loss, shared):
        self.napping.here("assign")


def _napping_trainer(graph, owner, rank, workers, napping):
    shard = build_shard(graph, owner, rank, workers)
    system = replace(fixed_bits(bits=8), schedule=Synchronous())
    clock = PhaseTimer(timer=napping.now)
    made = worker_trainer(shard, system, ModelSettings(layers=2, hidden=8), TrainSettings(), clock=clock)
    torch.manual_seed(0)
    model = Plain((graph.num_features, 8, 8, graph.num_classes), napping)
    how = {"exchange": made.exchange, "distributed": True, "clock": made.clock, "adaptives": [Decides(napping)]}
    trainer = Trainer(made.graph, made.objective, model, TrainSettings(), **how)
    central = trainer.exchange.boundary.num_central
    assert 0 < central < shard.num_owned

    plain_loss, spmm = trainer.objective.loss, trainer.exchange.products.spmm

    def sums(*args, rows=None, transposed=False, **kwargs):
        owned = rows is not None and rows[0] == 0
        napping.here("central" if owned else "marginal")
        return spmm(*args, rows=rows, transposed=transposed, **kwargs)

    objective = mock.Mock(wraps=trainer.objective)
    objective.loss = lambda logits, look: plain_loss(napping.around("loss", logits), look)
    objective.scores = napping.before("evaluate", trainer.objective.scores)
    trainer.objective = objective
    trainer.evaluation = replace(trainer.evaluation, objective=objective)
    trainer.reduction.finish = napping.before("reduce", trainer.reduction.finish)
    trainer.optimizer.step = napping.before("optimizer", trainer.optimizer.step)
    transport = trainer.exchange.boundary.wires.transport
    patches = [
        mock.patch.object(trainer.exchange.products, "spmm", sums),
        mock.patch.object(Stochastic, "encode", napping.before("encode", Stochastic.encode)),
        mock.patch.object(Stochastic, "decode", napping.before("decode", Stochastic.decode)),
        mock.patch.object(transport, "post", napping.before("wait", transport.post)),
        mock.patch.object(message_passing, "project", _projecting(napping)),
    ]
    return trainer, patches


def _projecting(napping):
    plain = message_passing.project
    return lambda products, x, weight: napping.around("products", plain(products, x, weight))


def _seconds_by_phase(rank, workers, graph, owner):
    """Train an epoch for each phase, with a sleep in every part of it; return the number of sleeps and the seconds."""
    torch.set_num_threads(1)
    napping, found = Napping(), {}
    trainer, patches = _napping_trainer(graph, owner, rank, workers, napping)
    for patch in patches:
        patch.start()
    for epoch, phase in enumerate(["", *COLUMNS]):
        napping.phase, napping.naps = phase, 0
        trainer.clock.take()
        trainer.epoch(epoch)
        trainer.evaluate(epoch)
        found[phase] = napping.naps, trainer.clock.take()
    for patch in patches:
        patch.stop()
    trainer.close()
    return found


def test_a_nap_is_found_in_its_column_and_no_other():
    graph = random_graph(nodes=200, edges=500, features=24)
    owner = Random().cut(graph, 2).owner
    for found in run_ranks(_seconds_by_phase, 2, graph, owner):
        for phase in COLUMNS:
            naps, seconds = found[phase]
            assert naps >= (2 if phase in BOTH_WAYS else 1), phase
            # Evaluation aggregates too; all of its time is in its own column.
            evaluated = seconds["evaluate"] if phase != "evaluate" else 0.0
            assert seconds[phase] >= (2 if phase in BOTH_WAYS else 1 if phase == "evaluate" else 0), phase
            assert seconds[phase] + evaluated == naps, phase
            assert sum(seconds.values()) == naps, (phase, seconds)


def test_a_turn_holds_until_the_next_one_and_ends_with_the_block_around():
    ticks = iter(range(100))
    clock = PhaseTimer(timer=lambda: float(next(ticks)))
    clock.take()
    with clock("other"):
        clock.enter("products")
        with clock("wait"):
            pass
        clock.enter("elementwise")
    seconds = clock.take()
    assert (seconds["products"], seconds["wait"], seconds["elementwise"]) == (2.0, 1.0, 1.0)
    assert clock.take()["other"] == 1.0
    with clock.open_inclusive("evaluate"):
        clock.enter("products")
    assert clock.take()["products"] == 0.0


def test_records_have_the_whole_beside_its_parts():
    seconds = {**dict.fromkeys((*PHASES, *PARTS["dense"]), 0.0), "dense": 0.25, "products": 1.0, "loss": 0.5}
    found = include_parts(seconds)
    assert found["dense"] == 1.75 and found["products"] == 1.0
    assert sum(found[phase] for phase in PHASES) == sum(seconds.values())
