"""Gradients and a few facts summed over all workers: at once, or layer by layer under the backward pass.

The facts are the loss, a flag, and what somebody asks for beside them (``shared.py``). Each worker's loss is a sum over
its rows divided by *global* counts, so that sums over workers are means. The flag says that a worker has something to
share (``control.py``). Numbers of which the largest is wanted stand in a slot of their own for each worker, to which
the others add zero: so all read the same numbers. Each fact costs four bytes in a message that travels anyway.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.train.loop.parameters import FlatParameters

__all__ = ["GRADIENTS", "AtOnce", "Facts", "Meanwhile", "Reduction", "Slots", "Summed", "make_reduction"]

GRADIENTS = ("float32", "float32-by-layer", "bfloat16")
"""How weight gradients travel: the type, and whether a layer's go while the backward pass of those before it runs. Two
workers have float32 ones go by layer in any case: a sum of two terms has no order, so it is the same to the bit."""

_BUCKET = 2**14
"""Fewest elements of a message of its own; smaller layers go along with the next one."""


class Facts(NamedTuple):
    """What a worker says of its epoch."""

    loss: Tensor
    """Its share of the loss."""
    flag: bool = False
    """Whether it has something to share."""
    sums: Sequence[float] = ()
    """Its terms of what is summed."""
    maxima: Sequence[float | None] = ()
    """Its values of that of which the largest counts; ``None`` where it knows none."""


class Summed(NamedTuple):
    """What all workers know of an epoch, bit for bit the same."""

    loss: float
    flag: bool
    """Whether any worker has something to share."""
    sums: tuple[float, ...] = ()
    maxima: tuple[float | None, ...] = ()
    """The largest value of all workers; ``None`` if any does not know its own."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Where the facts stand in the buffer that is summed: loss, flag, the slots of each maximum, sums."""

    sums: int = 0
    maxima: int = 0
    workers: int = 1

    @property
    def count(self) -> int:
        return 2 + self.maxima * self.workers + self.sums

    def write(self, into: Tensor, facts: Facts, rank: int) -> None:
        """Fill a buffer of zeros with the facts of one worker.

        Example:
            >>> slots, summed = Slots(maxima=1, workers=2), torch.zeros(4)
            >>> for rank, seconds in enumerate((1.0, 3.0)):
            ...     own = torch.zeros(4)
            ...     slots.write(own, Facts(torch.tensor(0.5), maxima=[seconds]), rank)
            ...     summed += own
            >>> slots.read(summed)
            Summed(loss=1.0, flag=False, sums=(), maxima=(3.0,))
        """
        into[0], into[1] = facts.loss.detach(), float(facts.flag)
        for index, value in enumerate(facts.maxima):
            into[2 + index * self.workers + rank] = math.nan if value is None else value
        for index, term in enumerate(facts.sums, start=self.count - self.sums):
            into[index] = term

    def read(self, summed: Tensor) -> Summed:
        loss, flag, *others = summed.tolist()
        each = [others[index * self.workers :][: self.workers] for index in range(self.maxima)]
        maxima = (None if any(map(math.isnan, values)) else max(values) for values in each)
        return Summed(loss, flag > 0, tuple(others[len(others) - self.sums :]), tuple(maxima))


class Reduction(Protocol):
    """Sums what every worker found in its backward pass."""

    @property
    def sent_bytes(self) -> int:
        """Bytes that every worker puts into the sum."""

    def begin(self, facts: Facts) -> None:
        """Take this worker's facts, before its backward pass."""

    def finish(self) -> Summed:
        """Leave the summed gradients in the flat buffer; return the summed facts."""


class AtOnce:
    """One float32 all-reduce after the backward pass; alone, nothing to sum."""

    def __init__(self, parameters: FlatParameters, slots: Slots, *, distributed: bool) -> None:
        self._parameters, self._slots, self._distributed = parameters, slots, distributed
        self._rank = dist.get_rank() if distributed else 0

    @property
    def sent_bytes(self) -> int:
        return 4 * self._parameters.summed.numel() if self._distributed else 0

    def begin(self, facts: Facts) -> None:
        self._slots.write(self._parameters.facts, facts, self._rank)

    def finish(self) -> Summed:
        if self._distributed:
            dist.all_reduce(self._parameters.summed)
        return self._slots.read(self._parameters.facts)


class Meanwhile:
    """All-reduces posted while the backward pass goes on: a layer's gradients travel once they are whole.

    Layers are taken from the last to the first, small ones together, in the same order on every worker. The facts
    travel in float32. In bfloat16 a sum over workers is rounded to 8 bits of mantissa: a relative error of 2^-8 at most
    in each term and each partial sum. In float32 it is the sum of :class:`AtOnce`, to the bit for two workers; the
    terms of more are added in another order where a message has another length.
    """

    def __init__(self, parameters: FlatParameters, slots: Slots, dtype: torch.dtype = torch.bfloat16) -> None:
        self._parameters, self._slots = parameters, slots
        self._facts, self._rank = parameters.facts, dist.get_rank()
        self._travels = parameters.gradients  # float32 ones are summed where they lie
        if dtype != torch.float32:
            self._travels = torch.zeros_like(parameters.values, dtype=dtype)
        self._spans, bucket_of = _buckets([parameter.numel() for parameter in parameters.list])
        self._sizes = [bucket_of.count(bucket) for bucket in range(len(self._spans))]
        self._missing = list(self._sizes)
        self._posted = 0
        self._works: list[dist.Work] = []
        for parameter, bucket in zip(parameters.list, bucket_of, strict=True):
            parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._whole(bucket))

    @property
    def sent_bytes(self) -> int:
        return self._travels.element_size() * self._travels.numel() + 4 * self._facts.numel()

    def begin(self, facts: Facts) -> None:
        self._missing, self._posted = list(self._sizes), 0
        self._slots.write(self._facts, facts, self._rank)
        self._works = [_start(self._facts)]

    def finish(self) -> Summed:
        self._post(len(self._spans))  # a parameter that took no part has no gradient to wait for
        for work in self._works:
            work.wait()
        self._works = []
        if self._travels is not self._parameters.gradients:
            self._parameters.gradients.copy_(self._travels)
        return self._slots.read(self._facts)

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
            span = self._travels[start:end]
            if self._travels is not self._parameters.gradients:
                span.copy_(self._parameters.gradients[start:end])
            self._works.append(_start(span))
        self._posted = max(self._posted, until)


def make_reduction(
    parameters: FlatParameters, slots: Slots, *, gradients: str = "float32", distributed: bool
) -> Reduction:
    """Return how gradients are summed.

    Args:
        parameters: whose buffer has ``slots.count`` elements for facts.
        slots: where these stand.
        gradients: how gradients travel, one of `GRADIENTS`.
        distributed: whether there is anybody to sum with.

    Raises:
        ValueError: if there is no such way.
    """
    if gradients not in GRADIENTS:
        raise ValueError(f"gradients must be one of {GRADIENTS}, got {gradients!r}")
    if distributed and gradients == "bfloat16":
        return Meanwhile(parameters, slots)
    if distributed and (gradients == "float32-by-layer" or dist.get_world_size() == 2):
        return Meanwhile(parameters, slots, torch.float32)
    return AtOnce(parameters, slots, distributed=distributed)


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
