"""The bits that a tensor needs: the error by hand, its range, and the bits for a heavier tail."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.compute.bit_rule import CHOICES, TARGET, fewest, relative_error
from gnnqlab.kernels.codec.quantize import quantize


def test_the_error_of_a_few_elements_by_hand() -> None:
    x, q = torch.tensor([2.0, 0.0, -1.0]), torch.tensor([1.0, 0.0, -1.0])
    assert relative_error(x, q, epsilon=1.0) == pytest.approx((1 / 4 + 0 + 0) / 3)
    assert relative_error(x, x) == 0.0


def test_it_lies_between_0_and_1_where_the_printed_formula_does_not() -> None:
    x, q = torch.tensor([-0.0005]), torch.tensor([0.0])
    printed = ((x - q) / (x + q + 0.0005)).abs().item()
    assert printed == float("inf") and relative_error(x, q) == pytest.approx(0.5)


def test_heavier_tails_need_more_bits() -> None:
    x = torch.randn(200, 64, generator=torch.Generator().manual_seed(0))

    def needed(x: torch.Tensor, scale: str = "tensor", target: float = TARGET) -> int:
        codes = {bits: quantize(x, bits=bits, scale=scale) for bits in CHOICES}
        errors = {bits: relative_error(x, each.codes * each.scales.unsqueeze(1)) for bits, each in codes.items()}
        return fewest(errors, target=target)

    found = [needed(x.sign() * x.abs() ** power) for power in (0.25, 1.0, 4.0)]
    assert found == sorted(found) and found[0] < found[-1] == 8
    assert needed(x, target=0.0) == 8 and needed(x, target=1.0) == 2
    assert needed(x**5, scale="row") <= needed(x**5)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="one shape"):
        relative_error(torch.ones(2), torch.ones(3))
