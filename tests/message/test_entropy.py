"""Entropies of the codes of messages, compared with counts of codes that are unpacked by hand."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

import gnnqlab as gq
from benchmarks.kernels.exchange import plan_between
from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.kernels.reference.codec import pack
from gnnqlab.message import FP8, MXFP8, Float32, Linear, Rotated, Spikes, Stochastic, Unchanged
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.selected_rows import SelectedRows
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.codecs.entropy import Counting, code_counts, code_entropies, entropy_of
from gnnqlab.simulation.threaded_workers import LoopbackTransport, Mailbox
from gnnqlab.train.config.run_config import RunConfig, TrainSettings

COLUMNS = 13
"""No width except 8 and 16 fills the last byte of a row."""


def by_hand(codes: list[int]) -> float:
    """Entropy of codes in bits an element."""
    counts = Counter(codes)
    return -sum(n / len(codes) * math.log2(n / len(codes)) for n in counts.values())


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("columns", [1, 7, 8, 13])
def test_padding_of_a_row_is_no_code(bits, columns):
    generator = torch.Generator().manual_seed(bits)
    codes = torch.randint(1 << bits, (5, columns), generator=generator)
    counts = code_counts(pack(codes, bits), bits, columns)
    assert counts.tolist() == [int((codes == code).sum()) for code in range(1 << bits)]
    assert entropy_of(counts) == pytest.approx(by_hand(codes.flatten().tolist()))


def test_known_entropies():
    assert entropy_of(torch.tensor([8, 8, 8, 8])) == 2.0
    assert entropy_of(torch.tensor([5, 0])) == 0.0 and entropy_of(torch.zeros(4)) == 0.0
    assert entropy_of(torch.tensor([1, 3])) == pytest.approx(2 - 0.75 * math.log2(3))


def encoded(codec, x, widths):
    layout, places = codec.layout(widths, *x.shape), torch.arange(x.shape[0])
    segment = torch.full((layout.num_bytes,), 7, dtype=torch.uint8)
    order = layout.to_wire_order(places)
    codec.encode(x, order, order, layout, segment, Noise(1, 2, 3))
    return layout, segment


def test_of_mixed_widths_each_has_its_own_and_float32_none():
    """Codes of Stochastic follow from decoded values: ``q = (x - Z) / S``."""
    codec, x = Stochastic(), torch.randn(60, COLUMNS, generator=torch.Generator().manual_seed(0))
    widths = torch.tensor([1, 2, 4, 8, 16, 32], dtype=torch.uint8).repeat(10)
    layout, segment = encoded(codec, x, widths)
    out, order = torch.empty_like(x), layout.to_wire_order(torch.arange(60))
    codec.decode(segment, layout, out, order, accumulate=False)
    found = code_entropies(layout, segment)
    assert sorted(found) == [1, 2, 4, 8, 16]
    params = layout.split(segment)[0].view(torch.float32).view(-1, 2)
    coded = order[layout.bits < 32]
    for bits, entropy in found.items():
        mine = widths[coded] == bits
        codes = ((out[coded[mine]].double() - params[mine, :1].double()) / params[mine, 1:].double()).round()
        assert entropy == pytest.approx(by_hand(codes.flatten().tolist()), abs=1e-12), bits


@pytest.mark.parametrize("codec", [Stochastic(parameters="bfloat16"), Linear(), Rotated(), Spikes()], ids=str)
@pytest.mark.parametrize("bits", [1, 4])
def test_codes_of_every_codec_are_counted(codec, bits):
    """Rows of identical elements have no information; those of many values have at most their width."""
    layout, segment = encoded(codec, torch.randn(50, 64, generator=torch.Generator().manual_seed(1)), bits)
    [(width, entropy)] = code_entropies(layout, segment).items()
    assert width == bits and 0.5 * bits < entropy <= bits
    layout, segment = encoded(codec, torch.full((50, 64), 3.0), bits)
    assert code_entropies(layout, segment)[bits] <= 1.0, "constant rows need no codes; of rotated rows signs may remain"


@pytest.mark.parametrize("codec", [FP8(), MXFP8(rounding="stochastic")], ids=str)
def test_bytes_of_floats_are_counted_too(codec):
    x = torch.tensor([[1.0, 0.5, 1.0, 0.5]]).repeat(3, 1)
    assert code_entropies(*encoded(codec, x, 8)) == {8: 1.0}


# --- Messages ---


def arrivals(counting, codec, bits, cache=None):
    """Return the arrivals at worker 1 while both workers send in two epochs."""
    mail, rows = Mailbox(2), torch.randn(100, COLUMNS, generator=torch.Generator().manual_seed(4))
    channels = []
    for rank in range(2):
        how = {"layer": 1, "direction": "forward", "plan": plan_between(rank, 50), "codec": codec, "bits": bits,
               "transport": LoopbackTransport(mail, rank), "seed": 1, "counting": counting}  # fmt: skip
        selection = None if cache is None else SelectedRows(cache.build())
        channels.append(Channel(selection=selection, **how))
    for epoch in range(2):
        coming = [channel.post(rows + epoch, torch.zeros(50, COLUMNS), epoch=epoch) for channel in channels]
        for each in coming:
            each.decode()
    return channels[1].arrivals


@pytest.mark.parametrize("cache", [None, Unchanged(tolerance=0.1, differences=True)])
def test_receiver_counts_entropies_only_when_enabled(cache):
    bits = UniformRandom(bit_widths=(2, 8))
    for arrival in arrivals(Counting(on=True), Stochastic(), bits, cache):
        assert sorted(arrival.entropies) == sorted(share.bits for share in arrival.layout.shares if share.rows)
        assert all(0.3 * width < entropy <= width for width, entropy in arrival.entropies.items())
    assert all(not arrival.entropies for arrival in arrivals(Counting(), Stochastic(), bits, cache))
    assert all(not arrival.entropies for arrival in arrivals(Counting(on=True), Float32(), Fixed(), cache))


def test_error_for_entropy_without_codes_names_the_codecs():
    with pytest.raises(ValueError, match="got forward Float32 and backward Float32, which send none; choose a codec"):
        RunConfig(graph="digits", train=TrainSettings(entropy_every=1))
    pair = gq.System(codec=(Stochastic(), Float32()), bits=(Fixed(bits=2), Fixed()))
    assert RunConfig(graph="digits", system=pair, train=TrainSettings(entropy_every=1)).train.entropy_every == 1
