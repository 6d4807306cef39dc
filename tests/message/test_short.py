"""Rows as bfloat16: the nearest numbers, bytes, rows that are bfloat16 already, refusals, and a whole training."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits import Fixed
from gnnqlab.compute import BFloat16Rows
from gnnqlab.errors import NonFiniteRow
from gnnqlab.message import BFloat16, Float32
from gnnqlab.message.caches.feedback import FedBack
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.selected_rows import SelectedRows
from gnnqlab.message.channels.selection import AllRowsOfRoute
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

NOISE = Noise(5, 1, 2)


def sent(x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bytes of some rows, and the decoded rows."""
    layout = BFloat16().layout(16, rows.numel(), x.shape[1])
    segment = torch.full((layout.num_bytes,), 7, dtype=torch.uint8)
    assert BFloat16().encode(x, rows, rows, layout, segment, NOISE) is None
    out = torch.full((x.shape[0], x.shape[1]), -5.0)
    BFloat16().decode(segment, layout, out, rows, accumulate=False)
    return segment, out


@each("shape", [(1, 1), (9, 33), (700, 256), (4, 0), (0, 5)])
def test_an_element_is_the_nearest_of_eight_bits_in_two_bytes(shape: tuple[int, int]) -> None:
    """By float64: the significand in steps of 2^-7, halves to the even one; rows are processed in blocks."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[0])) * torch.logspace(-30, 30, shape[1])
    rows = torch.arange(0, shape[0], 2).flip(0)
    segment, out = sent(x, rows)
    significand, exponent = torch.frexp(x.double())
    nearest = torch.ldexp((significand * 256).round() / 256, exponent)
    assert torch.equal(out[rows].double(), nearest[rows])
    assert (out[1::2] == -5.0).all() and segment.numel() == 2 * rows.numel() * shape[1]
    added = torch.ones(shape)
    BFloat16().decode(segment, BFloat16().layout(16, rows.numel(), shape[1]), added, rows, accumulate=True)
    assert torch.equal(added[rows], 1.0 + out[rows])


def test_rows_that_are_bfloat16_already_have_the_same_bytes() -> None:
    x, rows = torch.randn(50, 20), torch.tensor([3, 0, 49])
    assert torch.equal(sent(x, rows)[0], sent(x.bfloat16(), rows)[0])


@each("strange", [float("nan"), float("-inf"), 3.4e38])
def test_a_row_that_would_not_be_finite_is_refused(strange: float) -> None:
    x = torch.full((5, 40), 3e38)  # its sum is not finite
    sent(x, torch.arange(5))
    x[2, 1] = strange
    with pytest.raises(NonFiniteRow) as refused:
        sent(x, torch.tensor([4, 2, 0]))
    assert refused.value.position == 1


def test_only_a_channel_that_encodes_the_rows_themselves_takes_them_as_they_are() -> None:
    def takes_them(selection: type[AllRowsOfRoute], codec: Codec) -> bool:
        wires = {"plan": None, "bits": Fixed(bits=16), "transport": None, "seed": 0}
        channel = Channel(layer=0, direction="forward", codec=codec, selection=selection.__new__(selection), **wires)
        return channel.takes_bfloat16

    assert takes_them(AllRowsOfRoute, BFloat16())
    for selection, codec in ((AllRowsOfRoute, Float32()), (SelectedRows, BFloat16()), (FedBack, BFloat16())):
        assert not takes_them(selection, codec)


def losses(rank: int, workers: int, graph, systems) -> dict[str, tuple]:
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    found = {}
    for name, system in systems.items():
        shape = ModelSettings(name="sgc", layers=2, hidden=16, dropout=0.3)
        trainer = worker_trainer(shard, system, shape, TrainSettings(seed=5))
        trained = [trainer.epoch(epoch) for epoch in range(3)]
        forward = sum(one.bytes_payload for one in trainer.exchange.channels if one.direction == "forward")
        found[name] = trained, trainer.parameters.gradients.clone(), forward
        trainer.close()
    return found


def test_bfloat16_messages_halve_bytes_without_loss_for_bfloat16_products() -> None:
    """SGC aggregates only rows that are rounded before they are summed."""
    exact = replace(vanilla(), compute=BFloat16Rows())
    short = replace(exact, codec=(BFloat16(), Float32()), bits=(Fixed(bits=16), Fixed(bits=32)))
    both = replace(exact, codec=BFloat16(), bits=Fixed(bits=16))
    systems = {"exact": exact, "short": short, "both": both}
    found = run_ranks(losses, 2, random_graph(nodes=90, edges=300, features=20), systems)[0]
    assert found["short"][0] == found["exact"][0] and torch.equal(found["short"][1], found["exact"][1])
    assert 2 * found["short"][2] == found["exact"][2] == 2 * found["both"][2] > 0
    off = (found["both"][1] - found["exact"][1]).norm() / found["exact"][1].norm()
    assert 0 < off < 2.0**-7, "rounded gradients of halo rows err by 2^-8 of themselves at most, by layer"
