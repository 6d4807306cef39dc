"""Expected errors of min-max codes and of rotated codes for each row, computed in one pass before encoding.

Shapes: n rows of a call, N source rows, D columns. `gnnqlab.kernels.reference.row_errors` defines the arithmetic; the
compiled kernels give identical numbers. The CUDA kernel has been tested only by emulation on a CPU, never on a GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import NON_FINITE, raise_or_note, run_noting
from gnnqlab.kernels.reference import row_errors as reference
from gnnqlab.kernels.reference.row_errors import ERROR_WIDTHS

__all__ = ["ERROR_WIDTHS", "NOTED", "row_errors"]

NOTED = len(ERROR_WIDTHS) + 2
"""Number of statistics per row."""

# x, N, stride, D; rows, n; noted; threads.
_row_errors = native.declare("row_errors", "p i i i p i p i")


def row_errors(x: Tensor, rows: Tensor, noted: Tensor) -> None:
    """Compute for ``x[rows]`` the root of the expected squared error at 1, 2 and 4 bits, the norm and the range.

    The expected squared error of stochastic codes is ``S^2 sum f (1 - f)``, f the fractional part of ``(x - Z) / S`` of
    each element (AdaQP, Wan et al., MLSys 2023, proof of Theorem 1, before averaging over f), with Z and S in bfloat16
    as they are sent. The error of rotated codes is a share of the norm (EDEN, Vargaftik et al., ICML 2022).

    Args:
        x: float32 ``(N, D)``; a row's stride may exceed D.
        rows: indices of the rows, int64 ``(n,)``.
        noted: float32 ``(n, 5)``, receives the errors at `ERROR_WIDTHS` (infinite if S is) and ``|x|``, all 0 for a
            constant row, and ``max - min``; in the unit of the rows.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf, or its range overflows. On CUDA this and invalid row indices are raised
            by :func:`gnnqlab.kernels.codec.rows.raise_refused`.
        ValueError: if shapes do not match, or a row index is invalid.

    Example:
        >>> noted = torch.zeros(2, 5)
        >>> row_errors(torch.tensor([[0.0, 0.5, 1.0, 0.0], [3.0, 3.0, 3.0, 3.0]]), torch.arange(2), noted)
        >>> noted[:, [0, 4]].tolist()
        [[0.5, 1.0], [0.0, 0.0]]
    """
    if noted.shape != (rows.numel(), NOTED) or x.dim() != 2 or x.dtype != torch.float32:
        raise ValueError(
            f"x must be float32 (N, D) and noted ({rows.numel()}, {NOTED}), got {tuple(x.shape)} of {x.dtype} and "
            f"{tuple(noted.shape)}"
        )
    if rows.numel() == 0 or x.shape[1] == 0:
        noted.zero_()
        return
    is_contiguous = (x.stride(1) == 1 or x.shape[1] == 1) and rows.is_contiguous() and noted.is_contiguous()
    if is_contiguous and native.active(x.device):
        refusal = run_noting(_row_errors, x, x.shape[0], x.stride(0), x.shape[1], rows, rows.numel(), noted)
        if refusal % 8 == NON_FINITE:
            raise NonFiniteRow(refusal // 8)
        if not refusal:
            return
    # Also after a refusal by the kernel: an invalid row index is the only other reason.
    if not (0 <= int(rows.min()) and int(rows.max()) < x.shape[0]):
        raise ValueError(f"rows must be in [0, {x.shape[0]}), got {int(rows.min())} to {int(rows.max())}")
    errors, bad_n = reference.row_errors(x[rows])  # (n, D) -> (n, 5), (n,)
    noted.copy_(errors)
    raise_or_note(bad_n)
