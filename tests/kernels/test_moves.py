"""Changed rows: the compiled kernel selects the rows that plain PyTorch selects."""

from __future__ import annotations

import math

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.kernels.rowwise.row_change import row_changes, row_moves


def walked(columns: int, *, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, columns, generator=generator)
    rows = torch.randperm(60, generator=generator)[:47]
    steps = 0.2 * torch.rand(47, 1, generator=generator) * torch.randn(47, columns, generator=generator)
    return x, rows, x[rows] + steps


@pytest.mark.parametrize("columns", [1, 3, 15, 16, 17, 64, 100])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.1, 0.3])
def test_every_backend_chooses_the_rows_that_the_definition_names(columns, epsilon):
    x, rows, held = walked(columns)
    wide = torch.randn(60, columns + 5)
    wide[:, :columns] = x
    expected = [
        place
        for place, row in enumerate(rows.tolist())
        if max(abs(float(a - b)) for a, b in zip(x[row], held[place]))
        > float(torch.tensor(epsilon) * max(abs(float(a)) for a in x[row]))
    ]
    for backend in ("native", "reference"):
        with native.use(backend):
            assert row_moves(x, rows, held, epsilon).tolist() == expected
            assert row_moves(wide[:, :columns], rows, held, epsilon).tolist() == expected, "a different stride"
    assert epsilon < 0.3 or len(expected) < 47


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", [0, 15, 16, 19])
def test_a_row_that_is_not_finite_always_travels(backend, value, column):
    x = torch.ones(3, 20)
    x[1, column] = value
    with native.use(backend):
        assert row_moves(x, torch.arange(3), torch.ones(3, 20), 0.3).tolist() == [1]


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_row_of_zeros_travels_only_if_it_was_something_else(backend):
    held = torch.tensor([[0.0, 0.0], [0.0, 1e-6]])
    with native.use(backend):
        assert row_moves(torch.zeros(2, 2), torch.arange(2), held, 0.3).tolist() == [1]
        assert row_moves(torch.zeros(2, 0), torch.arange(2), torch.zeros(2, 0), 0.3).tolist() == []
        assert row_moves(torch.zeros(2, 2), torch.arange(0), torch.zeros(0, 2), 0.3).tolist() == []


def test_mismatched_matrices_and_invalid_rows_raise_value_error():
    with pytest.raises(ValueError, match="must be float32"):
        row_moves(torch.zeros(2, 2), torch.arange(2), torch.zeros(2, 3), 0.1)
    with native.use("native"), pytest.raises(ValueError, match=r"rows must lie in \[0, 2\), got one .* at position 1"):
        row_moves(torch.zeros(2, 2), torch.tensor([0, 2]), torch.zeros(2, 2), 0.1)


@pytest.mark.parametrize("count", [47, 5000])
@pytest.mark.parametrize("threads", [1, 3])
def test_differences_are_those_of_the_rows_that_moved(count, threads):
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(2 * count, 20, generator=generator)
    rows = torch.randperm(2 * count, generator=generator)[:count]
    held = x[rows] * (1 + 0.1 * torch.rand(count, 1, generator=generator))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for backend in ("native", "reference"):
            with native.use(backend):
                places, changes = row_changes(x, rows, held, 0.05)
                assert torch.equal(places, row_moves(x, rows, held, 0.05)) and 0 < places.numel() < count
            expected = (held / x[rows]).sub(1).abs().amax(1) > 0.05
            assert torch.equal(places, expected.nonzero().flatten())
            assert torch.equal(changes, x[rows][places] - held[places])
    finally:
        torch.set_num_threads(before)
