"""Cached rows: the cache in an exchange, compared with a dense training that skips the same rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.exchange import Overlapped, Pipelined, Synchronous
from gnnqlab.message import BoundarySampling, Stochastic, Unchanged
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.channels.row_index import decode_row_index, encode_row_index, max_index_bytes
from gnnqlab.message.channels.selected_rows import SelectedRows
from gnnqlab.message.channels.selection import AllRowsOfRoute
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import SYSTEMS, System, fixed_bits, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import TOLERANCE
from tests.exchange.dense import Instead, dense_of
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 6
WORKERS = 3


# --- Exchange keys ---


def test_encode_then_decode_row_index_returns_the_positions():
    generator = torch.Generator().manual_seed(0)
    for num_rows in (0, 1, 2, 254, 255, 256, 511, 3000):
        for share in (0.0, 0.001, 0.1, 0.5, 1.0):
            places = (torch.rand(num_rows, generator=generator) < share).nonzero().flatten()
            told = encode_row_index(places, num_rows)
            assert told.numel() <= max_index_bytes(num_rows) and told.numel() % 16 == 0
            rest = torch.full((40,), 7, dtype=torch.uint8)
            found, begin = decode_row_index(torch.cat([told, rest]), num_rows)
            assert begin == told.numel()
            assert (found is None and places.numel() == num_rows) or torch.equal(found, places)


@pytest.mark.parametrize("places", [[2999], [0], [255], [256, 2000, 2999]])
def test_gaps_of_any_length_survive_the_row_index(places):
    found, _ = decode_row_index(encode_row_index(torch.tensor(places), 3000), 3000)
    assert found.tolist() == places


def test_invalid_row_index_raises_value_error():
    told = encode_row_index(torch.tensor([1, 4]), 6)
    with pytest.raises(ValueError, match="at most its route's 1 rows, got 2 in"):
        decode_row_index(told, 1)
    told[8] = 200
    with pytest.raises(ValueError, match="positions must be 2 below 6, got 2 that end at"):
        decode_row_index(told, 6)


# --- Compared with a dense training that skips the same rows ---


class Held:
    """Halo rows of the peers of every worker, in one process: (kind, layer, worker that uses, columns) -> rows."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance, self.rows, self.sent, self.offered = tolerance, {}, 0, 0

    def after(self, key, offered, counts):
        """Return the held rows after the changed rows have been sent; ``counts`` selects the rows that may be sent."""
        held = self.rows.get(key)
        if held is None:
            moved = torch.ones(offered.shape[0], dtype=torch.bool)
            held = torch.zeros_like(offered)
        else:
            moved = (offered - held).norm(dim=1) > self.tolerance * held.norm(dim=1)
        self.sent += int((moved & counts).sum())
        self.offered += int(counts.sum())
        self.rows[key] = torch.where(moved[:, None], offered, held)
        return self.rows[key]


class SkippingProduct(torch.autograd.Function):
    """``A x`` where each worker multiplies by the rows it holds of the others; gradients are cached in the same way.

    Held rows are those ``before`` dropout, and have this epoch's mask in the product; held gradients are those of
    dropped rows, so the mask of this epoch is applied after they are summed.
    """

    @staticmethod
    def forward(ctx, x, before, dense, owner, held, context):
        ctx.saved = dense, owner, held, context.layer
        out = torch.empty(dense.shape[0], x.shape[1])
        for worker in range(WORKERS):
            mine = owner == worker
            needed = (dense[mine] != 0).any(0) & ~mine
            rows = held.after(("rows", context.layer, worker, x.shape[1]), before, needed)
            out[mine] = dense[mine] @ torch.where(mine[:, None], x, context.own(rows))
        return out

    @staticmethod
    def backward(ctx, dy):
        dense, owner, held, layer = ctx.saved
        out = torch.zeros(dense.shape[1], dy.shape[1])
        for worker in range(WORKERS):
            mine = owner == worker
            gradient = dense[mine].T @ dy[mine]
            out[mine] += gradient[mine]
            for home in range(WORKERS):
                if home != worker:
                    needed = (dense[mine] != 0).any(0) & (owner == home)
                    sent = held.after(("gradients", layer, worker, home, dy.shape[1]), gradient, needed)
                    out[needed] += sent[needed]
        return out, None, None, None, None, None


