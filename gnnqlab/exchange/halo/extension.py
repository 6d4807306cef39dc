"""Owned rows followed by halo rows, for operations that are not weighted sums over neighbours.

Letters: N owned rows, H halo rows, K sampled halo rows, D columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.exchange.halo.boundary import LayerPlan

__all__ = ["Extend"]


class Extend(torch.autograd.Function):
    """Compute ``[x; halo(x)]``; with a sampler, sampled halo rows are divided by p and the others are zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: LayerPlan) -> Tensor:
        ctx.layer = layer
        boundary, context, sample = layer.boundary, layer.context, layer.sample
        out = x.new_empty(boundary.num_owned + boundary.num_halo, x.shape[1])  # (N + H, D)
        # Without a sampler, halo rows are received directly into the output.
        halo = out[boundary.num_owned :]
        received_rows = halo if sample is None else x.new_empty(boundary.sampling.num_rows(sample), x.shape[1])
        channel, plan = boundary.channel(context, "forward"), layer.plan("forward", sample)
        pending_rows = channel.post(x, received_rows, epoch=context.epoch, plan=plan, sampled_in=sample)
        out[: boundary.num_owned] = x  # copied while halo rows are in flight
        pending_rows.decode()
        if sample is not None:  # (K, D) -> (H, D)
            halo.zero_().index_copy_(0, boundary.sampling.rows(sample), received_rows.mul_(boundary.sampling.factor))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        layer: LayerPlan = ctx.layer
        boundary, context, sample = layer.boundary, layer.context, layer.sample
        gradient = gradients[0]
        out = gradient[: boundary.num_owned].clone()  # (N, D); received gradients are added to it
        halo = gradient[boundary.num_owned :].contiguous()
        if sample is not None:
            halo = halo[boundary.sampling.rows(sample)].mul_(boundary.sampling.factor)  # (H, D) -> (K, D), times 1/p
        channel, plan = boundary.channel(context, "backward"), layer.plan("backward", sample)
        pending_rows = channel.post(halo, out, epoch=context.epoch, plan=plan, sampled_in=sample, still=True)
        return pending_rows.decode(), None
