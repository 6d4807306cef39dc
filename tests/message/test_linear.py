"""The linear codec: its bound by brute force, its codes by hand, the same bytes from every backend."""

from __future__ import annotations

import math

import pytest
import torch

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.message import Linear
from gnnqlab.message.codecs.codec import Noise

NOISE = Noise(0, 0, 0)


def there_and_back(x, widths):
    codec, count = Linear(), x.shape[0]
    layout = codec.layout(widths, count, x.shape[1])
    rows = layout.to_wire_order(torch.arange(count))
    segment, out = torch.full((layout.num_bytes,), 7, dtype=torch.uint8), torch.full(x.shape, math.nan)
    codec.encode(x, rows, rows, layout, segment, NOISE)
    codec.decode(segment, layout, out, rows, accumulate=False)
    return segment, out


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_no_element_is_off_by_more_than_the_bound_and_one_is_off_by_it(backend, bits):
    """Every value of a fine grid: the paper's bound holds below the topmost half step, twice of it above."""
    grid = torch.linspace(0.0, 1.0, 20001)[None]
    with native.use(backend):
        _, out = there_and_back(grid, bits)
    off, step = (out - grid).abs(), 1 / 2**bits
    bound = Linear.bound(1.0, bits)
    assert off.max() <= bound * (1 + 1e-5) and off[0, -1] == pytest.approx(bound, rel=1e-5)
    below = grid <= 1 - step / 2
    assert off[below].max() <= step / 2 * (1 + 1e-4) and off[below].max() >= step / 2 * 0.99
    assert out.unique().numel() == 2**bits


@pytest.mark.parametrize("columns", [1, 5, 16, 33])
def test_every_backend_writes_the_same_bytes(columns):
    generator = torch.Generator().manual_seed(columns)
    x = torch.randn(40, columns, generator=generator) * torch.logspace(-3, 3, 40)[:, None]
    x[7] = 2.5
    widths = torch.tensor([1, 2, 4, 8, 32], dtype=torch.uint8).repeat(8)
    found = []
    for backend in ("native", "reference"):
        with native.use(backend):
            found.append([there_and_back(x, form) for form in (widths, 1, 2, 4, 8, 32)])
    for (one, back), (other, again) in zip(*found):
        assert torch.equal(one, other) and torch.equal(back, again)
        assert torch.equal(back[7], x[7]), "a constant row is exact"
    exact = widths == 32
    assert torch.equal(found[0][0][1][exact], x[exact])
    spread = x.amax(1) - x.amin(1)
    bounds = torch.tensor([Linear.bound(float(of), int(width)) for of, width in zip(spread, widths)])
    assert ((found[0][0][1] - x).abs().amax(1) <= bounds * (1 + 1e-5) + 1e-7 * x.abs().amax(1)).all()


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_row_that_is_not_finite_is_refused(backend, value):
    x = torch.zeros(4, 20)
    x[2, 18] = value
    with native.use(backend), pytest.raises(NonFiniteRow) as refused:
        there_and_back(x, 4)
    assert refused.value.position == 2
