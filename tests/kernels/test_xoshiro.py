"""The generator in registers: its published words, the same codes from every backend, unbiased, of a row's place."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.quantize import Noise, quantize
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.reference import xoshiro as reference
from gnnqlab.kernels.xoshiro import quantize_xoshiro, xoshiro
from tests.cases import each
from tests.kernels.backends import EVERY, on_native, use

PUBLISHED = {
    (1, 2, 3, 4): (
        41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205, 9973669472204895162,
        14011001112246962877, 12406186145184390807, 15849039046786891736, 10450023813501588000,
    ),
    (0, 0, 0, 1): (
        0x0000000000800000, 0x0000000000800011, 0x0002200000800011, 0x0002200044000020, 0x00022000448008A1,
        0x01102100802208A0, 0x0114002284200880, 0x0402896644A64095, 0x8A14A0A244ACC891, 0x8C88BA4680B20495,
    ),
}  # fmt: skip
"""State -> the first words of the authors' program."""
SIZES = ((1, 1), (7, 5), (65, 32), (130, 66), (200, 257), (2, 1030))


def _rows(rows: int, columns: int) -> torch.Tensor:
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    x *= torch.logspace(-3, 3, rows).unsqueeze(1)
    x[rows // 2] = 0.0
    return x


@each("backend", EVERY)
def test_words_are_those_that_its_authors_published(backend: str) -> None:
    states = [state for state in PUBLISHED for _ in range(reference.LANES // len(PUBLISHED))]
    with use(backend):
        words = xoshiro(torch.tensor(states), 10)
    for lane, state in enumerate(states):
        assert [word % 2**64 for word in words[:, lane].tolist()] == list(PUBLISHED[state])


def test_states_begin_as_successive_words_of_splitmix() -> None:
    """Those of seed 1234567 that its author's program prints."""
    published = [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip
    states = reference.first_states(1234567, 3)
    assert states.flatten()[:5].tolist() == published
    assert len({tuple(state) for state in states.reshape(-1, reference.WORDS).tolist()}) == 3 * reference.LANES


@on_native
@each("sizes", SIZES)
def test_codes_and_scales_are_those_of_the_reference(backend: str, sizes: tuple[int, int]) -> None:
    x = _rows(*sizes)
    for bits in (2, 4, 8):
        with use(backend):
            found = quantize_xoshiro(x, bits=bits, seed=2**63 - 5)
        with use("reference"):
            truth = quantize_xoshiro(x, bits=bits, seed=2**63 - 5)
        assert torch.equal(found.codes, truth.codes) and torch.equal(found.scales, truth.scales)
        assert torch.equal(found.scales, quantize(x, bits=bits).scales)


@each("backend", EVERY)
def test_codes_stay_in_their_range_and_within_a_step(backend: str) -> None:
    x = _rows(50, 66)
    for bits in (2, 5, 8):
        with use(backend):
            found = quantize_xoshiro(x, bits=bits, seed=1)
        assert int(found.codes.abs().max()) == 2 ** (bits - 1) - 1
        steps = (found.codes * found.scales.unsqueeze(1) - x).abs() / found.scales.clamp(min=1e-30).unsqueeze(1)
        assert float(steps.max()) <= 1.0 + 2.0**-8  # sixteen fractional bits, and float32 of 127 steps


def test_it_is_unbiased() -> None:
    """The mean of 4000 roundings is within five standard errors: one has a variance of s^2 / 4 at most."""
    x = torch.tensor([0.3, -0.26, 0.49, 1.0]).repeat(4000, 1)
    found = quantize_xoshiro(x, bits=4, seed=0)
    error = (found.codes * found.scales.unsqueeze(1) - x).mean(0).abs()
    assert float(error.max()) < 5 * float(found.scales[0]) / 2 / 4000**0.5
    assert not torch.equal(quantize_xoshiro(x, bits=4, seed=1).codes, found.codes)


def test_all_values_of_sixteen_bits_are_as_frequent() -> None:
    """Counts of 256 bins are within five standard errors; columns and rows beside each other do not move together."""
    bits = reference.bits16(512, 1024, seed=3)
    expected = bits.numel() / 256
    assert float((torch.bincount(bits.flatten() >> 8, minlength=256) - expected).abs().max()) < 5 * expected**0.5
    centred = bits.double() / 65536 - 0.5
    for beside in (centred[:, 1:] * centred[:, :-1], centred[1:] * centred[:-1], centred[64:] * centred[:-64]):
        assert abs(float(beside.mean())) < 5 / 12 / beside.numel() ** 0.5


def test_noise_is_of_a_place_and_counter_noise_of_a_node() -> None:
    x = torch.randn(200, 40, generator=torch.Generator().manual_seed(2))
    part = slice(70, 200)
    alone = quantize_xoshiro(x[part], seed=4)
    assert not torch.equal(alone.codes, quantize_xoshiro(x, seed=4).codes[part])
    by_node = [Noise(ids, 4, 0, stream("operand", 0)) for ids in (torch.arange(200), torch.arange(70, 200))]
    assert torch.equal(quantize(x[part], noise=by_node[1]).codes, quantize(x, noise=by_node[0]).codes[part])


def test_threads_and_strides_change_nothing() -> None:
    x = _rows(300, 170)
    whole = quantize_xoshiro(x, seed=6)
    before = native.threads()
    torch.set_num_threads(1)
    try:
        assert torch.equal(quantize_xoshiro(x, seed=6).codes, whole.codes)
    finally:
        torch.set_num_threads(before)
    wide = torch.zeros(300, 200)
    wide[:, 7:177] = x
    assert torch.equal(quantize_xoshiro(wide[:, 7:177], seed=6).codes, whole.codes)
    assert torch.equal(quantize_xoshiro(x.t().contiguous().t(), seed=6).codes, whole.codes)


@each("backend", EVERY)
def test_zeros_nothing_and_what_is_not_finite(backend: str) -> None:
    with use(backend):
        for x in (torch.zeros(3, 9), torch.full((3, 9), 1e-38)):
            found = quantize_xoshiro(x, seed=0)
            assert not found.codes.any() and not found.scales.any()
        for shape in ((0, 4), (4, 0)):
            assert quantize_xoshiro(torch.zeros(shape), seed=0).codes.shape == shape
        for value in (float("nan"), float("inf"), -float("inf")):
            x = _rows(90, 20)
            x[66, 13], x[80, 2] = value, value
            with pytest.raises(NonFiniteRow, match="row 66"):
                quantize_xoshiro(x, seed=0)


def test_what_cannot_be_is_refused() -> None:
    x = torch.ones(2, 2)
    with pytest.raises(ValueError, match="bits must be one of"):
        quantize_xoshiro(x, bits=1, seed=0)
    with pytest.raises(ValueError, match="must be float32"):
        quantize_xoshiro(x.double(), seed=0)
    with pytest.raises(ValueError, match="seed must be"):
        quantize_xoshiro(x, seed=-1)
    with pytest.raises(ValueError, match=r"states must be int64 of shape \(8, 4\)"):
        xoshiro(torch.ones(4, 4, dtype=torch.int64), 1)
