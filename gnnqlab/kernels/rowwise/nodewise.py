"""What stands between two convolutions, in one pass over the rows: normalise, activate, drop.

Forward every element is read and written once, and backward once more; the mask is drawn again, so nobody stores it.
Kept for the backward pass are, of a rectifier without a norm, the rows that come out: they are positive where those
that came in were, and 0 where they were dropped. So it is with ELU, whose slope is ``1 + ELU(z)`` below 0; there the
mask is drawn again, for a 0 may be ELU(0), whose slope is 1. Either GELU keeps the rows that came in: below 0 it has
most of its values twice. With a norm it is the rows that came in and two numbers a row, whatever the activation: the
normalised value of every element enters the gradient of its row, also where a rectifier or the mask left 0, and of
those the output tells nothing.

`gnnqlab.kernels.reference.nodewise` is the definition. Without compiled kernels, in float64 and inside `apart` the
steps run one after another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gnnqlab.kernels import native, noise
from gnnqlab.kernels.reference import nodewise as reference
from gnnqlab.kernels.reference.nodewise import ACTIVATIONS

__all__ = ["ACTIVATIONS", "Mask", "Norm", "apart", "nodewise", "nodewise_both", "step_by_step", "steps_are_apart"]

_forward = native.declare("nodewise", "p i i i i p p f i p i i i i i p p p i")
_backward = native.declare("nodewise_backward", "p i i i i p p p i p i p i p i i f i i i p p i")
_RELU, _ELU = ACTIVATIONS.index("relu"), ACTIVATIONS.index("elu")
_ROWS_A_PARTIAL = 256
"""Rows whose gradients of weight and bias are summed in float32; these sums are added in float64."""

_APPROXIMATE = {"gelu": "none", "gelu-tanh": "tanh"}

_apart = False


@dataclass(frozen=True, eq=False)
class Norm:
    """A LayerNorm over the columns of each row."""

    weight: Tensor
    """``(D,)``."""
    bias: Tensor
    eps: float = 1e-5

    @staticmethod
    def of(module: torch.nn.LayerNorm) -> Norm:
        """Return what a module computes with; one without weight or bias has ones and zeros.

        Example:
            >>> Norm.of(torch.nn.LayerNorm(3, elementwise_affine=False)).weight.tolist()
            [1.0, 1.0, 1.0]
        """
        weight, bias = module.weight, module.bias
        shape = module.normalized_shape
        return Norm(
            torch.ones(shape) if weight is None else weight, torch.zeros(shape) if bias is None else bias, module.eps
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Mask:
    """A dropout mask, as :func:`gnnqlab.kernels.noise.dropout` draws it."""

    ids: Tensor
    p: float
    seed: int
    epoch: int
    stream: int


def nodewise(
    x: Tensor, norm: Norm | None = None, *, activation: str = "relu", mask: Mask | None = None, inplace: bool = False
) -> Tensor:
    """Return ``drop(activation(norm(x)))``, ``(N, D)`` of the type of x; differentiable in x, weight and bias.

    Args:
        x: float32 or bfloat16 ``(N, D)`` (any float type without compiled kernels). Weight and bias are float32.
        norm: none leaves the rows as they are.
        activation: one of `ACTIVATIONS`.
        mask: none drops nothing.
        inplace: x may be written over, where that saves memory: of a rectifier or ELU without a norm. It must be the
            result of a computation that does not need it any more.

    Raises:
        ValueError: if a shape, type or name does not fit, p is not in [0, 1), or an id is not in [0, 2**32).

    Example:
        >>> x, norm = torch.tensor([[1.0, 3.0]]), Norm(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.5]), eps=0.0)
        >>> nodewise(x, norm).tolist()  # -1 + 0.5 and 2 + 0.5
        [[0.0, 2.5]]
    """
    kind = _check(x, norm, activation, mask)
    threshold = 0 if mask is None else noise._threshold(mask.p)
    if not _fuses(x, norm) or (norm is None and kind == 0):
        return step_by_step(x, norm, activation=activation, mask=mask, inplace=inplace)[0]
    tensors, numbers = _arguments(x, norm, kind, mask, threshold)
    if torch.compiler.is_compiling():
        dropped: Tensor = torch.ops.gnnqlab.nodewise(*tensors, *numbers[:2], False, *numbers[2:])[0]
        return dropped
    inplace = inplace and norm is None and kind in (_RELU, _ELU) and x.is_contiguous()
    result: Tensor = _Nodewise.apply(*tensors, *numbers[:2], False, *numbers[2:], inplace)
    return result


def nodewise_both(
    x: Tensor, norm: Norm | None = None, *, activation: str = "relu", mask: Mask | None = None
) -> tuple[Tensor, Tensor]:
    """Return ``h = activation(norm(x))`` and ``drop(h)``, both from one pass; without a mask the same tensor twice.

    Args and errors as for :func:`nodewise`.

    Example:
        >>> whole, dropped = nodewise_both(torch.tensor([[-1.0, 2.0]]))
        >>> whole.tolist(), whole is dropped
        ([[0.0, 2.0]], True)
    """
    threshold = 0 if mask is None else noise._threshold(mask.p)
    if threshold == 0:
        h = nodewise(x, norm, activation=activation)
        return h, h
    kind = _check(x, norm, activation, mask)
    if not _fuses(x, norm):
        dropped, h = step_by_step(x, norm, activation=activation, mask=mask)
        return h, dropped
    tensors, numbers = _arguments(x, norm, kind, mask, threshold)
    if torch.compiler.is_compiling():
        dropped, h = torch.ops.gnnqlab.nodewise(*tensors, *numbers[:2], True, *numbers[2:])[:2]
        return h, dropped
    dropped, h = _Nodewise.apply(*tensors, *numbers[:2], True, *numbers[2:], False)
    return h, dropped


def step_by_step(
    x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None, inplace: bool = False
) -> tuple[Tensor, Tensor]:
    """Return what is dropped and what it is dropped from, each step a pass of its own: the plain way.

    Rows of bfloat16 are computed in float32 and rounded at the end, as in one pass.
    """
    if x.dtype == torch.bfloat16:
        dropped, h = step_by_step(x.float(), norm, activation=activation, mask=mask)
        rounded = h.bfloat16()
        return rounded if dropped is h else dropped.bfloat16(), rounded
    h = x if norm is None else functional.layer_norm(x, x.shape[1:], norm.weight, norm.bias, norm.eps)
    if activation == "relu":
        h = functional.relu(h, inplace=inplace or norm is not None)
    elif activation != "none":
        h = functional.elu(h) if activation == "elu" else functional.gelu(h, approximate=_APPROXIMATE[activation])
    if mask is None:
        return h, h
    place = {"seed": mask.seed, "epoch": mask.epoch, "stream": mask.stream}
    return noise.dropout(h, mask.ids, p=mask.p, **place), h


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Run the steps one after another until the block ends, to measure and to compare.

    Example:
        >>> with apart():
        ...     nodewise(torch.tensor([[-1.0, 2.0]])).tolist()
        [[0.0, 2.0]]
    """
    global _apart
    before, _apart = _apart, True
    try:
        yield
    finally:
        _apart = before


