"""Gradients, loss and a flag summed over all workers: at once in float32, or layer by layer in bfloat16 meanwhile.

Each worker's loss is a sum over its rows divided by *global* counts, so that sums over workers are means. The flag
says that a worker has something to share (``control.py``); it costs four bytes in a message that travels anyway.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.train.parameters import FlatParameters

__all__ = ["GRADIENTS", "AtOnce", "Meanwhile", "Reduction", "make_reduction"]

GRADIENTS = ("float32", "bfloat16")
"""Types in which weight gradients travel."""

_BUCKET = 2**14
"""Fewest elements of a message of its own; smaller layers go along with the next one."""


class Reduction(Protocol):
    """Sums what every worker found in its backward pass."""

    @property
    def sent_bytes(self) -> int:
        """Bytes that every worker puts into the sum."""

    def begin(self, loss: Tensor, flag: bool) -> None:
        """Take this worker's loss and flag, before its backward pass."""

    def finish(self) -> tuple[float, bool]:
        """Leave the summed gradients in the flat buffer; return the summed loss and whether any flag was set."""


class AtOnce:
    """One float32 all-reduce after the backward pass; alone, nothing to sum."""

    def __init__(self, parameters: FlatParameters, *, distributed: bool) -> None:
        self._parameters, self._distributed = parameters, distributed

    @property
    def sent_bytes(self) -> int:
        return 4 * self._parameters.summed.numel() if self._distributed else 0

    def begin(self, loss: Tensor, flag: bool) -> None:
        self._parameters.summed[-2] = loss.detach()
        self._parameters.summed[-1] = float(flag)

    def finish(self) -> tuple[float, bool]:
        if self._distributed:
            dist.all_reduce(self._parameters.summed)
        loss, flag = self._parameters.summed[-2:].tolist()
        return loss, flag > 0


class Meanwhile:
    """bfloat16 all-reduces, posted while the backward pass goes on: a layer's gradients travel once they are whole.

    Layers are taken from the last to the first, small ones together, in the same order on every worker. Loss and
    flag travel in float32. A sum over workers is rounded to 8 bits of mantissa: a relative error of 2^-8 at most in
    each term and each partial sum.
    """

    def __init__(self, parameters: FlatParameters) -> None:
        self._parameters = parameters
        self._facts = torch.zeros(2, device=parameters.values.device)
        self._rounded = torch.zeros_like(parameters.values, dtype=torch.bfloat16)
        self._spans, bucket_of = _buckets([parameter.numel() for parameter in parameters.list])
        self._sizes = [bucket_of.count(bucket) for bucket in range(len(self._spans))]
        self._missing = list(self._sizes)
        self._posted = 0
        self._works: list[dist.Work] = []
        for parameter, bucket in zip(parameters.list, bucket_of, strict=True):
            parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._whole(bucket))

    @property
    def sent_bytes(self) -> int:
        return 2 * self._rounded.numel() + 4 * self._facts.numel()

    def begin(self, loss: Tensor, flag: bool) -> None:
        self._missing, self._posted = list(self._sizes), 0
        self._facts[0], self._facts[1] = loss.detach(), float(flag)
        self._works = [_start(self._facts)]

    def finish(self) -> tuple[float, bool]:
        self._post(len(self._spans))  # a parameter that took no part has no gradient to wait for
        for work in self._works:
            work.wait()
        self._works = []
        self._parameters.gradients.copy_(self._rounded)
        loss, flag = self._facts.tolist()
        return loss, flag > 0

    def _whole(self, bucket: int) -> None:
        """Count a parameter whose gradient is complete; post every bucket whose turn has come."""
        if self._works:
            self._missing[bucket] -= 1
            ready = self._posted
            while ready < len(self._spans) and self._missing[ready] == 0:
                ready += 1
            self._post(ready)

    def _post(self, until: int) -> None:
        for start, end in self._spans[self._posted : until]:
            span = self._rounded[start:end]
            span.copy_(self._parameters.gradients[start:end])
            self._works.append(_start(span))
        self._posted = max(self._posted, until)


def make_reduction(parameters: FlatParameters, *, gradients: str = "float32", distributed: bool) -> Reduction:
    """Return how gradients are summed.

    Raises:
        ValueError: if the type is unknown.
    """
    if gradients not in GRADIENTS:
        raise ValueError(f"gradients must be one of {GRADIENTS}, got {gradients!r}")
    if distributed and gradients == "bfloat16":
        return Meanwhile(parameters)
    return AtOnce(parameters, distributed=distributed)


def _start(buffer: Tensor) -> dist.Work:
    work: dist.Work = dist.all_reduce(buffer, async_op=True)
    return work


def _buckets(sizes: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Cut a flat buffer into spans of whole parameters, the last parameters first.

    Returns:
        ``(start, end)`` of each span, and the span of each parameter.

    Example:
        >>> _buckets([2**14, 3, 2**15])
        ([(16387, 49155), (0, 16387)], [1, 1, 0])
    """
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    spans: list[tuple[int, int]] = []
    bucket_of = [0] * len(sizes)
    end = ends[-1]
    for index in reversed(range(len(sizes))):
        bucket_of[index] = len(spans)
        if end - ends[index] >= _BUCKET or index == 0:
            spans.append((ends[index], end))
            end = ends[index]
    return spans, bucket_of
