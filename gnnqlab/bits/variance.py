"""The variance of a decoded row as its codec has it, from what encoding notes of the row.

Letters: n rows, K numbers that are noted of a row, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnnqlab.bits.row import EXACT

__all__ = ["SPREADS", "RowVariance", "Weighed", "min_max", "min_max_share"]

SPREADS = ("range", "norm", "rest", "of 1 bit", "of 2 bits", "of 4 bits")
"""What may be noted of a row: ``max - min``; ``|x|``, or 0 of a constant row that its codec leaves exact; ``max - min``
of the row without its spikes; and the root of the variance itself at a width, where a codec knows it of every row. All
are in the unit of the row."""


@dataclass(frozen=True)
class RowVariance:
    """``E|x - decode(encode(x))|^2 = unit · Σ_j share_j(b) · s_j^2`` of a row with the spreads s.

    ``β = c · unit · s_0^2`` is what a row is sorted by; c is how much its receiver makes of its variance.

    Example:
        >>> float(min_max(12).of(torch.tensor([2.0]), 2))
        0.8888888888888888
    """

    unit: float
    """Units of s_0^2 in β."""
    shares: Mapping[int, tuple[float, ...]]
    """Width -> the share of each spread."""
    spreads: tuple[str, ...] = ("range",)
    """Which of `SPREADS` encoding notes of a row, in order."""

    def __post_init__(self) -> None:
        if not self.spreads or not set(self.spreads) <= set(SPREADS):
            raise ValueError(f"a row's variance must follow from some of {SPREADS}, got {self.spreads}")
        for width, shares in self.shares.items():
            if len(shares) != len(self.spreads) or not all(share >= 0 for share in shares):
                raise ValueError(
                    f"shares must be one for each of {self.spreads} and not negative, got {shares} at {width} bits"
                )

    def betas(self, use: Tensor, spreads: Tensor) -> Tensor:
        """Return ``c · unit · s_j^2`` of each row; the first line is β.

        Args:
            use: c, ``(n,)``.
            spreads: as encoding noted them, ``(n,)`` of one number a row or ``(n, K)``.

        Returns:
            float64 ``(K, n)``, squared units of the rows.

        Raises:
            ValueError: if the shapes differ, or a value is negative or not finite.
        """
        count = len(self.spreads)
        known = [(len(use), count), (len(use),)] if count == 1 else [(len(use), count)]
        if use.dim() != 1 or tuple(spreads.shape) not in known:
            raise ValueError(
                f"each row needs a use and {' and '.join(self.spreads)}, got shapes {tuple(use.shape)} "
                f"and {tuple(spreads.shape)}"
            )
        spreads_Kn = spreads.reshape(len(use), count).T
        values = use.double() * spreads_Kn.double() ** 2 * self.unit
        if not bool((torch.isfinite(values) & (use >= 0) & (spreads_Kn >= 0)).all()):
            raise ValueError(
                f"β must be finite and not negative; a use or {' or '.join(self.spreads)} is NaN, infinite or negative"
            )
        return values

    def of(self, spreads: Tensor, bits: int | Tensor) -> Tensor:
        """Return the variance of each row in so many bits, float64 ``(n,)``; widths are one, or one a row."""
        return self.at(self.betas(torch.ones(len(spreads)), spreads), bits)

    def at(self, betas_Kn: Tensor, bits: int | Tensor) -> Tensor:
        """Return ``Σ_j β_j share_j(b)`` of each row, float64 ``(n,)``."""
        widths = torch.as_tensor(bits).expand(betas_Kn.shape[1])
        shares_Kn = torch.zeros_like(betas_Kn)
        for width in widths.unique().tolist():
            of_width = torch.tensor(self.shares[width], dtype=torch.float64)[:, None]
            shares_Kn = torch.where(widths == width, of_width, shares_Kn)
        return (betas_Kn * shares_Kn).sum(0)

    def relative(self, width: int, totals: Sequence[float] | NDArray[np.float64]) -> float:
        """Return the variance of rows at a width over the sum of their β.

        Args:
            totals: sum of each line of `betas` over the rows. Where one number is noted of a row they do not matter;
                otherwise this is right for the rows together, and for each alone as far as its spreads are alike.
        """
        first, *others = self.shares[width]
        if not totals[0] > 0:
            return first
        return first + sum(share * total / totals[0] for share, total in zip(others, totals[1:], strict=True))


class Weighed(Protocol):
    """A codec whose rows an assigner can weigh."""

    def param_bytes(self, bits: int, columns: int) -> int:
        """Return the bytes of parameters that a row of a width, with D columns, has on the wire."""

    def row_variance(self, columns: int) -> RowVariance:
        """Return the variance of rows of D columns at every width that the codec writes."""


def min_max(columns: int) -> RowVariance:
    """Return ``D · range^2 / 6 / (2^b - 1)^2``, that of codes between a row's ends (AdaQP Theorem 1, Eq. 9).

    Rounding at random errs by ``S^2 σ (1 - σ)`` in an element with the fraction σ of a step ``S = range / (2^b - 1)``,
    a sixth of S^2 on average.
    """
    return RowVariance(columns / 6, {width: (min_max_share(width),) for width in (1, 2, 4, 8, 16, 32)})


def min_max_share(width: int) -> float:
    """Return ``1 / (2^b - 1)^2``, which β is multiplied by; 0 of exact rows."""
    return 0.0 if width == EXACT else 1.0 / (2**width - 1) ** 2