def steps_are_apart() -> bool:
    """Return whether this is inside a block of :func:`apart`."""
    return _apart


def _fuses(x: Tensor, norm: Norm | None) -> bool:
    if _apart or x.dtype not in (torch.float32, torch.bfloat16):
        return False
    if not torch.compiler.is_compiling() and not native.active(x.device):  # a compiled graph asks when it runs
        return False
    return norm is None or norm.weight.dtype == norm.bias.dtype == torch.float32


def _check(x: Tensor, norm: Norm | None, activation: str, mask: Mask | None) -> int:
    if x.dim() != 2:
        raise ValueError(f"nodewise needs rows (N, D), got shape {tuple(x.shape)}")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {ACTIVATIONS}, got {activation!r}")
    if norm is not None and not norm.weight.shape == norm.bias.shape == x.shape[1:]:
        raise ValueError(
            f"a norm needs one weight and one bias a column, got {tuple(norm.weight.shape)} and "
            f"{tuple(norm.bias.shape)} for {x.shape[1]} columns"
        )
    if mask is not None:
        if mask.ids.shape != x.shape[:1]:
            raise ValueError(f"a mask needs one id a row, got shape {tuple(mask.ids.shape)} for {x.shape[0]} rows")
        noise.check_counter(mask.seed, mask.epoch, mask.stream)
    return ACTIVATIONS.index(activation)


