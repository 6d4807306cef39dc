"""Rotated codes: levels, error, bias measured, bytes, every width in one message, and both ends of a real exchange."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.special import ndtr

import gnnqlab as gq
from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rotate import encode_rotated
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.reference.codec import pack, unpack
from gnnqlab.kernels.reference.rotate import LEVELS, WIDEST, passes, rotate, rotate_back
from gnnqlab.message import Rotated
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.partition import Random, build_shard
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

NOISE = Noise(5, 1, 2)
EDEN = {1: math.pi / 2 - 1, 2: 0.13312, 3: 0.035784, 4: 0.009592}
"""Bits -> ``1 / E[q z] - 1``, the squared error over ``|x|^2`` of rows whose rotation is normal."""


def gaussian(count: int, columns: int) -> torch.Tensor:
    return torch.randn(count, columns, generator=torch.Generator().manual_seed(columns))


def there_and_back(x, widths, codec=None, *, noise=NOISE, ids=None, out=None, accumulate=False):
    """Encode rows in reverse and decode them; return the decoded rows and the layout."""
    codec, count = codec or Rotated(), x.shape[0]
    layout = codec.layout(widths, count, x.shape[1])
    order = layout.to_wire_order(torch.arange(count).flip(0))
    ids = torch.arange(count) if ids is None else ids
    segment = torch.full((layout.num_bytes,), 7, dtype=torch.uint8)
    spreads = codec.encode(x, order, ids[order], layout, segment, noise)
    out = torch.full(x.shape, math.nan) if out is None else out
    codec.decode(segment, layout, out, order, accumulate=accumulate, ids=ids[order], noise=noise)
    ranges = (x.amax(1) - x.amin(1))[order]
    if spreads.dim() == 2:
        norms = x[order].double().norm(dim=1).where(ranges > 1e-37, 0.0)
        assert torch.allclose(spreads[:, 0].double(), norms, rtol=1e-6, atol=0.0)
        spreads = spreads[:, 1]
    assert torch.equal(spreads, ranges)
    return out, layout


def draws_of(x: torch.Tensor, bits: int, rotations: int, draws: int) -> torch.Tensor:
    """One row decoded under many rotations, float64 ``(draws, D)``."""
    return there_and_back(x.expand(draws, -1).contiguous(), bits, Rotated(rotations=rotations))[0].double()


@each("bits", sorted(LEVELS))
def test_levels_are_those_of_lloyd_and_max(bits):
    """Each level is the mean of a standard normal between its thresholds, each threshold half way between levels."""
    levels = torch.tensor(LEVELS[bits], dtype=torch.float64)
    ends = torch.cat([torch.zeros(1).double(), (levels[1:] + levels[:-1]) / 2, torch.tensor([math.inf]).double()])
    density = (-ends.square() / 2).exp() / math.sqrt(2 * math.pi)
    means = (density[:-1] - density[1:]) / (ndtr(ends[1:]) - ndtr(ends[:-1]))
    assert levels.numel() == 2 ** (bits - 1) and (means - levels).abs().max() < 1e-6
    kept = 2 * (levels.square() * (ndtr(ends[1:]) - ndtr(ends[:-1]))).sum()
    assert 1 / float(kept) - 1 == pytest.approx(EDEN[bits], rel=1e-3)


@each("columns", [1, 2, 3, 47, 64, 300, WIDEST + 3])
@each("rotations", [1, 2])
def test_a_rotation_keeps_norms_and_angles_and_has_an_inverse(columns, rotations):
    x, ids, noise = gaussian(4, columns).double().float(), torch.arange(4) + 9, {"seed": 1, "epoch": 2, "stream": 3}
    y = rotate(x, ids, rotations, **noise)
    assert torch.allclose(y.square().sum(1), x.square().sum(1), rtol=1e-5)
    assert torch.allclose(rotate_back(y, ids, rotations, **noise), x, atol=3e-6)
    together = rotate(x[:1] + x[1:2], ids[:1], rotations, **noise) - rotate(x[1:2], ids[:1], rotations, **noise)
    assert torch.allclose(together, y[:1], atol=3e-6), "it is linear"
    touched = torch.zeros(columns)
    for _, first, size, windows in passes(columns, 1):
        touched[first : first + size * windows] += 1
    assert (touched >= 1).all(), "every column is rotated"


@each("bits", [1, 2, 3, 4])
@each("columns", [256, 300])
def test_the_error_of_a_normal_row_is_the_one_of_the_paper(bits, columns):
    x = gaussian(400, columns)
    out, layout = there_and_back(x, bits)
    relative = (out - x).square().sum() / x.square().sum()
    assert float(relative) == pytest.approx(EDEN[bits], rel=0.03)
    assert layout.num_bytes == 400 * (-(-columns * bits // 8) + 4)


def test_no_range_and_no_scale_changes_the_error():
    """Cases that are hard for min-max codes: one large element among small ones, and rows of very different norms."""
    x = gaussian(300, 256) * 0.05
    x[:, 3] = 1.0
    for scale in (1.0, 1e-12, 1e15):
        out, _ = there_and_back(x * scale, 1)
        assert 0.3 < float((out / scale - x).double().square().sum() / x.double().square().sum()) < 0.6
    squared = x.square().sum()
    assert float((there_and_back(x, 1, gq.codecs.Stochastic())[0] - x).square().sum() / squared) > 10


@each("bits", [1, 2])
def test_dense_rows_are_unbiased(bits):
    """A normal row and one after ReLU: the mean of 3000 rotations has the error of as many independent ones.

    With a relative error v that is ``v / 3000`` of the square; a bias of 3 % of the norm would double it at one bit.
    """
    for x in (gaussian(1, 256)[0], gaussian(1, 256)[0].relu()):
        draws = draws_of(x, bits, 1, 3000)
        off = (draws.mean(0) - x).square().sum() / x.double().square().sum()
        assert float(off) < EDEN[bits] / 3000 * 1.6 + 0.012**2
        along = draws @ x.double() / x.double().square().sum()
        assert (along - 1).abs().max() < 1e-5, "along the row itself rotations have no error"


def test_the_bias_that_spiky_rows_keep_is_known_and_two_rotations_end_it():
    """One rotation of k spikes has only 2^(k-1) magnitudes; measured: 0.5, 0.58, 0.2 of the norm at one bit."""
    for places, values, kept in (([3, 9], [1.0, 0.5], 0.50), ([3, 9, 100], [1.0, 0.5, 0.3], 0.58)):
        x = torch.zeros(256)
        x[places] = torch.tensor(values)
        norm = float(x.norm())
        once, twice = ((draws_of(x, 1, rotations, 3000).mean(0) - x).norm() / norm for rotations in (1, 2))
        assert float(once) == pytest.approx(kept, abs=0.03)
        assert float(twice) < 1.25 * math.sqrt(EDEN[1] / 3000)


def test_rotated_codes_of_single_spikes_and_constant_rows_are_exact():
    x = torch.zeros(6, 40)
    x[1] = 2.7
    x[2] = -1e-3
    x[3, 8] = -4.25  # 40 columns are two windows: it is exact only where a single spike meets one of them alone
    x[4] = -0.0
    for bits in (1, 2, 3, 4):
        out, _ = there_and_back(x, bits)
        assert torch.equal(out[[0, 1, 2, 4, 5]], x[[0, 1, 2, 4, 5]])
    spike = torch.zeros(3, 64)
    spike[torch.arange(3), torch.tensor([0, 5, 63])] = torch.tensor([1.0, -2.0, 3e-9])
    assert torch.allclose(there_and_back(spike, 1, Rotated(rotations=1))[0], spike, atol=1e-6, rtol=1e-6)


@each("columns", [1, 5, 47, 64])
def test_rows_of_every_width_in_one_message(columns):
    widths = torch.tensor([1, 2, 4, 3, 8, 16, 32, 3, 4, 1] * 3, dtype=torch.uint8)
    x = gaussian(30, columns)
    out, layout = there_and_back(x, widths)
    sizes = {1: 4, 2: 4, 3: 4, 4: 4, 8: 8, 16: 8, 32: 0}
    assert layout.num_bytes == sum(-(-columns * b // 8) + sizes[b] for b in widths.tolist())
    of_row = widths.flip(0)
    assert torch.equal(out[of_row == 32], x[of_row == 32])
    for width in (1, 2, 3, 4, 8, 16):
        alone, _ = there_and_back(x, width)
        assert torch.equal(out[of_row == width], alone[of_row == width]), width
    twice, _ = there_and_back(x, widths, out=out.clone(), accumulate=True)
    assert torch.allclose(twice, 2 * out, atol=1e-6)


def test_a_rotation_belongs_to_its_node_epoch_and_receiver():
    x, ids = gaussian(1, 64).expand(3, -1).contiguous(), torch.tensor([4, 4, 7])
    out, _ = there_and_back(x, 2, ids=ids)
    assert torch.equal(out[0], out[1]) and not torch.equal(out[0], out[2])
    for noise in (replace(NOISE, seed=6), replace(NOISE, epoch=2), replace(NOISE, stream=3), replace(NOISE, peer=1)):
        assert not torch.equal(there_and_back(x, 2, ids=ids, noise=noise)[0], out)
    alike = Rotated(noise="node")
    assert torch.equal(there_and_back(x, 2, alike, ids=ids, noise=replace(NOISE, peer=1))[0], out)


@each("value", [math.nan, math.inf, 3e38])
def test_a_row_that_cannot_be_encoded_is_refused(value):
    x = torch.zeros(4, 20)
    x[2, 18] = value
    x[2, 17] = -value  # elements are finite, but the range overflows
    for bits in (1, 4, 8):
        with pytest.raises(NonFiniteRow) as refused:
            there_and_back(x, bits)
        assert refused.value.position == 1, "rows are encoded in reverse order"
    x[2] = torch.linspace(2e38, 3e38, 20)  # the range is finite, sums are not
    with pytest.raises(NonFiniteRow):
        there_and_back(x, 1)


def test_wrong_calls_are_refused():
    x, first = torch.ones(2, 8), torch.tensor([0, 1])
    key = {"rotations": 1, "seed": 0, "epoch": 0, "stream": 0}

    def call(rows=first, ids=first, bits=1, payload=2):
        encode_rotated(
            x, rows, ids, bits, None, torch.zeros(payload, dtype=torch.uint8), torch.zeros(2), torch.zeros(2, 2), **key
        )

    call()
    for wrong, said in (
        ({"rows": first + 1}, "rows must be in"),
        ({"ids": first - 1}, "node ids must be in"),
        ({"bits": 8}, "widths must be one of"),
        ({"payload": 1}, "inside the payload"),
    ):
        with pytest.raises(ValueError, match=said):
            call(**wrong)
    with pytest.raises(ValueError, match="rotations must lie in"):
        Rotated(rotations=3)
    codec = Rotated()
    layout = codec.layout(1, 2, 8)
    with pytest.raises(ValueError, match="ids and the noise of their message"):
        codec.decode(torch.zeros(layout.num_bytes, dtype=torch.uint8), layout, x, first, accumulate=False)


COLUMNS = 13


def rows_of(ids: torch.Tensor, rank: int) -> torch.Tensor:
    return torch.sin(ids[:, None].float() * (1 + torch.arange(COLUMNS)) + rank + 1)


def exchange(rank, workers, graph, owner, codec, bits):
    """Return rows forward and gradients backward at one worker, by global node."""
    shard, came = build_shard(graph, owner, rank, workers), {}
    for direction in ("forward", "backward"):
        channel = Channel(
            layer=1, direction=direction, plan=shard.plan(direction), codec=codec, bits=bits,
            transport=make_transport("direct", rank, workers), seed=7,
        )  # fmt: skip
        if direction == "forward":
            out = torch.full((shard.num_halo, COLUMNS), math.nan)
            channel.post(rows_of(shard.owned, 0), out, epoch=3).decode()
            came[direction] = dict(zip(shard.halo.tolist(), out, strict=True))
        else:
            out = torch.zeros(shard.num_owned, COLUMNS)
            channel.post(rows_of(shard.halo, rank), out, epoch=3).decode()
            came[direction] = dict(zip(shard.owned.tolist(), out, strict=True))
    return came, {int(node): rank for node in shard.halo}


def test_sender_and_receiver_draw_the_same_rotation():
    """Decoded rows are those of the codec alone, for any sender; gradients are the sum of one from each sender."""
    graph, codec, workers = random_graph(seed=5), Rotated(noise="node"), 3
    owner = Random(seed=1).assign(graph, workers)
    results = run_ranks(exchange, workers, graph, owner, codec, Fixed(bits=2))
    total = torch.zeros(graph.num_nodes, COLUMNS)
    for rank, (came, halo) in enumerate(results):
        nodes = torch.tensor(list(came["forward"]))
        key = Noise(7, 3, stream("forward", 1))
        alone, _ = there_and_back(rows_of(nodes, 0), 2, codec, noise=key, ids=nodes)
        assert torch.equal(torch.stack(list(came["forward"].values())), alone)
        nodes, key = torch.tensor(list(halo)), Noise(7, 3, stream("backward", 1, rank + 1))
        total[nodes] += there_and_back(rows_of(nodes, rank), 2, codec, noise=key, ids=nodes)[0]
    for came, _ in results:
        for node, row in came["backward"].items():
            assert torch.allclose(row, total[node], atol=1e-6)


def test_mixed_widths_arrive_within_their_error():
    graph = random_graph(seed=5)
    owner = Random(seed=1).assign(graph, 2)
    bits = UniformRandom(bit_widths=(1, 2, 3, 4, 8, 16, 32))
    for came, _ in run_ranks(exchange, 2, graph, owner, Rotated(), bits):
        sent = rows_of(torch.tensor(list(came["forward"])), 0)
        relative = (torch.stack(list(came["forward"].values())) - sent).square().sum(1) / sent.square().sum(1)
        assert 0 < float(relative.mean()) < EDEN[1] and (relative == 0).any()


def test_a_training_takes_it_for_both_directions_and_in_a_pair():
    system = gq.systems.fixed_bits(bits=1)
    assert replace(system, codec=Rotated()).codec.widths == (1, 2, 3, 4, 8, 16, 32)
    pair = replace(system, codec=(gq.codecs.Stochastic(), Rotated(rotations=1)))
    assert gq.System.from_json(pair.to_json()) == pair


def test_three_bits_are_of_rotated_rows_alone_and_refused_by_name_elsewhere():
    three = replace(gq.systems.vanilla(), codec=Rotated(), bits=Fixed(bits=3))
    assert gq.System.from_json(three.to_json()) == three
    asked = replace(gq.systems.adaqp(bit_widths=(1, 2, 4)), codec=Rotated(), bits=Assigned(bit_widths=(2, 3, 4)))
    assert asked.bits.bit_widths == (2, 3, 4) and Assigned().bit_widths == (2, 4, 8)
    for codec in (gq.codecs.Stochastic(), gq.codecs.LeastVariance(), gq.codecs.Spikes(), gq.codecs.Linear()):
        with pytest.raises(ValueError, match=rf"{type(codec).__name__} writes .*, got \[3\]; choose codec Rotated\(\)"):
            replace(three, codec=codec)
    with pytest.raises(ValueError, match=r"bits must be one of \(1, 2, 3, 4, 8, 16, 32\), got 5"):
        Fixed(bits=5)


@each("columns", [1, 2, 3, 7, 8, 9, 64])
def test_eight_codes_of_three_bits_fill_three_bytes_and_none_is_lost(columns):
    """Element j is at bits 3 j to 3 j + 2 of the row, lowest first, as at every width."""
    codes = torch.randint(8, (40, columns), generator=torch.Generator().manual_seed(columns))
    packed = pack(codes, 3)
    assert packed.dtype == torch.uint8 and packed.shape == (40, -(-3 * columns // 8))
    for row, held in zip(codes.tolist(), packed.tolist(), strict=True):
        assert sum(code << 3 * place for place, code in enumerate(row)) == int.from_bytes(bytes(held), "little")
    assert torch.equal(unpack(packed, 3, columns), codes.to(torch.uint8))
