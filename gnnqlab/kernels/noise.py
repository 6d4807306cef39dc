"""Counter-based noise: dropout and rounding bits that are a function of (seed, epoch, stream, global node id, column).

So a row's mask and its rounding do not depend on how many workers there are, and the reference, every instruction set
and CUDA draw the same bits. `gnnqlab.kernels.reference.noise` defines the generator.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.kernels.reference import noise as reference

__all__ = ["check_counter", "dropout", "dropout_values", "stream", "uniform16"]

KINDS = {"forward": 0, "backward": 1, "dropout": 2, "bits": 3, "sample": 4}

_ELEMENTS = {torch.float32: 0, torch.bfloat16: 1}


def stream(kind: str, layer: int, sender: int = 0) -> int:
    """The last word of the counter: what the noise is for.

    Args:
        kind: ``"forward"`` or ``"backward"`` (rounding of messages), ``"dropout"``, ``"bits"`` (a random choice of
            widths) or ``"sample"`` (boundary sampling).
        layer: layer number, below 4096.
        sender: sending rank + 1 for gradients, because those of one node come from several ranks and must err
            independently; 0 for everything else, so that the result does not depend on the number of workers.

    Example:
        >>> stream("backward", layer=2, sender=1) == (1 << 28) + (2 << 16) + 1
        True
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {tuple(KINDS)}, got {kind!r}")
    if not 0 <= layer < 1 << 12:
        raise ValueError(f"layer must be in [0, 4096), got {layer}")
    if not 0 <= sender < 1 << 16:
        raise ValueError(f"sender must be in [0, 65536), got {sender}")
    return KINDS[kind] << 28 | layer << 16 | sender


def uniform16(ids: Tensor, columns: int, *, seed: int, epoch: int, stream: int) -> Tensor:
    """Sixteen random bits for each row id and column: int32 ``(N, columns)`` in ``[0, 65536)``.

    Raises:
        ValueError: if the counter does not fit (see `check_counter`).
    """
    check_counter(seed, epoch, stream)
    _check_ids(ids)
    return reference.uniform16(ids, columns, seed=seed, epoch=epoch, stream=stream)


def dropout(x: Tensor, ids: Tensor, *, p: float, seed: int, epoch: int, stream: int) -> Tensor:
    """Set each element to zero with probability ``p`` and scale the others by ``1 / (1 - p)``.

    An element stays iff its 16 bits reach ``t = round(65536 p)``; the factor is ``65536 / (65536 - t)``, so the mean is
    exact for the probability that is really used. The gradient draws the same bits again: only the ids are kept.

    Args:
        x: float32 or bfloat16 ``(N, D)`` (any float type in the reference).
        ids: global node ids ``(N,)``, int64 or int32, below 2**32.
        p: in ``[0, 1)``; 0 returns ``x`` itself.
        stream: from `stream`.

    Raises:
        ValueError: if p is not in [0, 1), a shape or type does not fit, or the counter does not (see `check_counter`).

    Example:
        >>> y = dropout(torch.ones(1, 1000), torch.tensor([7]), p=0.5, seed=0, epoch=0, stream=stream("dropout", 0))
        >>> sorted(set(y.flatten().tolist())), 400 < int((y > 0).sum()) < 600
        ([0.0, 2.0], True)
    """
    if x.dim() != 2 or ids.shape != x.shape[:1]:
        raise ValueError(
            f"dropout needs rows (N, D) and one id a row, got shapes {tuple(x.shape)} and {tuple(ids.shape)}"
        )
    threshold = _threshold(p)
    check_counter(seed, epoch, stream)
    if threshold == 0:
        return x
    if torch.compiler.is_compiling():
        return torch.ops.gnnqlab.dropout(x, ids, threshold, seed, epoch, stream)
    return _Dropout.apply(x, ids, threshold, seed, epoch, stream)


def dropout_values(
    values: Tensor, ids: Tensor, columns: Tensor, *, p: float, seed: int, epoch: int, stream: int
) -> Tensor:
    """The mask of `dropout` for the stored elements of a sparse matrix, each with its row's id and its column.

    Example:
        >>> settings = dict(p=0.5, seed=0, epoch=0, stream=stream("dropout", 0))
        >>> ids, columns = torch.tensor([7, 7, 9]), torch.tensor([0, 3, 1])
        >>> full = dropout(torch.ones(2, 4), torch.tensor([7, 9]), **settings)
        >>> torch.equal(dropout_values(torch.ones(3), ids, columns, **settings), full[[0, 0, 1], columns])
        True
    """
    if values.dim() != 1 or not values.shape == ids.shape == columns.shape:
        raise ValueError(
            "dropout_values needs one id and one column a value, got shapes "
            f"{tuple(values.shape)}, {tuple(ids.shape)} and {tuple(columns.shape)}"
        )
    threshold = _threshold(p)
    check_counter(seed, epoch, stream)
    if threshold == 0:
        return values
    return reference.dropout_values(values, ids, columns, threshold=threshold, seed=seed, epoch=epoch, stream=stream)


def check_counter(seed: int, epoch: int, stream: int) -> None:
    """Refuse a seed outside [0, 2**63) and an epoch or stream outside [0, 2**32)."""
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"seed must be in [0, 2**63), got {seed}")
    if not 0 <= epoch < 1 << 32:
        raise ValueError(f"epoch must be in [0, 2**32), got {epoch}")
    if not 0 <= stream < 1 << 32:
        raise ValueError(f"stream must be in [0, 2**32), got {stream}; make it with noise.stream")


def _threshold(p: float) -> int:
    if not 0.0 <= p < 1.0:
        raise ValueError(f"p must be in [0, 1), got {p}")
    return min(round(p * 65536), 65535)


def _check_ids(ids: Tensor) -> None:
    if ids.numel() and not (0 <= int(ids.min()) and int(ids.max()) < 1 << 32):
        raise ValueError(f"node ids must be in [0, 2**32), got {int(ids.min())} to {int(ids.max())}")


def _dropout(x: Tensor, ids: Tensor, threshold: int, seed: int, epoch: int, stream: int) -> Tensor:
    _check_ids(ids)
    return reference.dropout(x, ids, threshold=threshold, seed=seed, epoch=epoch, stream=stream)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ids: Tensor, *settings: int) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.settings = settings
        return _dropout(x, ids, *settings)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (ids,) = ctx.saved_tensors
        return _Dropout.apply(grad, ids, *ctx.settings), None, None, None, None, None
