"""Selection of the rows that changed enough to be sent again, with their differences, in one pass.

Shapes: n rows of a call, N source rows, D columns: ``x (N, D)``, ``rows (n,)``, ``held (n, D)``.
`gnnqlab.kernels.reference.row_change` defines the arithmetic; the compiled kernel selects identical rows.

On CUDA a kernel marks the rows and PyTorch lists them: the host needs their number in any case.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import run_noting
from gnnqlab.kernels.reference import row_change as reference
from gnnqlab.kernels.sparse.adjacency import describe

__all__ = ["row_changes", "row_moves"]

# x, N, stride; held, D; rows, n; epsilon; marks, or positions and changes; threads.
_moved_rows = native.declare("moved_rows", "p i i p i p i f p i")
_row_moves = native.declare("row_moves", "p i i p i p i f p p i")


def row_moves(x: Tensor, rows: Tensor, held: Tensor, epsilon: float) -> Tensor:
    """Return the positions i, ascending, where ``max|x[rows[i]] - held[i]| > epsilon max|x[rows[i]]|``.

    The test of CDFGNN's Algorithm 2. Rows with NaN or Inf are always selected, so that encoding them raises an error.

    Args:
        x: float32 ``(N, D)``; a row's stride may exceed D.
        rows: indices of the rows, int64 ``(n,)``.
        held: rows to compare with, as last sent, float32 ``(n, D)``.
        epsilon: relative threshold, not negative.

    Returns:
        int64 ``(k,)`` for k changed rows.

    Raises:
        ValueError: if shapes or types do not match, or a row index is invalid; on CUDA ``raise_refused`` raises the
            latter.

    Example:
        >>> held = torch.tensor([[1.0, -4.0], [1.0, -4.0]])
        >>> row_moves(torch.tensor([[1.5, -4.0], [1.0, -4.1]]), torch.arange(2), held, 0.05)
        tensor([0])
    """
    return _found(x, rows, held, epsilon, None)


def row_changes(
    x: Tensor, rows: Tensor, held: Tensor, epsilon: float, room: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the positions of :func:`row_moves` and the changes of these rows, ``x[rows[i]] - held[i]``, in one pass.

    Args:
        x, rows, held, epsilon: as for :func:`row_moves`.
        room: buffer for the differences, float32, at least ``n * D`` elements; allocated by default.

    Returns:
        int64 ``(k,)`` and float32 ``(k, D)``.

    Example:
        >>> held = torch.tensor([[1.0, -4.0], [1.0, -4.0]])
        >>> row_changes(torch.tensor([[1.5, -4.0], [1.0, -4.1]]), torch.arange(2), held, 0.05)
        (tensor([0]), tensor([[0.5000, 0.0000]]))
    """
    # (n, D), although only k rows will be written: k is not known before.
    changes = x.new_empty(held.shape) if room is None else room.view(-1)[: held.numel()].view(held.shape)
    places = _found(x, rows, held, epsilon, changes)
    return places, changes[: places.numel()]


def _found(x: Tensor, rows: Tensor, copies: Tensor, epsilon: float, changes: Tensor | None) -> Tensor:
    """Return the positions, and write the differences to the first rows of ``changes`` ``(n, D)``."""
    fits = x.dim() == 2 and rows.dim() == 1 and copies.shape == (rows.numel(), x.shape[1])
    if not fits or x.dtype != torch.float32 or copies.dtype != torch.float32 or rows.dtype != torch.int64:
        raise ValueError(
            "x and held must be float32 (N, D) and (n, D), rows int64 (n,), got "
            f"{describe(x)}, {describe(copies)} and {describe(rows)}"
        )
    has_plain_rows = (x.stride(1) == 1 and copies.is_contiguous()) or x.shape[1] <= 1
    rows = rows.contiguous()
    if rows.numel() and x.shape[1] and has_plain_rows and x.is_cpu and native.active(x.device):
        out = torch.empty(rows.numel(), dtype=torch.int64)
        count = _row_moves(
            x, x.shape[0], x.stride(0), copies, x.shape[1], rows, rows.numel(), epsilon, out, changes, native.threads()
        )
        if count < 0:
            # A negative count is -1 - position of the invalid index.
            raise ValueError(f"rows must lie in [0, {x.shape[0]}), got one outside at position {-1 - count}")
        # Few positions are copied, so that a short result does not keep the whole buffer alive.
        return out[:count].clone() if count < rows.numel() // 2 else out[:count]
    if rows.numel() and x.shape[1] and has_plain_rows and native.active(x.device):
        # (n,) marks -> (k,) positions, ascending; synchronizes, since the host needs k.
        places = _marked(x, rows, copies, epsilon).nonzero().flatten()
    else:
        places = reference.row_moves(x, rows, copies, epsilon)
    if changes is not None:
        # (k, D) - (k, D)
        torch.sub(x.index_select(0, rows[places]), copies.index_select(0, places), out=changes[: places.numel()])
    return places


def _marked(x: Tensor, rows: Tensor, copies: Tensor, epsilon: float) -> Tensor:
    """Mark changed rows by 1 with the CUDA kernel, uint8 ``(n,)``."""
    marks = torch.empty(rows.numel(), dtype=torch.uint8, device=x.device)
    run_noting(_moved_rows, x, x.shape[0], x.stride(0), copies, x.shape[1], rows, rows.numel(), epsilon, marks)
    return marks
