"""Selection of changed rows in plain PyTorch."""

from __future__ import annotations

from torch import Tensor

__all__ = ["row_moves"]


def row_moves(x: Tensor, rows: Tensor, held: Tensor, epsilon: float) -> Tensor:
    """Return the positions where ``max|x - held| > epsilon max|x|``; see
    :func:`gnnqlab.kernels.rowwise.row_change.row_moves`."""
    current_rows = x.index_select(0, rows)  # (N, D) -> (n, D)
    if not current_rows.numel():
        return rows.new_empty(0)
    change, size = (current_rows - held).abs().amax(1), current_rows.abs().amax(1)  # (n, D) -> 2 x (n,)
    # Negated, so that rows with NaN are selected (comparisons are False); the sum catches Inf (inf <= inf is True).
    return (~((change <= epsilon * size) & current_rows.sum(1).isfinite())).nonzero().flatten()
