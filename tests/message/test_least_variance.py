"""Each row in the code with the smaller error: the choice, variance, constants, bytes, widths, both ends of a run."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits import Fixed
from gnnqlab.errors import NonFiniteRow
from gnnqlab.message import LeastVariance, Rotated, Stochastic
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.codec_error import codec_error
from gnnqlab.simulation.threaded_workers import FrozenBits, ThreadedWorkers, exact_trainer
from gnnqlab.systems.replaced import parts_in, words_of
from gnnqlab.train.config.run_config import TrainSettings
from tests.cases import each
from tests.graphs import random_graph
from tests.message.sending import of_one_row, send

NARROW = (1, 2, 4)
ENDS = Stochastic(parameters="bfloat16")
"""Codes between ends in the same number of bytes."""


def mixed(columns: int, count: int = 40) -> torch.Tensor:
    """Rows for which rotation is better (spiky), worse (two values, after a ReLU), or hard to decide (normal)."""
    generator = torch.Generator().manual_seed(columns)
    x = torch.randn(count, columns, generator=generator)
    x[::4] = (x[::4] > 0.3).float()
    x[1::4] = x[1::4].relu()
    x[2::4] *= 0.05
    x[2::4, columns // 2] = 2.0
    x[2::4, 0] = -1.0
    return x


def rotated_rows(codec: LeastVariance, x: torch.Tensor, bits: int) -> torch.Tensor:
    layout, every = codec.layout(bits, *x.shape), torch.arange(len(x))
    segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
    codec.encode(x, every, every, layout, segment, Noise(0, 0, 0))
    return codec.rotated(segment, layout)


@each("bits", NARROW)
@each("columns", [64, 100])
def test_no_row_errs_more_than_in_either_code_and_some_less_than_in_each(bits, columns):
    """Expected squared errors row by row, measured: 64 messages determine one of them to 4 % or so."""
    x, found = mixed(columns), {}
    for name, codec in (("least", LeastVariance()), ("between", ENDS), ("rotated", Rotated())):
        errors = [(send(codec, x, bits, epoch=epoch)[0] - x).double().square().sum(1) for epoch in range(64)]
        found[name] = torch.stack(errors).mean(0)
    lesser = torch.minimum(found["between"], found["rotated"])
    assert (found["least"] <= 1.25 * lesser + 1e-9 * x.square().sum(1)).all()
    assert found["least"].sum() <= 1.03 * lesser.sum()
    assert found["least"].sum() < 0.9 * min(found["between"].sum(), found["rotated"].sum()), "rows differ"
    said = rotated_rows(LeastVariance(), x, bits)
    clear = (found["between"] / found["rotated"] - 1).abs() > 0.25
    assert torch.equal(said[clear], (found["rotated"] < found["between"])[clear])
    assert not bool(said[::4].any()) and bool(said[2::4].all() or bits == 4)


@each("bits", NARROW)
def test_row_statistics_give_the_variance_at_every_bit_width(bits):
    x = mixed(64, 200)
    for codec in (LeastVariance(), LeastVariance(rotations=1)):
        if codec.rotations == 1:
            x = x[torch.arange(200) % 4 != 2]  # one rotation of spikes has another error, and is biased
        variance, noted = codec.row_variance(64), send(codec, x, bits)[1]
        for other in NARROW:
            measured = codec_error(codec, x, other).squared * float(x.double().square().sum())
            assert float(variance.evaluate(noted, other).sum()) == pytest.approx(measured, rel=0.05), other
        assert torch.allclose(
            variance.evaluate(noted, 8), Stochastic().row_variance(64).evaluate(x.amax(1) - x.amin(1), 8)
        )
        assert (variance.evaluate(noted, 32) == 0).all()


@each("bits", NARROW)
def test_rows_are_unbiased_in_either_code(bits):
    """The mean of 1200 messages is off by the error of as many independent ones: 64 columns determine it to 9 %."""
    codec, kinds = LeastVariance(), set()
    for row, said in zip(mixed(64, 8), rotated_rows(codec, mixed(64, 8), bits), strict=True):
        off = float((of_one_row(codec, row, bits, 1200).mean(0) - row).norm())
        left = codec.row_variance(64).evaluate(send(codec, row[None], bits)[1], bits)
        assert off <= 1.5 * math.sqrt(float(left) / 1200) + 1e-6 * float(row.norm()), row
        kinds.add(bool(said))
    assert kinds == {False, True}


def distances(codec, bits, only, passes=24):
    """Return squared errors of the weights' gradient, pass by pass, if only messages of ``only`` have codes."""
    graph, shape = random_graph(nodes=120, edges=480), ModelSettings(layers=3, hidden=64, norm="none", dropout=0.0)
    recipe = replace(gq.systems.vanilla(), partition=Random(), codec=codec)
    exact = exact_trainer(graph, shape)
    for epoch in range(10):
        exact.epoch(epoch)
    workers = ThreadedWorkers(
        graph, Random().cut(graph, 2), recipe, shape, TrainSettings(), bits=FrozenBits(Fixed(bits=bits), only=only)
    )
    workers.set_weights(exact.parameters.values)
    exact.gradients(0)
    right = exact.parameters.gradients
    return torch.tensor([float((workers.gradients(epoch)[1] - right).square().sum()) for epoch in range(passes)])


