"""What SYLVIE says of errors in a sum over neighbours, measured: one of ``MEASUREMENTS``."""

from __future__ import annotations

import torch

from gnnqlab.measure.errata_measured import MEASUREMENTS, Effect, measures
from gnnqlab.message.codec import Noise, Stochastic

__all__ = ["MEASUREMENTS", "mean_error_of_a_sum"]

_OFTEN = 200
"""Messages over which the mean of an error is taken."""


@measures("SY-7")
def mean_error_of_a_sum() -> Effect:
    """Sum errors of d neighbours' rows in 1 bit with weights 1/d, over and over; hold the sums' mean against zero."""
    figures: dict[str, float] = {}
    for degree in (4, 64):
        rows_KD = torch.randn(degree, 32, generator=torch.Generator().manual_seed(degree))
        numbers_K = torch.arange(degree)
        codec = Stochastic(parameters="float32")
        layout = codec.layout(1, degree, 32)
        segment, out_KD = torch.empty(layout.num_bytes, dtype=torch.uint8), torch.empty_like(rows_KD)
        sums = []
        for epoch in range(_OFTEN):
            codec.encode(rows_KD, numbers_K, numbers_K, layout, segment, Noise(0, epoch, 0))
            codec.decode(segment, layout, out_KD, numbers_K, accumulate=False)
            sums.append((out_KD.double() - rows_KD.double()).mean(0))
        sums_ED = torch.stack(sums)
        figures[f"size_{degree}"] = float(sums_ED.square().mean().sqrt())
        figures[f"mean_{degree}"] = float(sums_ED.mean(0).norm() / (sums_ED.var(0).sum() / _OFTEN).sqrt())
    return Effect(
        f"of 4 and of 64 neighbours in 1 bit the sum's mean error is {figures['mean_4']:.2f} and "
        f"{figures['mean_64']:.2f} of its standard error (chance gives 1); its size falls from "
        f"{figures['size_4']:.2f} to {figures['size_64']:.2f}",
        figures,
    )
