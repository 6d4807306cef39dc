"""What SYLVIE says of errors in a sum over neighbours, measured: one of ``MEASUREMENTS``."""

from __future__ import annotations

import torch

from gnnqlab.course.experiments.errata_measured import (
    MEASUREMENTS,
    Effect,
    decoded_errors,
    in_standard_errors,
    measures,
)

__all__ = ["MEASUREMENTS", "mean_error_of_a_sum"]


@measures("SY-7")
def mean_error_of_a_sum() -> Effect:
    """Sum errors of d neighbours' rows in 1 bit with weights 1/d, over and over; hold the sums' mean against zero."""
    figures: dict[str, float] = {}
    for degree in (4, 64):
        rows_KD = torch.randn(degree, 32, generator=torch.Generator().manual_seed(degree))
        sums_ED = decoded_errors(rows_KD, 1, "float32").mean(1)
        figures[f"size_{degree}"] = float(sums_ED.square().mean().sqrt())
        figures[f"mean_{degree}"] = in_standard_errors(sums_ED)
    return Effect(
        f"of 4 and of 64 neighbours in 1 bit the sum's mean error is {figures['mean_4']:.2f} and "
        f"{figures['mean_64']:.2f} of its standard error (chance gives 1); its size falls from "
        f"{figures['size_4']:.2f} to {figures['size_64']:.2f}",
        figures,
    )
