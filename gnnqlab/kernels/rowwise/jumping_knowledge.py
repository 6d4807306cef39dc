"""Jumping knowledge: join all layers with dropout, in one pass forward and one backward (Xu et al., 2018).

Concatenation reads every row of every layer once and writes it to its columns of the join, with the mask; the backward
pass applies the mask to the gradient, and the layers' gradients are views of its columns. The maximum saves one byte
per element, the index of its layer, so the layers themselves need not be saved; the backward pass reads the gradient
and these bytes, and writes a gradient for each layer. The mask is generated again instead of being saved.

`gnnqlab.kernels.reference.jumping_knowledge` is the definition. It runs for rows that are not float32, for more than
`MAX_LAYERS` layers, without compiled kernels, and inside `gnnqlab.kernels.rowwise.nodewise.apart` (as separate steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.kernels import native, noise
from gnnqlab.kernels.reference import jumping_knowledge as reference
from gnnqlab.kernels.rowwise import nodewise
from gnnqlab.kernels.rowwise.nodewise import Mask

__all__ = ["JOINS", "MAX_LAYERS", "join"]

JOINS = ("cat", "max")
MAX_LAYERS = 32
"""Largest number of layers that compiled kernels join."""

_MAX_BY_BYTE = 256  # layers that the saved byte can number
# Addresses and strides of layers, T, N, D; ids, are int32, threshold, seed, epoch, stream; out (and layer); threads.
_columns = native.declare("join_columns", "p p i i i p i i i i i p i")
_largest = native.declare("join_largest", "p p i i i p i i i i i p p i")
_largest_backward = native.declare("join_largest_backward", "p i p i i i p i i i i i p i")


def join(layers: Sequence[Tensor], how: str, *, mask: Mask | None = None) -> Tensor:
    """Compute ``drop(join(layers))``; differentiable.

    Args:
        layers: T matrices ``(N, D)`` of one float type.
        how: ``cat``: concatenation, ``(N, T D)``; ``max``: elementwise maximum, ``(N, D)``, whose gradient goes to the
            first layer that attains it.
        mask: dropout mask of the join, as in :func:`gnnqlab.kernels.noise.dropout`; ``None``: no dropout.

    Raises:
        ValueError: if there is no layer, shapes or types differ, the name is unknown, or the mask is invalid.

    Example:
        >>> layers = [torch.tensor([[1.0, 4.0]]), torch.tensor([[3.0, 2.0]])]
        >>> join(layers, "cat").tolist(), join(layers, "max").tolist()
        ([[1.0, 4.0, 3.0, 2.0]], [[3.0, 4.0]])
    """
    layers = list(layers)
    threshold = _check(layers, how, mask)
    if torch.compiler.is_compiling() or nodewise.is_fusion_disabled() or len(layers) > _MAX_BY_BYTE:
        return _step_by_step(layers, how, mask)
    # Without a mask no ids are read or saved.
    ids = torch.empty(0, dtype=torch.int64, device=layers[0].device) if threshold == 0 or mask is None else mask.ids
    place = (0, 0, 0) if mask is None else (mask.seed, mask.epoch, mask.stream)
    kind: Any = _SideBySide if how == "cat" else _Largest
    joined_rows: Tensor = kind.apply(noise._as_ids(ids), (threshold, *place), *layers)
    return joined_rows


def _check(layers: list[Tensor], how: str, mask: Mask | None) -> int:
    if how not in JOINS:
        raise ValueError(f"how must be one of {JOINS}, got {how!r}")
    if not layers or layers[0].dim() != 2 or not layers[0].is_floating_point():
        raise ValueError(f"a join needs at least one matrix (N, D), got {[tuple(x.shape) for x in layers]}")
    if len({(x.shape, x.dtype) for x in layers}) > 1:
        shapes = ", ".join(f"{tuple(x.shape)} {x.dtype}" for x in layers)
        raise ValueError(f"a join needs layers of one shape and type, got {shapes}")
    if mask is None:
        return 0
    if mask.ids.shape != layers[0].shape[:1]:
        raise ValueError(f"a mask needs one id per row, got {tuple(mask.ids.shape)} for {layers[0].shape[0]} rows")
    noise.check_counter(mask.seed, mask.epoch, mask.stream)
    return noise._threshold(mask.p)


def _step_by_step(layers: list[Tensor], how: str, mask: Mask | None) -> Tensor:
    joined_rows = torch.cat(layers, 1) if how == "cat" else torch.stack(layers).amax(0)
    if mask is None:
        return joined_rows
    return noise.dropout(joined_rows, mask.ids, p=mask.p, seed=mask.seed, epoch=mask.epoch, stream=mask.stream)


def _fuses(x: Tensor, num_layers: int) -> bool:
    return x.dtype == torch.float32 and num_layers <= MAX_LAYERS and native.active(x.device)


def _addresses(tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return addresses and row strides of matrices as host tensors, for the C interface."""
    # The caller holds the tensors until the kernel is launched: an address alone does not keep memory alive.
    return torch.tensor([x.data_ptr() for x in tensors]), torch.tensor([x.stride(0) for x in tensors])


