"""Channels between real ranks: received rows, counted bytes, and refusals."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.errors import NonFiniteMessage
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.transport.transport import TRANSPORTS, make_transport
from gnnqlab.partition import Random, build_shard
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

COLUMNS = 13


@dataclass(frozen=True)
class Doubled(Float32):
    """Rows sent as twice their values."""

    def encode(self, x, rows, ids, layout, segment, noise):
        super().encode(x, rows, ids, layout, segment, noise)
        segment.view(torch.float32).mul_(2.0)

    def decode(self, segment, layout, out, rows, *, accumulate, ids=None, noise=None):
        halved = segment.view(torch.float32).mul(0.5).view(torch.uint8)
        super().decode(halved, layout, out, rows, accumulate=accumulate)


PAIRS = [
    ("float32", Float32(), Fixed()),
    ("float32 with its own decode", Doubled(), Fixed()),
    *[(f"{bits} bits", Stochastic(), Fixed(bits=bits)) for bits in (1, 2, 4, 8, 16, 32)],
    ("mixed", Stochastic(), UniformRandom(bit_widths=(1, 2, 4, 8, 16, 32))),
    ("mixed, bfloat16", Stochastic(parameters="bfloat16"), UniformRandom()),
]


def exchange(rank, workers, graph, owner, codec, bits, transport, direction):
    shard = build_shard(graph, owner, rank, workers)
    plan = shard.plan(direction)
    channel = Channel(
        layer=1,
        direction=direction,
        plan=plan,
        codec=codec,
        bits=bits,
        transport=make_transport(transport, rank, workers),
        seed=7,
    )
    owned, halo = rows_of(shard.owned, rank), rows_of(shard.halo, rank)
    if direction == "forward":
        out = torch.full((shard.num_halo, COLUMNS), float("nan"))
        channel.post(owned, out, epoch=3).decode()
    else:
        out = torch.zeros(shard.num_owned, COLUMNS)
        channel.post(halo, out, epoch=3).decode()
    received = sum(
        share.payload_bytes + share.param_bytes for arrival in channel.arrivals for share in arrival.layout.shares
    )
    return {
        "out": out,
        "owned": shard.owned,
        "halo": shard.halo,
        "sent": channel.bytes_payload + channel.bytes_params,
        "received": received,
        "seconds": channel.wire_s,
    }


def rows_of(ids: torch.Tensor, rank: int) -> torch.Tensor:
    """Return a row that node and rank determine."""
    return torch.sin(ids[:, None].float() * (1 + torch.arange(COLUMNS)) + rank)


def exchange_all(rank, workers, graph, owner, transport):
    return [exchange(rank, workers, graph, owner, codec, bits, transport, "forward") for _, codec, bits in PAIRS]


@each("transport", sorted(TRANSPORTS))
def test_forward_rows_come_from_their_owner(transport):
    graph = random_graph(seed=5)
    owner = Random(seed=1).assign(graph, 3)
    for (name, codec, bits), *results in zip(PAIRS, *run_ranks(exchange_all, 3, graph, owner, transport), strict=True):
        check_forward(results, name, codec, bits, owner)


def check_forward(results, name, codec, bits, owner):
    for result in results:
        ids = result["halo"]
        truth = torch.stack([rows_of(node[None], int(owner[node]))[0] for node in ids])
        step = (truth.max(1).values - truth.min(1).values) / (2 ** min(bits.choices) - 1)
        error = (result["out"] - truth).abs().max(1).values
        # a bfloat16 step is rounded up by at most 2^-7, and its zero-point down by 2^-8 of at most 1
        slack = 0.02 if getattr(codec, "parameters", "") == "bfloat16" else 1e-5
        assert (error <= (0 if name in ("float32", "32 bits") else step * (1 + slack) + slack)).all()
    assert sum(result["sent"] for result in results) == sum(result["received"] for result in results)
    assert all(result["seconds"] > 0 for result in results)


@each("transport", sorted(TRANSPORTS))
def test_gradients_of_a_row_add_up_over_all_that_used_it(transport):
    graph = random_graph(seed=5)
    owner = Random(seed=1).assign(graph, 4)
    results = run_ranks(exchange, 4, graph, owner, Float32(), Fixed(), transport, "backward")
    truth = torch.zeros(graph.num_nodes, COLUMNS)
    for rank, result in enumerate(results):
        truth.index_add_(0, result["halo"], rows_of(result["halo"], rank))
    for result in results:
        assert torch.allclose(result["out"], truth[result["owned"]], atol=1e-6)


def test_two_workers_err_independently_about_one_node():
    graph = random_graph(nodes=30, edges=400, seed=2, isolated=0)
    owner = torch.arange(30) % 3
    for direction, same in (("forward", True), ("backward", False)):
        results = run_ranks(noise_of_node, 3, graph, owner, direction)
        assert all(torch.equal(results[0], other) for other in results[1:]) == same


def noise_of_node(rank, workers, graph, owner, direction):
    """Encode the same row for the same nodes on every rank; only the key of the noise may differ."""
    from gnnqlab.kernels.noise import stream, uniform16

    key = stream(direction, 1, rank + 1 if direction == "backward" else 0)
    return uniform16(torch.arange(5), COLUMNS, seed=7, epoch=3, stream=key)


def poisoned(rank, workers, graph, owner, codec, bits):
    shard = build_shard(graph, owner, rank, workers)
    x = torch.ones(shard.num_owned, COLUMNS)
    x[int(shard.boundary[0]), 2] = float("nan")
    node = int(shard.owned[shard.boundary[0]])
    channel = Channel(
        layer=2,
        direction="forward",
        plan=shard.plan("forward"),
        codec=codec,
        bits=bits,
        transport=make_transport("direct", rank, workers),
        seed=0,
    )
    with pytest.raises(NonFiniteMessage) as caught:
        channel.post(x, torch.empty(shard.num_halo, COLUMNS), epoch=0)
    return str(caught.value), node


@each(("name", "codec", "bits"), PAIRS[:3])
def test_a_row_that_is_not_finite_is_named(name, codec, bits):
    graph = random_graph(seed=5)
    for rank, (text, node) in enumerate(run_ranks(poisoned, 2, graph, Random(seed=1).assign(graph, 2), codec, bits)):
        assert f"rank {rank}, layer 2, forward: the row of global node {node} holds NaN" in text


def test_a_constant_row_decodes_exactly():
    graph = random_graph(seed=5)
    results = run_ranks(constant, 2, graph, Random(seed=1).assign(graph, 2))
    assert all(results)


def constant(rank, workers, graph, owner):
    shard = build_shard(graph, owner, rank, workers)
    channel = Channel(
        layer=0,
        direction="forward",
        plan=shard.plan("forward"),
        codec=Stochastic(),
        bits=Fixed(bits=1),
        transport=make_transport("direct", rank, workers),
        seed=0,
    )
    out = torch.empty(shard.num_halo, COLUMNS)
    channel.post(torch.full((shard.num_owned, COLUMNS), 0.1), out, epoch=0).decode()
    return bool((out == torch.tensor(0.1)).all())


def traced(rank, workers, graph, owner):
    shard = build_shard(graph, owner, rank, workers)
    plan = shard.plan("forward")
    channel = Channel(
        layer=0,
        direction="forward",
        plan=plan,
        codec=Stochastic(),
        bits=UniformRandom(),
        transport=make_transport("direct", rank, workers),
        seed=0,
    )
    x = rows_of(shard.owned, rank)
    channel.post(x, torch.empty(shard.num_halo, COLUMNS), epoch=0).decode()
    return all(
        torch.equal(channel.spreads[route.peer], x[route.rows].amax(1) - x[route.rows].amin(1)) for route in plan.send
    )


def test_encoding_traces_the_range_of_every_row_in_plan_order():
    graph = random_graph(seed=5)
    assert all(run_ranks(traced, 3, graph, Random(seed=1).assign(graph, 3)))


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match=r"transport must be one of \['all-to-all', 'direct', 'ring'\], got 'mpi'"):
        make_transport("mpi", 0, 1)
    with pytest.raises(ValueError, match="parameters must be 'float32', 'bfloat16' or 'bfloat16-after', got 'int8'"):
        Stochastic(parameters="int8")
