"""Expected errors of min-max codes at 1, 2 and 4 bits in plain PyTorch; m rows, D columns.

float32, every operation rounded separately, summed in 16 lanes as in :mod:`gnnqlab.kernels.reference.rotate`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.reference.codec import SMALLEST_RANGE, row_parameters
from gnnqlab.kernels.reference.rotate import lane_sums

__all__ = ["ERROR_WIDTHS", "row_errors"]

ERROR_WIDTHS = (1, 2, 4)


def row_errors(x_mD: Tensor) -> tuple[Tensor, Tensor]:
    """Return the error statistics of rows, float32 ``(m, 5)``, and a mask of invalid rows, bool ``(m,)``.

    See :func:`gnnqlab.kernels.codec.row_errors.row_errors`.
    """
    least_m, most_m = x_mD.amin(dim=1) + 0.0, x_mD.amax(dim=1) + 0.0  # -0 becomes +0
    range_m = most_m - least_m
    constant_m, statistics = range_m < SMALLEST_RANGE, []
    for bits in ERROR_WIDTHS:
        zero_m1, scale_m1, _, bad_m = row_parameters(x_mD, bits, torch.bfloat16)
        steps_mD = (x_mD - zero_m1) * (1.0 / scale_m1)
        fraction_mD = steps_mD - steps_mD.floor()  # f in [0, 1)
        variance_m = lane_sums(fraction_mD * (1.0 - fraction_mD))  # in squared steps
        error_m = scale_m1[:, 0] * variance_m.double().sqrt().float()
        # A scale of 0 or Inf gives NaN above, so the error of such a row is set.
        statistics.append(torch.where(constant_m, 0.0, torch.where(bad_m, torch.inf, error_m)))
    norm_m = lane_sums(x_mD.double().square()).sqrt().float()
    statistics += [torch.where(constant_m, 0.0, norm_m), range_m]
    return torch.stack(statistics, dim=1), ~torch.isfinite(range_m)