def skipping(exchange, owner, held):
    """Return the exchange of one process that computes as several workers with a cache."""

    def aggregate(adjacency, x, context):
        if not context.training:
            return exchange.aggregate(adjacency, x, context)
        return SkippingProduct.apply(context.own(x), x.detach(), dense_of(adjacency), owner, held, context)

    return Instead(exchange, aggregate, uses_stale_rows=True)


def train(trainer, epochs=EPOCHS):
    losses, gradients = [], []
    for epoch in range(epochs):
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
        trainer.evaluate(epoch)  # does not change the held rows
    return torch.tensor(losses), torch.stack(gradients)


def on_rank(rank, workers, graph, owner, shape, systems, transport="direct"):
    found = []
    for system in systems:
        shard = build_shard(graph, owner, rank, workers)
        trainer = worker_trainer(shard, system, shape, TrainSettings(seed=3, transport=transport))
        losses, gradients = train(trainer)
        channels = trainer.exchange.channels
        sent = sum(getattr(one, "rows_sent", 0) for one in channels)
        offered = sum(getattr(one, "rows_offered", 0) for one in channels)
        body = sum(one.bytes_payload + one.bytes_params for one in channels)
        arrived = sum(arrival.layout.num_bytes for one in channels for arrival in one.arrivals)
        counts = {"sent": sent, "offered": offered, "body": body, "arrived": arrived}
        found.append({"losses": losses, "gradients": gradients, **counts})
        trainer.close()
    return found


def dense(graph, owner, shape, tolerance):
    held = Held(tolerance)
    local = LocalGraph(graph, seed=3)
    local.exchange = skipping(local.exchange, owner, held)
    network = build_model(shape, graph.num_features, graph.num_classes, seed=3)
    return (*train(Trainer(local, label_objective(graph), network, TrainSettings(seed=3))), held)


SHAPE = ModelSettings(layers=3, hidden=8, dropout=0.0)


@pytest.mark.parametrize(("directed", "dropout"), [(False, 0.0), (True, 0.0), (False, 0.3), (True, 0.5)])
def test_it_is_the_dense_training_that_skips_the_same_rows(directed, dropout):
    shape = replace(SHAPE, dropout=dropout)
    graph = random_graph(features=20, directed=directed)
    owner = Random(seed=1).assign(graph, WORKERS)
    tolerances = (0.05, 0.3)
    systems = [
        replace(vanilla(), cache=Unchanged(tolerance=tolerance), schedule=schedule)
        for tolerance in tolerances
        for schedule in (Synchronous(), Overlapped())
    ]
    results = run_ranks(on_rank, WORKERS, graph, owner, shape, systems)
    for place, tolerance in enumerate(tolerances):
        losses, gradients, held = dense(graph, owner, shape, tolerance)
        for index in (2 * place, 2 * place + 1):
            for result in results:
                one = result[index]
                assert (one["losses"] - losses).abs().max() <= TOLERANCE * losses.abs().max()
                assert (one["gradients"] - gradients).abs().max() <= TOLERANCE * gradients.abs().max()
            assert sum(result[index]["sent"] for result in results) == held.sent
            assert sum(result[index]["offered"] for result in results) == held.offered
            assert 0 < held.sent < held.offered


def test_the_rows_themselves_are_exact_where_none_may_move():
    """Tolerance 0 changes nothing, and with float32 a row that did not change need not be sent."""
    graph = random_graph(features=20)
    owner = Random(seed=1).assign(graph, WORKERS)
    systems = [vanilla(), replace(vanilla(), cache=Unchanged())]
    for plain, kept in run_ranks(on_rank, WORKERS, graph, owner, SHAPE, systems):
        assert torch.equal(plain["losses"], kept["losses"]) and torch.equal(plain["gradients"], kept["gradients"])
        assert kept["body"] < plain["body"], "raw features of layer 0 never change"


