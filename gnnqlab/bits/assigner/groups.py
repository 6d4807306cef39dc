"""Cost β of a row's rounding for the gradient, and groups of rows with similar β and one bit-width (AdaQP Eq. 11).

Rounding row k of a message to b bits adds at most ``β_k / (2^b - 1)^2`` to the bound of Theorem 3, with
``β_k = c_k · D · (max - min)^2 / 6`` for codes between a row's minimum and maximum (other codecs have another variance,
see :mod:`gnnqlab.bits.variance`). c_k is the sum of the squared coefficients with which the receiver uses the row:

* **forward**, the row h_k enters ``y_v = Σ_k α(k, v) h_k`` for every owned v next to k: ``c_k = Σ_v α(k, v)^2``;
* **backward**, a message carries the partial sums ``g_k = Σ_v α(k, v) dy_v`` over one worker's v, and the owner of k
  *adds* them to the gradient of k: ``c_k = 1``.

The paper sends ``dy_v`` itself backward and the receiver multiplies by the reverse α, so a sum of squares appears there
again. Here α is multiplied in before encoding, so the traced range already includes it: for a row with one neighbour
``1 · range(α dy)^2 = α^2 · range(dy)^2``, the paper's value. Another α^2 would count it twice.

Letters: n rows of one message, H halo rows, D columns, G groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.bits.variance import min_max
from gnnqlab.partition.shard import Shard

__all__ = ["Groups", "beta", "group", "use_of_halo"]


def use_of_halo(shard: Shard, alpha: Tensor, direction: str = "forward", *, as_released: bool = False) -> Tensor:
    """Return c_k of every halo row: the factor of its variance in the sums of the worker that receives the row.

    ``forward``: ``Σ_v α(k, v)^2`` over the owned neighbours v of halo node k; this worker receives the row, and its
    owner needs the sums. ``backward``: 1 each; this worker sends the gradients of its halo rows to their owners.

    Args:
        shard: the worker's share.
        alpha: α(u, v) of every local edge, ``(E,)`` in the order of ``shard.indices``; see :meth:`Shard.alpha`.
        direction: ``forward`` or ``backward``.
        as_released: weight forward rows with ``(Σ_v α)^2``, as the published code does, in place of ``Σ_v α^2``.

    Returns:
        float64 ``(H,)``, in halo order.

    Raises:
        ValueError: if ``alpha`` does not have one value per edge, or the direction is unknown.
    """
    if alpha.shape != shard.indices.shape:
        raise ValueError(f"alpha must have one value for each of {shard.num_edges} edges, got {tuple(alpha.shape)}")
    if direction not in ("forward", "backward"):
        raise ValueError(f"direction must be 'forward' or 'backward', got {direction!r}")
    if direction == "backward":
        return torch.ones(shard.num_halo, dtype=torch.float64, device=alpha.device)
    column = shard.indices.to(alpha.device)
    is_remote = column >= shard.num_owned  # local ids: owned nodes first, then the halo
    halo = column[is_remote].long() - shard.num_owned
    coefficient = alpha[is_remote].double()  # (E,) -> edges from halo nodes
    sums = torch.zeros(shard.num_halo, dtype=torch.float64, device=alpha.device)
    if as_released:
        return sums.index_add_(0, halo, coefficient).square_()
    return sums.index_add_(0, halo, coefficient.square())


def beta(use: Tensor, ranges: Tensor, columns: int) -> Tensor:
    """Return ``β_k = c_k · D · (max - min)^2 / 6`` of each row (AdaQP Eq. 11).

    Args:
        use: c_k, ``(n,)``, as :func:`use_of_halo` returns it.
        ranges: ``max - min`` of each row as encoding traced it, ``(n,)``, in the same order.
        columns: D.

    Returns:
        float64 ``(n,)``, squared units of the rows.

    Raises:
        ValueError: if the shapes differ, or a value is negative or not finite.

    Example:
        >>> beta(torch.tensor([0.5, 1.0]), torch.tensor([2.0, 0.0]), 12).tolist()
        [4.0, 0.0]
    """
    return min_max(columns).betas(use, ranges)[0]


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of one message in groups of falling β."""

    order: Tensor
    """Row indices by falling β, int64 ``(n,)``; rows of equal β keep their order."""
    rows: Tensor
    """Rows in each group, int64 ``(G,)``: the group size, and the remainder in the last."""
    beta: Tensor
    """Sum of β over each group, float64 ``(G,)``."""

    def widths(self, of_groups: Tensor) -> Tensor:
        """Expand bit-widths of groups to rows, ``(G,)`` to uint8 ``(n,)``, in the original order of the rows.

        Example:
            >>> group(torch.tensor([1.0, 9.0, 4.0]), 2).widths(torch.tensor([8, 2])).tolist()
            [2, 8, 8]
        """
        if of_groups.shape != self.rows.shape:
            raise ValueError(
                f"of_groups must have one bit-width for each of {self.rows.numel()} groups, got shape "
                f"{tuple(of_groups.shape)}"
            )
        widths = torch.empty(self.order.numel(), dtype=torch.uint8, device=self.order.device)
        widths[self.order] = torch.repeat_interleave(of_groups.to(widths), self.rows)  # undo the sorting
        return widths


def group(beta_n: Tensor, size: int) -> Groups:
    """Sort the rows of one message by β and split them into groups (AdaQP section 4.2).

    Differs: the last group counts with its true size; the released code counts it as a full one.

    Args:
        beta_n: β of each row, ``(n,)``; n may be 0.
        size: rows per group.

    Raises:
        ValueError: if ``size`` is less than 1.

    Example:
        >>> groups = group(torch.tensor([1.0, 9.0, 4.0]), 2)
        >>> groups.order.tolist(), groups.rows.tolist(), groups.beta.tolist()
        ([1, 2, 0], [2, 1], [13.0, 1.0])
    """
    if size < 1:
        raise ValueError(f"group size must be at least 1 row, got {size}")
    values, order = beta_n.double().sort(descending=True, stable=True)  # stable: reproducible for equal β
    number = -(-order.numel() // size)  # rounded up
    rows = torch.full((number,), size, dtype=torch.int64, device=beta_n.device)
    if number:
        rows[-1] = order.numel() - (number - 1) * size
    index = torch.arange(order.numel(), device=beta_n.device) // size  # (n,), group of each sorted row
    return Groups(order, rows, values.new_zeros(number).index_add_(0, index, values))  # (n,) -> (G,)