def _arguments(
    x: Tensor, norm: Norm | None, kind: int, mask: Mask | None, threshold: int
) -> tuple[tuple[Tensor | None, ...], tuple[Any, ...]]:
    ids = x.new_empty(0, dtype=torch.int64) if mask is None else mask.ids
    place = (0, 0, 0) if mask is None else (mask.seed, mask.epoch, mask.stream)
    affine = (None, None, 0.0) if norm is None else (norm.weight.contiguous(), norm.bias.contiguous(), norm.eps)
    return (x, ids, *affine[:2]), (affine[2], kind, threshold, *place)


# The operators. Eager calls go past the dispatcher (a tenth of its cost); compiled graphs see the operator.


def _run(
    x: Tensor,
    ids: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    activation: int,
    both: bool,
    threshold: int,
    seed: int,
    epoch: int,
    stream: int,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows dropped, rows before the mask (none unless both are asked for) and statistics."""
    ids, nothing = noise._as_ids(ids), x.new_empty(0)
    if x.dtype not in (torch.float32, torch.bfloat16) or not native.active(x.device):
        mask = {"threshold": threshold, "seed": seed, "epoch": epoch, "stream": stream}
        dropped, h, stats = reference.nodewise(x, ids, weight, bias, eps, activation, **mask)
        return (dropped.clone() if dropped is h or dropped is x else dropped), h if both else nothing, stats
    x = _by_rows(x)
    if out is None:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    whole = torch.empty_like(out) if both else nothing
    stats = x.new_empty((0 if weight is None else x.shape[0], 2), dtype=torch.float32)
    if out.numel() == 0:
        return out, whole, stats
    arguments = (
        *_rows(x), *x.shape, weight, bias, eps, activation, *noise._list(ids), threshold, seed, epoch, stream, out,
        whole if both else None, stats,
    )  # fmt: skip
    noise._run(_forward, ids if threshold else x, arguments)
    return out, whole, stats


def _run_backward(
    kept: Tensor,
    gradient: Tensor,
    of_whole: Tensor | None,
    ids: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    stats: Tensor,
    activation: int,
    threshold: int,
    factor: float,
    seed: int,
    epoch: int,
    stream: int,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of x, and of weight and bias, ``(2, D)`` or none."""
    ids = noise._as_ids(ids)
    if kept.dtype not in (torch.float32, torch.bfloat16) or not native.active(kept.device):
        mask = {"threshold": threshold, "seed": seed, "epoch": epoch, "stream": stream}
        return reference.nodewise_backward(
            kept, gradient, of_whole, ids, weight, bias, stats, activation, factor, **mask
        )
    rows, columns = kept.shape
    kept, gradient = _by_rows(kept), _by_rows(gradient)
    of_whole = None if of_whole is None else _by_rows(of_whole)
    out = torch.empty(kept.shape, dtype=kept.dtype, device=kept.device)
    shape = (0, columns) if weight is None else (-(-rows // _ROWS_A_PARTIAL), 2, columns)
    partials = kept.new_empty(shape, dtype=torch.float32)
    if out.numel():
        arguments = (
            *_rows(kept), rows, columns, weight, bias, stats, activation, gradient, gradient.stride(0), of_whole,
            0 if of_whole is None else of_whole.stride(0), *noise._list(ids), threshold, factor, seed, epoch, stream,
            out, partials,
        )  # fmt: skip
        if kept.is_cuda:
            _backward.cuda(kept.device, *arguments, native.threads())
        else:
            _backward(*arguments, native.threads())
    return out, partials if weight is None else partials.sum(0, dtype=torch.float64).float()


def _by_rows(x: Tensor) -> Tensor:
    return x if x.stride(1) == 1 or x.shape[1] < 2 else x.contiguous()


def _rows(x: Tensor) -> tuple[Tensor, int, int]:
    return x, int(x.dtype == torch.bfloat16), x.stride(0)


def _keep(inputs: tuple[Any, ...], outputs: tuple[Tensor, Tensor, Tensor]) -> tuple[list[Tensor | None], list[Any]]:
    """What the backward pass needs: tensors and numbers, in the order of the backward operator."""
    x, ids, weight, bias, _, activation, both, threshold, *place = inputs
    dropped, whole, stats = outputs
    kept, factor = x, 65536 / (65536 - threshold)
    if weight is None and activation in (_RELU, _ELU):
        kept = whole if both else dropped
        if activation == _ELU:
            activation = reference.ELU_OUTPUT
        elif not both:
            threshold = 0
    return [kept, ids if threshold else ids[:0], weight, bias, stats], [activation, threshold, factor, *place]


class _Nodewise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        inputs, inplace = inputs[:-1], inputs[-1]
        both = inputs[6]
        arguments = (*inputs, inputs[0] if inplace else None)
        outputs = _run(*arguments)
        if inplace:
            ctx.mark_dirty(inputs[0])
        tensors, ctx.numbers = _keep(inputs, outputs)
        ctx.save_for_backward(*tensors)
        return outputs[:2] if both else outputs[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, of_whole: Tensor | None = None) -> tuple[Tensor | None, ...]:
        kept, ids, weight, bias, stats = ctx.saved_tensors
        dx, of_affine = _run_backward(kept, gradient, of_whole, ids, weight, bias, stats, *ctx.numbers)
        return dx, None, *_of_affine(weight, of_affine), *(None,) * 8


def _of_affine(weight: Tensor | None, found: Tensor) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if weight is None else (found[0], found[1])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    tensors, ctx.numbers = _keep(inputs, output)
    ctx.both = inputs[6]
    ctx.save_for_backward(*tensors)


def _operator_backward(ctx: Any, gradient: Tensor, of_whole: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    kept, ids, weight, bias, stats = ctx.saved_tensors
    tensors = (kept, gradient, of_whole if ctx.both else None, ids, weight, bias, stats)
    dx, of_affine = torch.ops.gnnqlab.nodewise_backward(*tensors, *ctx.numbers)
    return dx, None, *_of_affine(weight, of_affine), *(None,) * 7


def _shapes(x: Tensor, ids: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    both, rows = rest[3], 0 if weight is None else x.shape[0]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty(x.shape), x.new_empty(x.shape if both else 0), x.new_empty((rows, 2), dtype=wide)


def _shapes_backward(kept: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if kept.dtype == torch.float64 else torch.float32
    affine = kept.new_empty((0 if rest[3] is None else 2, kept.shape[1]), dtype=wide)
    return kept.new_empty(kept.shape), affine


native.register(
    "nodewise(Tensor x, Tensor ids, Tensor? weight, Tensor? bias, float eps, int activation, bool both, int threshold,"
    " int seed, int epoch, int stream) -> (Tensor, Tensor, Tensor)",
    _run,
    fake=_shapes,
    backward=_operator_backward,
    setup=_setup,
)
native.register(
    "nodewise_backward(Tensor kept, Tensor gradient, Tensor? of_whole, Tensor ids, Tensor? weight, Tensor? bias,"
    " Tensor stats, int activation, int threshold, float factor, int seed, int epoch, int stream) -> (Tensor, Tensor)",
    _run_backward,
    fake=_shapes_backward,
)