class _SideBySide(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, place: tuple[int, ...], *layers: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.place, ctx.num_layers = place, len(layers)
        if not _fuses(layers[0], len(layers)):
            joined_rows = torch.cat(layers, 1)
            return noise._drop(joined_rows, ids, *place) if place[0] else joined_rows
        layers = tuple(map(nodewise._by_rows, layers))
        rows, columns = layers[0].shape
        out = layers[0].new_empty(rows, len(layers) * columns)  # T x (N, D) -> (N, T D)
        if out.numel():
            starts, strides = _addresses(layers)
            shape = (starts, strides, len(layers), rows, columns)
            noise._run(_columns, ids if place[0] else out, (*shape, *noise._list(ids), *place, out))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        (ids,) = ctx.saved_tensors
        if ctx.place[0]:
            gradient = noise._drop(gradient, ids, *ctx.place)
        # Views of the gradient's columns, (N, T D) -> T x (N, D), without a copy.
        return None, None, *gradient.split(gradient.shape[1] // ctx.num_layers or 1, 1)


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, place: tuple[int, ...], *layers: Tensor) -> Tensor:
        ctx.place, ctx.num_layers = place, len(layers)
        if not _fuses(layers[0], len(layers)):
            out, layer = reference.largest(layers)
            out = noise._drop(out, ids, *place) if place[0] else out
        else:
            layers = tuple(map(nodewise._by_rows, layers))
            out = torch.empty(layers[0].shape, device=layers[0].device)  # T x (N, D) -> (N, D)
            layer = torch.empty(out.shape, dtype=torch.uint8, device=out.device)  # (N, D): the layer of each element
            if out.numel():
                starts, strides = _addresses(layers)
                shape = (starts, strides, len(layers), *out.shape)
                results = (out, layer)
                noise._run(_largest, ids if place[0] else out, (*shape, *noise._list(ids), *place, *results))
        # One byte per element; the layers themselves are not saved.
        ctx.save_for_backward(ids, layer)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        ids, layer = ctx.saved_tensors
        if not _fuses(gradient, ctx.num_layers):
            gradient = noise._drop(gradient, ids, *ctx.place) if ctx.place[0] else gradient
            return None, None, *reference.largest_backward(gradient, layer, ctx.num_layers)
        gradient = nodewise._by_rows(gradient)
        gradients = [torch.empty(layer.shape, device=gradient.device) for _ in range(ctx.num_layers)]  # T x (N, D)
        if gradient.numel():
            starts, _ = _addresses(gradients)
            shape = (layer, ctx.num_layers, *layer.shape)
            arguments = (gradient, gradient.stride(0), *shape, *noise._list(ids), *ctx.place)
            native.call(_largest_backward, *arguments, starts)
        return None, None, *gradients
