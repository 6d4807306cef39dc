"""Counter-based noise: dropout and rounding bits that are a function of (seed, epoch, stream, global node id, column).

So a row's mask and its rounding do not depend on the number of workers, and the reference, every instruction set and
CUDA generate identical bits. `gnnqlab.kernels.reference.noise` defines the generator.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.reference import noise as reference

__all__ = [
    "check_counter",
    "dropout",
    "dropout_values",
    "map_to_range",
    "stream",
    "uniform16",
    "uniform32",
]

# Four bits of a stream. A change of these numbers changes the noise of every run.
KINDS = {
    "forward": 0, "backward": 1, "dropout": 2, "bits": 3, "sample": 4, "operand": 5, "weight": 6, "loose": 7, "kept": 8,
    "gradient": 9, "links": 10, "features": 11,
}  # fmt: skip

# ids, are int32, N, D; seed, epoch, stream; out; threads.
_uniform16 = native.declare("uniform16", "p i i i i i i p i")
# x, is bfloat16, stride, N, D; ids, are int32; threshold, seed, epoch, stream; out; threads.
_dropout_rows = native.declare("dropout", "p i i i i p i i i i i p i")
# values, E; ids, are int32; columns, are int32; threshold, seed, epoch, stream; out; threads.
_dropout_values = native.declare("dropout_values", "p i p i p i i i i i p i")


@functools.cache  # two messages of each exchange ask for the same numbers in every epoch
def stream(kind: str, layer: int, sender: int = 0, round: int = 0) -> int:
    """Compute the last word of the counter, which separates the noise of different purposes.

    Args:
        kind: ``"forward"`` or ``"backward"`` (rounding of messages), ``"dropout"``, ``"bits"`` (random choice of
            bit-widths), ``"sample"`` (boundary sampling), rounding of product operands: ``"operand"`` (rows of nodes),
            ``"weight"`` and ``"loose"`` (other rows), ``"kept"`` (rounding of saved activations), ``"gradient"``
            (rounding of weight gradients all-reduced as codes), ``"links"`` (held-out edges and negative samples), or
            ``"features"`` (initial embeddings of nodes).
        layer: layer number, or number of the operand in its pass, below 4096.
        sender: separates messages about one node whose errors must be independent: sending rank + 1 for gradients,
            which have several senders; for rows, which have several receivers, the number of the receiver (see
            :class:`gnnqlab.message.codecs.codec.Noise`). 0 for everything else, so that a mask does not depend on the
            number of workers. Below 4096.
        round: number of the exchange within its layer and direction, modulo 16. Systems with more rounds, such as
            broadcasts of blocks, have different nodes in each.

    Example:
        >>> stream("backward", layer=2, sender=1) == (1 << 28) + (2 << 16) + 1
        True
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {tuple(KINDS)}, got {kind!r}")
    if not 0 <= layer < 1 << 12:
        raise ValueError(f"layer must be in [0, 4096), got {layer}")
    if not 0 <= sender < 1 << 12:
        raise ValueError(f"sender must be in [0, 4096), got {sender}")
    # One 32-bit word: 4 bits of kind, 12 of layer, 4 of round, 12 of sender.
    return KINDS[kind] << 28 | layer << 16 | (round % 16) << 12 | sender


def uniform16(ids: Tensor, columns: int, *, seed: int, epoch: int, stream: int) -> Tensor:
    """Generate 16 random bits for each row id and column: int32 ``(N, columns)`` in ``[0, 65536)``.

    Raises:
        ValueError: if the counter does not fit (see `check_counter`).
    """
    check_counter(seed, epoch, stream)
    ids = _as_ids(ids)
    if not native.active(ids.device):
        _check_ids(ids)
        return reference.uniform16(ids, columns, seed=seed, epoch=epoch, stream=stream)
    out = torch.empty(ids.numel(), columns, dtype=torch.int32, device=ids.device)  # (N, columns)
    arguments = (*_list(ids), ids.numel(), columns, seed, epoch, stream, out)
    _run(_uniform16, ids, arguments)
    return out


def uniform32(ids: Tensor, columns: int = 1, *, seed: int, epoch: int, stream: int) -> Tensor:
    """Generate 32 random bits for each id and column: int64 ``(N, columns)`` in ``[0, 2**32)``.

    Two values of `uniform16`, the first in the upper half.

    Example:
        >>> drawn = uniform32(torch.arange(1000), seed=0, epoch=0, stream=stream("links", 0))
        >>> drawn.shape, 0.45 < float((drawn < 2**31).float().mean()) < 0.55
        (torch.Size([1000, 1]), True)
    """
    halves = uniform16(ids, 2 * columns, seed=seed, epoch=epoch, stream=stream).long()  # (N, 2 columns)
    return halves[:, 0::2] << 16 | halves[:, 1::2]  # (N, columns) int64: the sign bit stays 0


