"""Products defined by a user: rows of int8 codes with a scale each, widened if no kernel takes them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.prepared import PreparedProducts
from gnnqlab.kernels.sparse.aggregate import QuantizedRows, quantize_rows


@dataclass(frozen=True)
class Int8Rows:
    """Recipe part; tests count its ``prepared``."""

    def build(self, device="cpu"):
        return Int8Products()


class Int8Products(PreparedProducts):
    """Operands are int8; a matrix of attention has its heads next to each other as one row."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[torch.Size] = []

    @property
    def exact(self):
        return PLAIN

    def part(self, operand, rows):
        if isinstance(operand, torch.Tensor):
            return operand[slice(*rows)]
        return QuantizedRows(operand.codes[slice(*rows)], operand.scales[slice(*rows)])

    def dense(self, operand):
        return operand.codes * operand.scales.unsqueeze(1) if isinstance(operand, QuantizedRows) else operand

    def _factor(self, operand):
        return self.dense(operand)

    def _sources(self, adjacency, x, halo, rows, transposed):
        return tuple(quantize_rows(part) if isinstance(part, torch.Tensor) else part for part in (x, halo))

    def _prepare(self, x):
        self.prepared.append(x.shape)
        return quantize_rows(x) if x.dim() == 2 else x

    def _blank(self, x):
        return QuantizedRows(torch.empty(x.shape, dtype=torch.int8), torch.empty(x.shape[0]))

    def _fill(self, operand, x, rows):
        part = quantize_rows(x[slice(*rows)])
        operand.codes[slice(*rows)], operand.scales[slice(*rows)] = part.codes, part.scales
