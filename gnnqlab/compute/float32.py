"""Products in float32: an operand is the tensor itself, and gradients are those of PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.compute.products import Compute, Operand, PassRows, Products, Range
from gnnqlab.kernels.dense import tall_skinny
from gnnqlab.kernels.sparse import aggregate as sparse
from gnnqlab.kernels.sparse import attention
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["PLAIN", "Float32Products", "PlainProducts"]


@dataclass(frozen=True)
class Float32Products(Compute):
    """Compute: every product in float32."""

    kept_bytes: ClassVar[int] = 4
    remade: ClassVar[bool] = True

    def build(self, device: torch.device | str = "cpu") -> Products:
        """Create the products of one worker."""
        return PlainProducts()


class PlainProducts(Products):
    """Products of tensors without conversion; float64 tensors give float64 results."""

    reads_codes: ClassVar[bool] = True

    @property
    def exact(self) -> Products:
        return self

    @property
    def remade(self) -> bool:
        return True

    def begin(self, rows: PassRows | None = None) -> None:
        pass

    def operand(self, x: Operand, rows: Range | None = None) -> Operand:
        return x

    def halo(self, x: Operand, local: Operand, ids: Tensor) -> Operand:
        return x

    def part(self, operand: Operand, rows: Range) -> Operand:
        return operand[rows[0] : rows[1]]

    def dense(self, operand: Operand) -> Tensor:
        tensor: Tensor = operand
        return tensor

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if _pays(x, weight):
            output: Tensor = Affine.apply(bias, x, weight)
            return output
        product = x @ weight
        return product if bias is None else product + bias

    def affine(self, base: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        if alpha == beta == 1.0 and _pays(x, weight):
            output: Tensor = Affine.apply(base, x, weight)
            return output
        return torch.addmm(base, x, weight, beta=beta, alpha=alpha)

    def mixed(self, x: Tensor, weight: Tensor, *, beta: float, alpha: float) -> Tensor:
        if not tall_skinny.many(x):
            return self.affine(x, x, weight, beta=beta, alpha=alpha)
        # x (beta I + alpha weight): one product forward and one backward, without passes that scale and add.
        identity = torch.eye(weight.shape[0], dtype=weight.dtype, device=weight.device)  # (D, D)
        return self.linear(x, torch.add(beta * identity, weight, alpha=alpha))

    def aggregate(self, adjacency: Adjacency, x: Tensor) -> Tensor:
        return sparse.aggregate(adjacency, x)

    def attend(
        self, adjacency: Adjacency, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float = 0.2
    ) -> Tensor:
        source, target = (z * a_source).sum(-1), (z * a_target).sum(-1)  # (N, K, F) -> (N, K)
        return attention.attend(adjacency, z, source, target, slope=slope)


class Affine(torch.autograd.Function):
    """``y = base + x w`` for tall-skinny ``x``; ``dx = dy w.T``, ``dw = x.T dy``."""

    @staticmethod
    def forward(ctx: Any, base: Tensor | None, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.by_row = base is not None and base.dim() == 2  # else (O,), added to every row
        return tall_skinny.tall_mm(x, weight, base=base)  # (N, I) (I, O) -> (N, O)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), gradient = ctx.saved_tensors, gradients[0].contiguous()
        needs_base, needs_x, needs_weight = ctx.needs_input_grad
        # A base (O,) is added to every row, so its gradient is the sum over rows.
        base = (gradient if ctx.by_row else gradient.sum(0)) if needs_base else None
        # The kernel records no gradient, so a double backward pass needs torch.mm.
        use_kernel = not torch.is_grad_enabled() and tall_skinny.pays(gradient, weight.t())
        multiply = tall_skinny.tall_mm if use_kernel else torch.mm
        return base, multiply(gradient, weight.t()) if needs_x else None, x.t() @ gradient if needs_weight else None


def _pays(x: Tensor, weight: Tensor) -> bool:
    # A compiler cannot trace a kernel that is called by address.
    return not torch.compiler.is_compiling() and tall_skinny.pays(x, weight)


PLAIN = PlainProducts()
"""Float32 products without state, shared by all callers."""