def map_to_range(drawn: Tensor, count: int | Tensor) -> Tensor:
    """Map 32 random bits to ``[0, count)``: ``drawn count / 2**32``, rounded down; ``count`` is at most 2**31.

    The probabilities of two numbers differ by a relative ``count / 2**32`` at most.

    Example:
        >>> map_to_range(torch.tensor([0, 2**31, 2**32 - 1]), 10).tolist()
        [0, 5, 9]
    """
    return drawn * count >> 32  # a product below 2**63, so int64 does not overflow


def dropout(x: Tensor, ids: Tensor, *, p: float, seed: int, epoch: int, stream: int) -> Tensor:
    """Set each element to zero with probability ``p`` and scale the others by ``1 / (1 - p)``.

    An element is retained if its 16 bits are at least ``t = round(65536 p)``; the factor is ``65536 / (65536 - t)``, so
    the mean is exact for the rounded probability. The backward pass generates the bits again: only ids are saved.

    Args:
        x: float32 or bfloat16 ``(N, D)`` (any float type in the reference).
        ids: global node ids ``(N,)``, int64 or int32, below 2**32.
        p: in ``[0, 1)``; 0 returns ``x`` itself.
        stream: from `stream`.

    Raises:
        ValueError: if p is not in [0, 1), or a shape, a type or the counter is invalid (see `check_counter`).

    Example:
        >>> y = dropout(torch.ones(1, 1000), torch.tensor([7]), p=0.5, seed=0, epoch=0, stream=stream("dropout", 0))
        >>> sorted(set(y.flatten().tolist())), 400 < int((y > 0).sum()) < 600
        ([0.0, 2.0], True)
    """
    if x.dim() != 2 or ids.shape != x.shape[:1]:
        raise ValueError(
            f"dropout needs rows (N, D) and one id per row, got shapes {tuple(x.shape)} and {tuple(ids.shape)}"
        )
    threshold = _threshold(p)
    check_counter(seed, epoch, stream)
    if threshold == 0:
        return x
    if torch.compiler.is_compiling():
        # The kernel is called by address, which a compiler cannot trace: compiled graphs call an operator.
        return torch.ops.gnnqlab.dropout(x, ids, threshold, seed, epoch, stream)
    return _Dropout.apply(x, ids, threshold, seed, epoch, stream)


def dropout_values(
    values: Tensor, ids: Tensor, columns: Tensor, *, p: float, seed: int, epoch: int, stream: int
) -> Tensor:
    """Apply `dropout` to the stored elements of a sparse matrix, each with its row's id and its column.

    Example:
        >>> settings = dict(p=0.5, seed=0, epoch=0, stream=stream("dropout", 0))
        >>> ids, columns = torch.tensor([7, 7, 9]), torch.tensor([0, 3, 1])
        >>> full = dropout(torch.ones(2, 4), torch.tensor([7, 9]), **settings)
        >>> torch.equal(dropout_values(torch.ones(3), ids, columns, **settings), full[[0, 0, 1], columns])
        True
    """
    if values.dim() != 1 or not values.shape == ids.shape == columns.shape:
        raise ValueError(
            "dropout_values needs one id and one column per value, got shapes "
            f"{tuple(values.shape)}, {tuple(ids.shape)} and {tuple(columns.shape)}"
        )
    threshold = _threshold(p)
    check_counter(seed, epoch, stream)
    if threshold == 0:
        return values
    if torch.compiler.is_compiling():
        return torch.ops.gnnqlab.dropout_values(values, ids, columns, threshold, seed, epoch, stream)
    return _DropoutValues.apply(values, ids, columns, threshold, seed, epoch, stream)


def check_counter(seed: int, epoch: int, stream: int) -> None:
    """Check that the seed is in [0, 2**63), and epoch and stream are in [0, 2**32)."""
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"seed must be in [0, 2**63), got {seed}")
    if not 0 <= epoch < 1 << 32:
        raise ValueError(f"epoch must be in [0, 2**32), got {epoch}")
    if not 0 <= stream < 1 << 32:
        raise ValueError(f"stream must be in [0, 2**32), got {stream}; make it with noise.stream")


def _threshold(p: float) -> int:
    if not 0.0 <= p < 1.0:
        raise ValueError(f"p must be in [0, 1), got {p}")
    return min(round(p * 65536), 65535)  # below 65536, so that the scale 65536 / (65536 - t) is finite


