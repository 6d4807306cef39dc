"""Encode rows by a codec and decode them, without workers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.layout import Layout


def send(
    codec: Codec,
    x: Tensor,
    widths: int | Tensor,
    *,
    epoch: int = 1,
    ids: Tensor | None = None,
    out: Tensor | None = None,
    accumulate: bool = False,
) -> tuple[Tensor, Tensor, Layout]:
    """Encode rows in reverse over bytes that are not zero, and decode them; return the decoded rows, the facts
    recorded of each, and the layout."""
    count = x.shape[0]
    layout = codec.layout(widths, count, x.shape[1])
    order = layout.to_wire_order(torch.arange(count).flip(0))
    ids, noise = torch.arange(count) if ids is None else ids, Noise(5, epoch, 2)
    segment = torch.full((layout.num_bytes,), 7, dtype=torch.uint8)
    noted = codec.encode(x, order, ids[order], layout, segment, noise)
    out = torch.full(x.shape, math.nan) if out is None else out
    codec.decode(segment, layout, out, order, accumulate=accumulate, ids=ids[order], noise=noise)
    noted = torch.zeros(count) if noted is None else noted  # a codec without a variance records nothing
    return out, torch.empty_like(noted).index_copy_(0, order, noted), layout


def of_one_row(codec: Codec, row: Tensor, width: int, draws: int) -> Tensor:
    """One row decoded with independent noise, float64 ``(draws, D)``."""
    return send(codec, row.expand(draws, -1).contiguous(), width)[0].double()


def off_by_errors(draws: Tensor, row: Tensor) -> float:
    """Largest deviation of a mean of draws from the row, in its own standard errors.

    Where draws do not differ, deviations of a few float32 roundings count as none.
    """
    errors = draws.std(0) / math.sqrt(len(draws)) + 2.0**-21 * row.abs().max()
    return float(((draws.mean(0) - row).abs() / errors).max())
