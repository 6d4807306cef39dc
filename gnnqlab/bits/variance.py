"""Variance of a decoded row by its codec's formula, from statistics recorded while encoding.

Letters: n rows, K statistics per row, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from gnnqlab.bits.row import EXACT
from gnnqlab.former_names import FormerMember

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SPREADS", "RowVariance", "Weighed", "min_max", "min_max_share"]

SPREADS = ("range", "norm", "rest", "of 1 bit", "of 2 bits", "of 4 bits")
"""Statistics of a row: ``max - min``; ``|x|``, or 0 for a constant row that its codec does not round; ``max - min`` of
the row without its outliers; and the root of the variance at a bit-width, from a codec that computes it per row. All
are in the unit of the row."""


@dataclass(frozen=True)
class RowVariance:
    """Variance formula of a codec: ``E|x - decode(encode(x))|^2 = unit · Σ_j share_j(b) · s_j^2`` for spreads s.

    Rows are sorted by ``β = c · unit · s_0^2``; c is the factor of a row's variance in the sums of its receiver.

    Example:
        >>> float(min_max(12).evaluate(torch.tensor([2.0]), 2))
        0.8888888888888888
    """

    unit: float
    """Factor of s_0^2 in β."""
    shares: Mapping[int, tuple[float, ...]]
    """Bit-width -> share of each spread."""
    spreads: tuple[str, ...] = ("range",)
    """Names from `SPREADS` that encoding records per row, in order."""

    def __post_init__(self) -> None:
        if not self.spreads or not set(self.spreads) <= set(SPREADS):
            raise ValueError(f"a row's variance must follow from some of {SPREADS}, got {self.spreads}")
        for width, shares in self.shares.items():
            if len(shares) != len(self.spreads) or not all(share >= 0 for share in shares):
                raise ValueError(
                    f"shares must be one for each of {self.spreads} and not negative, got {shares} at {width} bits"
                )

    def betas(self, use: Tensor, spreads: Tensor) -> Tensor:
        """Return ``c · unit · s_j^2`` of each row; the first row of the result is β.

        Args:
            use: c, ``(n,)``.
            spreads: as recorded while encoding, ``(n, K)``; ``(n,)`` if K is 1.

        Returns:
            float64 ``(K, n)``, squared units of the rows.

        Raises:
            ValueError: if the shapes differ, or a value is negative or not finite.
        """
        count = len(self.spreads)
        # A codec with one statistic may record it without a second dimension.
        known_shapes = [(len(use), count), (len(use),)] if count == 1 else [(len(use), count)]
        if use.dim() != 1 or tuple(spreads.shape) not in known_shapes:
            raise ValueError(
                f"each row needs a use and {' and '.join(self.spreads)}, got shapes {tuple(use.shape)} "
                f"and {tuple(spreads.shape)}"
            )
        spreads_Kn = spreads.reshape(len(use), count).T  # (n,) or (n, K) -> (K, n)
        values = use.double() * spreads_Kn.double() ** 2 * self.unit  # (K, n)
        # One reduction for all three checks, so that a GPU synchronizes once.
        if not bool((torch.isfinite(values) & (use >= 0) & (spreads_Kn >= 0)).all()):
            raise ValueError(
                f"β must be finite and not negative; a use or {' or '.join(self.spreads)} is NaN, infinite or negative"
            )
        return values

    def evaluate(self, spreads: Tensor, bits: int | Tensor) -> Tensor:
        """Return the variance of each row, float64 ``(n,)``, at one bit-width or one per row."""
        return self.evaluate_betas(self.betas(torch.ones(len(spreads)), spreads), bits)

    of = FormerMember("evaluate")
    at = FormerMember("evaluate_betas")

    def evaluate_betas(self, betas_Kn: Tensor, bits: int | Tensor) -> Tensor:
        """Return ``Σ_j β_j share_j(b)`` of each row, float64 ``(n,)``."""
        widths = torch.as_tensor(bits).expand(betas_Kn.shape[1])  # () or (n,) -> (n,)
        shares_Kn = torch.zeros_like(betas_Kn)
        for width in widths.unique().tolist():
            of_width = torch.tensor(self.shares[width], dtype=torch.float64)[:, None]
            shares_Kn = torch.where(widths == width, of_width, shares_Kn)  # (K, 1) to the rows of this bit-width
        return (betas_Kn * shares_Kn).sum(0)  # (K, n) -> (n,)

    def relative(self, width: int, totals: Sequence[float] | NDArray[np.float64]) -> float:
        """Return the variance of rows at a bit-width over the sum of their β.

        Args:
            totals: sum of each row of `betas` over the rows of the message, ``(K,)``. With K = 1 they do not matter.
                Otherwise the result is exact for all rows together, and for one row if its spreads have the same ratio.
        """
        first_share, *shares = self.shares[width]
        if not totals[0] > 0:  # β is 0 in every row, so V is 0 with any factor
            return first_share
        return first_share + sum(share * total / totals[0] for share, total in zip(shares, totals[1:], strict=True))


class Weighed(Protocol):
    """Codec with a variance formula, as the assigner needs it."""

    def param_bytes(self, bits: int, columns: int) -> int:
        """Return the bytes of quantization parameters of a row with D columns at a bit-width."""

    def row_variance(self, columns: int) -> RowVariance:
        """Return the variance formula of rows with D columns, for every bit-width of the codec."""


def min_max(columns: int) -> RowVariance:
    """Return ``D · range^2 / 6 / (2^b - 1)^2``, for codes between a row's minimum and maximum (AdaQP Theorem 1, Eq. 9).

    Stochastic rounding has variance ``S^2 σ (1 - σ)`` for an element at the fraction σ of a step
    ``S = range / (2^b - 1)``: a sixth of S^2 on average over uniform σ.
    """
    return RowVariance(columns / 6, {width: (min_max_share(width),) for width in (1, 2, 4, 8, 16, 32)})


def min_max_share(width: int) -> float:
    """Return ``1 / (2^b - 1)^2``, the factor of β; 0 for float32 rows."""
    return 0.0 if width == EXACT else 1.0 / (2**width - 1) ** 2