@each("bits", NARROW)
def test_the_gradient_has_no_more_variance_of_gradient_messages_that_chose(bits):
    """The backward pass is linear in messages with independent errors: each row's variance is weighted and added.

    24 distances determine their mean to 5 % or so; if all rows used codes between ends the means would be equal. Those
    of the last layer have 4 columns: chosen by the levels for long rows, they had 1.7 times as much in 1 bit.
    """
    wide, last = ([("backward", layer)] for layer in (1, 2))
    chosen, between = (distances(codec, bits, wide) for codec in (LeastVariance(), ENDS))
    assert chosen.mean() < 0.8 * between.mean(), (chosen.mean(), between.mean())
    chosen, between = (distances(codec, bits, last) for codec in (LeastVariance(), ENDS))
    assert chosen.mean() < 1.2 * between.mean(), (chosen.mean(), between.mean())


@each("bits", NARROW)
@each("columns", [4, 7, 8, 15, 20, 32])
def test_short_rows_err_no_more_than_with_stochastic_rounding(bits, columns):
    """Gradients of a softmax and spikes, of which few columns have few rotations; a sixth is the tolerance."""
    generator = torch.Generator().manual_seed(columns)
    shares = (2 * torch.randn(200, columns, generator=generator)).softmax(1)
    of_loss = shares - torch.nn.functional.one_hot(torch.multinomial(shares, 1, generator=generator)[:, 0], columns)
    spikes = torch.zeros(200, columns)
    spikes.scatter_(1, torch.rand(200, columns, generator=generator).argsort(1)[:, :2], 1.0)
    spikes[:, 0] += 0.3 * torch.rand(200, generator=generator)
    for rows in (of_loss, spikes):
        chosen, between = (codec_error(codec, rows, bits, draws=8).squared for codec in (LeastVariance(), ENDS))
        assert chosen <= 7 / 6 * between, (columns, chosen, between)


@each("columns", [1, 2, 5, 40])
def test_constant_rows_are_exact_to_the_last_bit_and_have_no_variance(columns):
    values = [2.7, -1e-3, 0.0, -0.0, 3.4e38, -3.4e38, 1e-45, -1.1754944e-38, 0.1, 1 / 3]
    x = torch.tensor(values).repeat_interleave(columns).view(-1, columns)
    for bits in (*NARROW, torch.tensor([1, 2, 4, 4, 2, 1, 1, 2, 4, 1], dtype=torch.uint8)):
        out, noted, _ = send(LeastVariance(), x, bits)
        assert torch.equal(out, x), bits
        assert torch.equal(noted, torch.zeros(10, 4)), bits
        added, _, _ = send(LeastVariance(), x, bits, out=torch.ones_like(x), accumulate=True)
        assert torch.equal(added, 1 + x)


