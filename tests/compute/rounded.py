"""Products that round as bfloat16 ones do and run in float64: they differ only by the order of float32 sums."""

from __future__ import annotations

import torch

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.prepared import PreparedProducts


class _Round(torch.autograd.Function):
    """Round rows to bfloat16 in the forward pass, and their gradients in the backward pass."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().double()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().double()


class RoundedInFloat64(PreparedProducts):
    """Operands are float64 and hold bfloat16 values."""

    exact = PLAIN

    def _prepare(self, x):
        return x.bfloat16().double()

    def _blank(self, x):
        return torch.empty_like(x, dtype=torch.float64)

    def _fill(self, operand, x, rows):
        operand[slice(*rows)] = self._prepare(x[slice(*rows)])

    def nodewise(self, x, norm, *, activation, mask, inplace=False):
        return _Round.apply(PLAIN.nodewise(_Round.apply(x), norm, activation=activation, mask=mask))

    def nodewise_both(self, x, norm, *, activation, mask):
        assert mask is None, "the two results are one"
        h = self.nodewise(x, norm, activation=activation, mask=mask)
        return h, h

    def part(self, operand, rows):
        return operand[slice(*rows)]

    def dense(self, operand):
        return operand