@pytest.mark.parametrize("transport", ["direct", "ring", "all-to-all"])
def test_any_codec_and_transport_brings_as_many_bytes_as_were_sent(transport):
    graph = random_graph(features=20)
    owner = Random(seed=1).assign(graph, WORKERS)
    cache = Unchanged(tolerance=0.2)
    systems = [
        replace(fixed_bits(bits=8), cache=cache),
        replace(fixed_bits(bits=8), cache=replace(cache, differences=True)),
        replace(vanilla(), codec=Stochastic(parameters="bfloat16"), bits=gq.bits.UniformRandom(period=2), cache=cache),
        replace(
            vanilla(),
            codec=(Stochastic(), gq.codecs.Float32()),
            bits=(gq.bits.Fixed(bits=4), gq.bits.Fixed()),
            cache=cache,
        ),
    ]
    results = run_ranks(on_rank, WORKERS, graph, owner, SHAPE, systems, transport)
    truth = dense(graph, owner, SHAPE, 0.0)[0]
    for index in range(len(systems)):
        assert sum(one[index]["body"] for one in results) == sum(one[index]["arrived"] for one in results)
        for one in results:
            assert torch.equal(one[index]["losses"], results[0][index]["losses"])
            assert 0 < one[index]["sent"] < one[index]["offered"]
        assert results[0][index]["losses"][-1] < 0.9 * truth[0], "the loss falls"


def test_errors_of_rounding_do_not_add_up():
    """Differences are relative to the receiver's rows, so only the error of the last message remains."""
    results = run_ranks(drift_on_rank, 2)
    assert all(worst <= step * (1 + 1e-5) for worst, step in results)


def drift_on_rank(rank, workers):
    from benchmarks.kernels.exchange import plan_between
    from gnnqlab.message.transport.transport import make_transport

    cache = Unchanged(tolerance=0.0, differences=True)
    channel = Channel(
        selection=SelectedRows(cache.build()), layer=0, direction="forward", plan=plan_between(rank, 50),
        codec=Stochastic(), bits=gq.bits.Fixed(bits=2), transport=make_transport("direct", rank, workers),
        seed=1, run=1,
    )  # fmt: skip
    other = plan_between(1 - rank, 50).send[0].rows
    walks = [torch.randn(100, 16, generator=torch.Generator().manual_seed(worker)) for worker in range(2)]
    halo = torch.zeros(50, 16)
    for epoch in range(40):
        walks = [walk + 0.1 * torch.randn(walk.shape, generator=torch.Generator().manual_seed(epoch)) for walk in walks]
        before = halo.clone()
        channel.post(walks[rank], halo, epoch=epoch).decode()
    expected = walks[1 - rank][other]
    moved = expected - before
    step = (moved.amax(1) - moved.amin(1)).max() / 3
    return float((halo - expected).abs().max()), float(step)


def test_channel_without_a_cache_selects_all_rows_of_its_route():
    shard = gq.partition(random_graph(), Random(), workers=2).shards[0]
    channel = ChannelFactory(transport=None).channel(ExchangeKey(0, "forward"), shard.plan("forward"))
    assert type(channel.selection) is AllRowsOfRoute


# --- Combinations ---


def test_cache_with_incompatible_components_raises_value_error():
    with pytest.raises(ValueError, match=r"cache Unchanged cannot work .* choose schedule Synchronous\(\) or Overlap"):
        replace(vanilla(), cache=Unchanged(), schedule=Pipelined())
    with pytest.raises(ValueError, match=r"cache Unchanged cannot work .* choose sampler AllRows\(\)"):
        replace(vanilla(), cache=Unchanged(), sampler=BoundarySampling())
    with pytest.raises(ValueError, match="tolerance must be at least 0, got -1"):
        Unchanged(tolerance=-1)


@pytest.mark.parametrize(
    ("axis", "part", "text"),
    [
        (
            "exchange",
            "junk",
            r"exchange must be a part .* got 'junk'; choose Halo\(\), .*Broadcast\(\), Columns\(\) or write one",
        ),
        ("cache", 42, r"cache must be a part .* with build, got 42; choose NoCache\(\), Unchanged\(\)"),
        ("compute", None, r"compute must be a part .* got None; choose Float32Products\(\)"),
        ("codec", Stochastic, r"codec must be a part .* a dataclass instance"),
        ("schedule", gq.codecs.Float32(), r"schedule must be a part .* with build"),
    ],
)
def test_junk_is_refused(axis, part, text):
    with pytest.raises(ValueError, match=text):
        replace(vanilla(), **{axis: part})


def test_a_pair_is_json_too():
    system = replace(
        vanilla(), codec=(Stochastic(), gq.codecs.Float32()), bits=(gq.bits.Fixed(bits=2), gq.bits.Fixed())
    )
    assert System.from_json(system.to_json()) == system
    with pytest.raises(ValueError, match=r"Float32 writes \[32\], got \[2\]"):
        replace(system, bits=gq.bits.Fixed(bits=2))


def test_every_recipe_still_makes_a_system():
    for name, recipe in SYSTEMS.items():
        assert recipe().name == name