@each("columns", [1, 3, 47, 64])
def test_rows_of_every_width_in_one_message(columns):
    widths, x, codec = torch.tensor([1, 2, 4, 8, 16, 32] * 5, dtype=torch.uint8), mixed(columns, 30), LeastVariance()
    x[7] = -0.3
    out, noted, layout = send(codec, x, widths)
    beside = {1: 4, 2: 4, 4: 4, 8: 8, 16: 8, 32: 0}
    assert layout.num_bytes == sum(-(-columns * b // 8) + beside[b] for b in widths.tolist())
    of_row = widths.flip(0)  # rows are encoded in reverse order
    assert torch.equal(out[of_row == 32], x[of_row == 32])
    for width in (*NARROW, 8, 16):
        alone, noted_alone, _ = send(codec, x, width)
        assert torch.equal(out[of_row == width], alone[of_row == width]), width
        assert torch.equal(noted, noted_alone), "the recorded facts of a row do not depend on its width"
    twice, _, _ = send(codec, x, widths, out=out.clone(), accumulate=True)
    assert torch.allclose(twice, 2 * out, atol=1e-6)


def test_rows_are_those_of_the_code_that_is_chosen_bit_for_bit():
    x, codec = mixed(48), LeastVariance()
    for bits in NARROW:
        said, out = rotated_rows(codec, x.flip(0), bits).flip(0), send(codec, x, bits)[0]
        assert bool(said.any()) and not bool(said.all())
        for chosen, other in ((said, Rotated()), (~said, ENDS)):
            assert torch.equal(out[chosen], send(other, x, bits)[0][chosen]), (bits, other)


@each("value", [math.nan, math.inf, 3e38])
def test_a_row_that_cannot_be_encoded_is_refused(value):
    x = mixed(20, 8)
    x[6, 18], x[6, 17] = value, -value  # elements are finite, but the range overflows
    for bits in (1, 4, 8, 16, 32):
        with pytest.raises(NonFiniteRow) as refused:
            send(LeastVariance(), x, bits)
        assert refused.value.position == 1, "rows are encoded in reverse order"
    x[6] = torch.linspace(1e38, 3.3e38, 20) * torch.tensor([1.0, -1.0]).repeat(10) / 2
    x[6, 3] = 3.3e38  # the range is finite; that of bfloat16 parameters, or sums of elements, may not be
    try:
        assert bool(torch.isfinite(send(LeastVariance(), x, 1)[0]).all())
    except NonFiniteRow as error:
        assert error.position == 1, "the row, not its position among the rotated ones"


def test_empty_messages_rows_without_columns_and_wrong_calls():
    codec = LeastVariance()
    for shape in ((0, 5), (3, 0)):
        out, noted, layout = send(codec, torch.zeros(shape), 2)
        assert out.shape == shape and noted.shape == (shape[0], 4) and layout.num_bytes == 4 * shape[0]
    layout = codec.layout(1, 2, 8)
    with pytest.raises(ValueError, match="ids and the noise of their message"):
        segment = torch.zeros(layout.num_bytes, dtype=torch.uint8)
        codec.decode(segment, layout, torch.ones(2, 8), torch.arange(2), accumulate=False)
    with pytest.raises(ValueError, match="rotations must lie in"):
        LeastVariance(rotations=3)


def test_a_system_takes_it_by_name_in_a_pair_for_assigned_widths_and_for_differences():
    system = gq.systems.adaqp_r()
    assert system.codec == LeastVariance() == gq.systems.sylvie_r().codec
    assert words_of("codec", LeastVariance(rotations=1)) == "codec=least-variance:rotations=1"
    assert parts_in("codec=least-variance:noise=node") == {"codec": LeastVariance(noise="node")}
    pair = replace(system, codec=(Stochastic(), LeastVariance()))
    assert gq.System.from_json(pair.to_json()) == pair
    kept = replace(system, bits=Fixed(bits=1), cache=gq.caches.Difference())
    assert kept.cache == gq.caches.Difference(), "an error of at most 0.57 of a row decays"
