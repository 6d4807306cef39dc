"""Joins of layers: values, masks and gradients of separate steps, on every backend; saved and allocated matrices."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.kernels.reference import jumping_knowledge as reference
from gnnqlab.kernels.rowwise.jumping_knowledge import JOINS, MAX_LAYERS, join
from gnnqlab.kernels.rowwise.nodewise import Mask, disable_fusion
from gnnqlab.train.records.memory_tracker import MemoryTracker
from tests.cases import each

from .backends import AVAILABLE, EVERY, on_native, use
from .test_nodewise import PLACE, _mask

SHAPES = [(1, 1, 1), (2, 3, 7), (3, 0, 5), (3, 37, 31), (5, 300, 129), (3, 1100, 512)]
"""Layers, rows, columns: blocks of noise that reach over two layers, and one that does not fit into the caches."""


def _layers(count: int, rows: int, columns: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(columns)
    return [torch.randn(rows, columns, generator=generator).requires_grad_() for _ in range(count)]


def _and_gradients(joined: torch.Tensor, layers: list[torch.Tensor]) -> list[torch.Tensor]:
    weight = torch.randn(joined.shape, generator=torch.Generator().manual_seed(1))
    return [joined.detach(), *torch.autograd.grad((joined * weight).sum(), layers)]


@each("backend", EVERY)
@each("how", JOINS)
@each("p", [0.0, 0.4])
def test_values_and_gradients_are_those_of_separate_steps_to_the_bit(backend, how, p):
    for shape in SHAPES:
        layers, mask = _layers(*shape), _mask(shape[1], p)
        with use(backend):
            found = _and_gradients(join(layers, how, mask=mask), layers)
        with native.use("reference"), disable_fusion():
            expected = _and_gradients(join(layers, how, mask=mask), layers)
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True)), shape


@each("backend", EVERY)
def test_max_join_sends_gradients_of_ties_to_the_first_layer_and_keeps_nan(backend):
    a, b = torch.tensor([[1.0, 2.0, 0.0, 5.0]] * 5), torch.tensor([[1.0, 3.0, -0.0, torch.nan]] * 5)
    c = torch.tensor([[1.0, 3.0, -1.0, torch.inf]] * 5)
    layers = [x.repeat(1, 5).requires_grad_() for x in (a, b, c)]
    with use(backend):
        joined = join(layers, "max")
        found = torch.autograd.grad(joined, layers, torch.full_like(joined, 2.0))
    assert joined[:, :3].tolist() == [[1.0, 3.0, 0.0]] * 5 and bool(joined[:, 3::4].isnan().all())
    assert [g[:, :4].tolist() for g in found] == [
        [[2.0, 0.0, 2.0, 0.0]] * 5, [[0.0, 2.0, 0.0, 2.0]] * 5, [[0.0] * 4] * 5
    ]  # fmt: skip


def test_formulas_of_the_reference_are_the_gradients():
    layers = [layer.detach().double().requires_grad_() for layer in _layers(3, 6, 5)]
    best, layer = reference.largest(layers)
    assert torch.equal(best, torch.stack(layers).amax(0)) and layer.dtype == torch.uint8
    g = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.autograd.grad((torch.stack(layers).amax(0) * g).sum(), layers)
    assert all(torch.equal(*pair) for pair in zip(reference.largest_backward(g, layer, 3), expected, strict=True))


@each("how", JOINS)
def test_gradients_in_float64_are_numerical_ones(how):
    layers = [layer.detach().double().requires_grad_() for layer in _layers(3, 3, 4)]
    assert torch.autograd.gradcheck(lambda *layers: join(layers, how, mask=_mask(3, 0.4)), layers)


@on_native
@each("how", JOINS)
def test_layers_and_gradients_are_read_where_they_lie(backend, how):
    wide = [torch.randn(50, 40, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    views, mask = [wide[0][:, 3:36], wide[1][:, :33], wide[2].t().contiguous().t()[:, :33]], _mask(50, 0.5)
    strided = [view.detach().requires_grad_() for view in views]
    plain = [view.detach().contiguous().requires_grad_() for view in views]
    with use(backend):
        found, expected = (_and_gradients(join(layers, how, mask=mask), layers) for layers in (strided, plain))
        (of_part,) = torch.autograd.grad(join(strided, how, mask=mask)[:, :20].sum(), strided[:1])
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
    assert int(of_part.count_nonzero()) > 0


@on_native
def test_max_join_saves_one_byte_per_element_and_cat_join_saves_no_rows(backend):
    layers, mask = _layers(3, 50, 32), _mask(50, 0.5)
    with use(backend):
        joined = join(layers, "max", mask=mask)
        ids, layer = joined.grad_fn.saved_tensors
        assert ids.data_ptr() == mask.ids.data_ptr() and (layer.dtype, layer.numel()) == (torch.uint8, 50 * 32)
        columns = join(layers, "cat", mask=mask)
        assert [t.data_ptr() for t in columns.grad_fn.saved_tensors] == [mask.ids.data_ptr()]


@on_native
@each("how", JOINS)
def test_a_pass_back_makes_a_matrix_a_layer(backend, how):
    """A forward pass allocates the join alone, with a byte per element of the largest."""
    layers, mask, ledger = _layers(3, 50, 40), _mask(50, 0.5), MemoryTracker()
    sizes, enter = {}, ledger.enter

    def note(tensor, *more, **settings):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return enter(tensor, *more, **settings)

    ledger.enter = note
    with use(backend):
        with ledger:
            joined = join(layers, how, mask=mask)
        matrix, there = 4 * 50 * 40, sum(size for size in sizes.values() if size >= 50 * 40)
        gradient = torch.ones_like(joined)
        sizes.clear()
        with ledger:
            torch.autograd.grad(joined, layers, gradient)
        ledger.close()
    assert there == (3 * matrix if how == "cat" else matrix + 50 * 40)
    assert sum(size for size in sizes.values() if size >= 50 * 40) == 3 * matrix


@each("backend", EVERY)
def test_more_layers_than_kernels_or_a_byte_take(backend):
    for count in (MAX_LAYERS, MAX_LAYERS + 1, 257):
        layers, mask = _layers(count, 3, 5), _mask(3, 0.3)
        with use(backend):
            for how in JOINS:
                found = _and_gradients(join(layers, how, mask=mask), layers)
                with native.use("reference"), disable_fusion():
                    expected = _and_gradients(join(layers, how, mask=mask), layers)
                assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels")
@each("how", JOINS)
def test_joins_do_not_depend_on_threads_or_torch_compile(how):
    before, found, mask = torch.get_num_threads(), [], _mask(3000, 0.5)
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            layers = _layers(3, 3000, 100)
            found.append(_and_gradients(join(layers, how, mask=mask), layers))
    finally:
        torch.set_num_threads(before)
    compiled = torch.compile(lambda *layers: join(layers, how, mask=mask), backend="aot_eager", fullgraph=True)
    found.append(_and_gradients(compiled(*layers), layers))
    assert all(torch.equal(*pair) for other in found[1:] for pair in zip(found[0], other, strict=True))


@each("backend", EVERY)
def test_rows_of_bfloat16_are_those_of_float32(backend):
    layers = [layer.detach().bfloat16().requires_grad_() for layer in _layers(3, 20, 9)]
    with use(backend):
        for how in JOINS:
            joined = join(layers, how)
            found = torch.autograd.grad(joined.float().sum(), layers)
            assert joined.dtype == torch.bfloat16 and {g.dtype for g in found} == {torch.bfloat16}
            assert torch.equal(joined.float(), join([layer.float() for layer in layers], how))


@each("backend", EVERY)
def test_invalid_layers_or_masks_raise_value_error(backend):
    x, (ids, wrong) = torch.ones(2, 3), (torch.arange(2), torch.tensor([0, -1]))
    with use(backend):
        for arguments, mask, text in (
            (([x], "sum"), None, r"how must be one of \('cat', 'max'\), got 'sum'"),
            (([], "cat"), None, r"at least one matrix \(N, D\), got \[\]"),
            (([x[0]], "max"), None, r"at least one matrix \(N, D\), got \[\(3,\)\]"),
            (([x, x[:, :2]], "cat"), None, r"one shape and type, got \(2, 3\) torch.float32, \(2, 2\) torch.float32"),
            (([x], "cat"), Mask(ids=torch.arange(3), p=0.5, **PLACE), "one id per row"),
            (([x], "cat"), Mask(ids=ids, p=1.0, **PLACE), r"p must be in \[0, 1\), got 1.0"),
            (([x, x], "max"), Mask(ids=wrong, p=0.5, **PLACE), r"node ids must be in \[0, 2\*\*32\)"),
            (([x, x], "cat"), Mask(ids=wrong, p=0.5, **PLACE), r"node ids must be in \[0, 2\*\*32\)"),
        ):
            with pytest.raises(ValueError, match=text):
                join(*arguments, mask=mask)
