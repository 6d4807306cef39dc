"""Counter-based noise and dropout: known values, same bits from every backend, gradients, compiled graphs."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.kernels import native, noise
from gnnqlab.kernels.reference import noise as reference
from tests.cases import each

from .backends import AVAILABLE, EVERY, on_native, use

SETTINGS = {"seed": 0x1234_5678_9ABC_DEF0, "epoch": 3, "stream": noise.stream("dropout", 2)}


def test_philox_agrees_with_a_plain_python_philox():
    def philox(counter, key):
        c, (k0, k1) = list(counter), key
        for _ in range(7):
            high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
            high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
            c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0]
            k0, k1 = (k0 + 0x9E3779B9) % (1 << 32), (k1 + 0xBB67AE85) % (1 << 32)
        return c

    cases = [((0, 0, 0, 0), 0), ((2**32 - 1,) * 4, 2**63 - 1), ((1, 2, 3, 4), 0x1234_5678_9ABC_DEF0)]
    for counter, seed in cases:
        words = reference.philox(tuple(torch.tensor(c) for c in counter), seed)
        assert [int(word) for word in words] == philox(counter, (seed & 0xFFFFFFFF, seed >> 32))


def test_columns_are_halves_of_words():
    words = reference.philox(tuple(torch.tensor(c) for c in (9, 1, 3, 7)), 5)
    bits = noise.uniform16(torch.tensor([9]), 16, seed=5, epoch=3, stream=7)[0, 8:]
    assert bits.tolist() == [half for word in words for half in (int(word) & 0xFFFF, int(word) >> 16)]


@each("backend", EVERY)
@each("columns", [1, 7, 8, 9, 40, 64, 65, 130])
def test_uniform16_is_the_same_everywhere(backend, columns):
    ids = torch.randint(0, 2**32, (21,), generator=torch.Generator().manual_seed(0))
    with use(backend):
        got = noise.uniform16(ids, columns, **SETTINGS)
    assert torch.equal(got, reference.uniform16(ids, columns, **SETTINGS))


@each("kind", noise.KINDS)
def test_streams_of_different_keys_are_distinct(kind):
    others = {
        noise.stream(k, layer, sender, round)
        for k in noise.KINDS
        for layer in (0, 4095)
        for sender in (0, 4095)
        for round in (0, 15)
    }
    assert len(others) == 8 * len(noise.KINDS)
    assert noise.stream(kind, 3, 7, 16) == noise.stream(kind, 3, 7), "higher rounds have other nodes"
    assert noise.stream(kind, 3) >> 28 == noise.KINDS[kind]


def test_stream_with_unknown_kind_or_out_of_range_key_raises_value_error():
    with pytest.raises(ValueError, match="kind must be one of"):
        noise.stream("sideways", 0)
    with pytest.raises(ValueError, match=r"layer must be in \[0, 4096\), got 4096"):
        noise.stream("forward", 4096)
    with pytest.raises(ValueError, match=r"sender must be in \[0, 4096\), got -1"):
        noise.stream("backward", 0, -1)


@on_native
@each("dtype", [torch.float32, torch.bfloat16])
@each("columns", [1, 5, 8, 16, 31, 64, 127, 600])
def test_dropout_is_the_same_everywhere(backend, dtype, columns):
    generator = torch.Generator().manual_seed(columns)
    wide = torch.randn(37, columns + 5, generator=generator).to(dtype)
    ids = torch.randint(0, 2**31 - 1, (37,), generator=generator)
    for x in (wide[:, :columns], wide[:, 1 : columns + 1], wide.t()[: columns + 5].t()):
        for p in (0.1, 0.5, 0.999999):
            with use(backend):
                got = [noise.dropout(x, i, p=p, **SETTINGS) for i in (ids, ids.to(torch.int32))]
            with native.use("reference"):
                expected = noise.dropout(x, ids, p=p, **SETTINGS)
            assert torch.equal(got[0], expected) and torch.equal(got[1], expected)


@each("backend", EVERY)
def test_dropout_values_is_the_mask_of_dropout(backend):
    generator = torch.Generator().manual_seed(0)
    x, ids = torch.randn(11, 70, generator=generator), torch.randint(0, 2**32, (11,), generator=generator)
    row, column = torch.randint(0, 11, (200,), generator=generator), torch.randint(0, 70, (200,), generator=generator)
    with use(backend):
        values = noise.dropout_values(x[row, column], ids[row], column.to(torch.int32), p=0.3, **SETTINGS)
    assert torch.equal(values, noise.dropout(x, ids, p=0.3, **SETTINGS)[row, column])


@each("backend", EVERY)
def test_dropout_keeps_the_mean(backend):
    # 2e6 draws of a value with variance p / (1 - p) = 1/3: the mean's standard error is 4.1e-4.
    x = torch.ones(2000, 1000)
    with use(backend):
        y = noise.dropout(x, torch.arange(2000), p=0.25, **SETTINGS)
    assert abs(float(y.mean()) - 1) < 4 * 4.1e-4
    assert y.unique().tolist() == [0.0, pytest.approx(4 / 3)]


@each("backend", EVERY)
def test_gradients_use_the_same_mask(backend):
    x, ids = torch.randn(9, 33, requires_grad=True), torch.arange(9)
    values = torch.randn(9, requires_grad=True)
    with use(backend):
        y = noise.dropout(x, ids, p=0.5, **SETTINGS)
        z = noise.dropout_values(values, ids, ids, p=0.5, **SETTINGS)
        (y.sum() + z.sum()).backward()
        mask = noise.dropout(torch.ones(9, 33), ids, p=0.5, **SETTINGS)
    assert torch.equal(x.grad, mask) and torch.equal(y.detach(), x.detach() * mask)
    assert torch.equal(values.grad, mask[ids, ids])


def test_float64_is_differentiable():
    x = torch.randn(5, 12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: noise.dropout(x, torch.arange(5), p=0.5, **SETTINGS), (x,))


@each("backend", EVERY)
def test_empty_and_zero_probability(backend):
    with use(backend):
        assert noise.dropout(torch.ones(0, 5), torch.arange(0), p=0.5, **SETTINGS).shape == (0, 5)
        assert noise.dropout(torch.ones(5, 0), torch.arange(5), p=0.5, **SETTINGS).shape == (5, 0)
        assert noise.uniform16(torch.arange(0), 5, **SETTINGS).shape == (0, 5)
        assert noise.uniform16(torch.arange(3), 0, **SETTINGS).shape == (3, 0)
    x = torch.ones(2, 2)
    assert noise.dropout(x, torch.arange(2), p=0.0, **SETTINGS) is x


@each("backend", EVERY)
def test_refusals(backend):
    x = torch.ones(2, 3)
    with use(backend):
        with pytest.raises(ValueError, match=r"p must be in \[0, 1\), got 1.0"):
            noise.dropout(x, torch.arange(2), p=1.0, **SETTINGS)
        with pytest.raises(ValueError, match="one id per row"):
            noise.dropout(x, torch.arange(3), p=0.5, **SETTINGS)
        for ids in (torch.tensor([0, 2**32]), torch.tensor([-1, 0])):
            with pytest.raises(ValueError, match=r"node ids must be in \[0, 2\*\*32\)"):
                noise.dropout(x, ids, p=0.5, **SETTINGS)
        with pytest.raises(ValueError, match="node ids and columns must be int64 or int32"):
            noise.dropout(x, torch.tensor([0.0, 1.0]), p=0.5, **SETTINGS)
        with pytest.raises(ValueError, match=r"seed must be in \[0, 2\*\*63\), got -1"):
            noise.dropout(x, torch.arange(2), p=0.5, seed=-1, epoch=0, stream=0)
        with pytest.raises(ValueError, match="make it with noise.stream"):
            noise.dropout(x, torch.arange(2), p=0.5, seed=0, epoch=0, stream=1 << 32)


@pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels")
def test_threads_do_not_change_the_result():
    x, ids = torch.randn(3000, 100), torch.arange(3000)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = noise.dropout(x, ids, p=0.5, **SETTINGS)
        torch.set_num_threads(3)
        assert torch.equal(one, noise.dropout(x, ids, p=0.5, **SETTINGS))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "backend",
    ["reference", pytest.param("native", marks=pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels"))],
)
def test_operators_pass_opcheck(backend):
    x, ids = torch.randn(4, 9, requires_grad=True), torch.arange(4)
    with native.use(backend):
        torch.library.opcheck(torch.ops.gnnqlab.dropout.default, (x, ids, 30000, 1, 2, 3))
        values = torch.randn(4, requires_grad=True)
        torch.library.opcheck(torch.ops.gnnqlab.dropout_values.default, (values, ids, ids, 30000, 1, 2, 3))


def test_dropout_compiles():
    ids = torch.arange(6)

    def layer(x, weight):
        return noise.dropout(torch.relu(x @ weight), ids, p=0.5, **SETTINGS)

    x, weight = torch.randn(6, 5), torch.randn(5, 7, requires_grad=True)
    expected = layer(x, weight)
    (expected_grad,) = torch.autograd.grad(expected.sum(), weight)
    got = torch.compile(layer, backend="aot_eager", fullgraph=True)(x, weight)
    (got_grad,) = torch.autograd.grad(got.sum(), weight)
    assert torch.equal(got, expected) and torch.equal(got_grad, expected_grad)