def _as_ids(ids: Tensor) -> Tensor:
    if ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"node ids and columns must be int64 or int32, got {ids.dtype}")
    return ids.contiguous()


def _check_ids(ids: Tensor) -> None:
    if ids.numel() and not (0 <= int(ids.min()) and int(ids.max()) < 1 << 32):
        raise ValueError(f"node ids must be in [0, 2**32), got {int(ids.min())} to {int(ids.max())}")


def _list(indices: Tensor) -> tuple[Tensor, int]:
    """Return an index list for the C interface, and 1 if it is int32, else 0."""
    return indices, int(indices.dtype == torch.int32)


def _run(kernel: native.Kernel, ids: Tensor, arguments: tuple[Any, ...]) -> None:
    if ids.is_cuda:
        kernel.cuda(ids.device, *arguments, native.refused(ids.device).data_ptr())
    elif kernel(*arguments, native.threads()):  # nonzero: an id is out of range; raise its error
        _check_ids(ids)


# Operators. Eager calls bypass the dispatcher (a tenth of its cost); compiled graphs use the operator.


def _drop(x: Tensor, ids: Tensor, threshold: int, seed: int, epoch: int, stream: int) -> Tensor:
    ids = _as_ids(ids)
    # Other float types have no kernel; the reference masks identical elements.
    if x.dtype not in (torch.float32, torch.bfloat16) or not native.active(x.device):
        _check_ids(ids)
        return reference.dropout(x, ids, threshold=threshold, seed=seed, epoch=epoch, stream=stream)
    rows, columns = x.shape
    if columns > 1 and x.stride(1) != 1:
        x = x.contiguous()  # the kernel takes any row stride, but adjacent columns
    out = torch.empty((rows, columns), dtype=x.dtype, device=x.device)  # (N, D), adjacent rows
    place = (threshold, seed, epoch, stream)
    arguments = (x, int(x.dtype == torch.bfloat16), x.stride(0), rows, columns, *_list(ids), *place, out)
    _run(_dropout_rows, ids, arguments)
    return out


def _drop_values(
    values: Tensor, ids: Tensor, columns: Tensor, threshold: int, seed: int, epoch: int, stream: int
) -> Tensor:
    ids, columns = _as_ids(ids), _as_ids(columns)
    if values.dtype != torch.float32 or not native.active(values.device):
        _check_ids(ids)
        return reference.dropout_values(
            values, ids, columns, threshold=threshold, seed=seed, epoch=epoch, stream=stream
        )
    values = values.contiguous()
    out = torch.empty_like(values)
    arguments = (values, values.numel(), *_list(ids), *_list(columns), threshold, seed, epoch, stream, out)
    _run(_dropout_values, ids, arguments)
    return out


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ids: Tensor, *settings: int) -> Tensor:
        ctx.save_for_backward(ids)  # x is not needed: its mask is generated again
        ctx.settings = settings
        return _drop(x, ids, *settings)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (ids,) = ctx.saved_tensors
        # Applied as a function, so that the gradient is differentiable too.
        return _Dropout.apply(grad, ids, *ctx.settings), None, None, None, None, None


class _DropoutValues(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ids: Tensor, columns: Tensor, *settings: int) -> Tensor:
        ctx.save_for_backward(ids, columns)
        ctx.settings = settings
        return _drop_values(values, ids, columns, *settings)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _DropoutValues.apply(grad, *ctx.saved_tensors, *ctx.settings), None, None, None, None, None, None


def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    # Ids (and columns), not x: the backward pass generates the mask again.
    ctx.save_for_backward(*(value for value in inputs[1:] if isinstance(value, Tensor)))
    ctx.settings = [value for value in inputs[1:] if not isinstance(value, Tensor)]  # threshold, seed, epoch, stream


def _dropout_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return torch.ops.gnnqlab.dropout(grad, *ctx.saved_tensors, *ctx.settings), *(None,) * 5


def _dropout_values_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return torch.ops.gnnqlab.dropout_values(grad, *ctx.saved_tensors, *ctx.settings), *(None,) * 6


native.register(
    "dropout(Tensor x, Tensor ids, int threshold, int seed, int epoch, int stream) -> Tensor",
    _drop,
    fake=lambda x, *_: x.new_empty(x.shape),
    backward=_dropout_backward,
    setup=_keep_inputs,
)
native.register(
    "dropout_values(Tensor values, Tensor ids, Tensor columns, int threshold, int seed, int epoch, int stream)"
    " -> Tensor",
    _drop_values,
    fake=lambda values, *_: values.new_empty(values.shape),
    backward=_dropout_values_backward,
    setup=_keep_inputs,
)
