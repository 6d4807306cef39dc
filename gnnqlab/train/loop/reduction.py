"""All-reduce of gradients and a few facts: after the backward pass, or layer by layer during it.

The facts are the loss, a flag, and the statistics that callbacks request (``scalar_reduction.py``). Each worker's loss
is a sum over its nodes divided by *global* counts, so that sums over workers are means. The flag is set if a worker has
an update to share (``control.py``). Values whose maximum is requested have one slot per worker, to which the other
workers add zero: so all workers read the same values. Each fact costs four bytes in a message that is sent anyway.
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

__all__ = [
    "GRADIENTS", "Facts", "OverlappedReduction", "ReducedFacts", "Reduction", "Slots", "SynchronousReduction",
    "make_reduction",
]  # fmt: skip

GRADIENTS = ("float32", "float32-by-layer", "bfloat16")
"""Types of the all-reduce; ``-by-layer`` overlaps it with the backward pass of earlier layers. Two workers always
reduce float32 by layer: a sum of two terms does not depend on their order, so it is identical to the bit."""

_BUCKET = 2**14
"""Least elements per message; smaller layers are sent together with the next one."""


class Facts(NamedTuple):
    """Facts of one worker's epoch."""

    loss: Tensor
    """Share of this worker in the loss."""
    flag: bool = False
    """True if the worker has an update to share."""
    sums: Sequence[float] = ()
    """Terms of this worker in the sums."""
    maxima: Sequence[float | None] = ()
    """Values of this worker for the maxima; ``None`` if unknown."""


class ReducedFacts(NamedTuple):
    """Reduced facts of an epoch, identical to the bit on all workers."""

    loss: float
    flag: bool
    """True if any worker has an update to share."""
    sums: tuple[float, ...] = ()
    maxima: tuple[float | None, ...] = ()
    """Maximum over all workers; ``None`` if the value of any worker is unknown."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Layout of the facts in the summed buffer: loss, flag, P slots for each maximum, sums."""

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
            ReducedFacts(loss=1.0, flag=False, sums=(), maxima=(3.0,))
        """
        into[0], into[1] = facts.loss.detach(), float(facts.flag)
        for index, value in enumerate(facts.maxima):  # NaN survives the sum, so an unknown value stays unknown
            into[2 + index * self.workers + rank] = math.nan if value is None else value
        for index, term in enumerate(facts.sums, start=self.count - self.sums):
            into[index] = term

    def read(self, summed: Tensor) -> ReducedFacts:
        loss, flag, *scalars = summed.tolist()
        # After loss and flag: P slots for each maximum, then the sums.
        slots_of_maxima = [scalars[index * self.workers :][: self.workers] for index in range(self.maxima)]
        maxima = (None if any(map(math.isnan, values)) else max(values) for values in slots_of_maxima)
        # The flag is a sum of zeros and ones, one from each worker.
        return ReducedFacts(loss, flag > 0, tuple(scalars[len(scalars) - self.sums :]), tuple(maxima))


class Reduction(Protocol):
    """Sum of all workers' gradients and facts."""

    @property
    def sent_bytes(self) -> int:
        """Bytes that every worker contributes to the sum."""

    def begin(self, facts: Facts) -> None:
        """Store this worker's facts, before its backward pass."""

    def finish(self) -> ReducedFacts:
        """Store the summed gradients in the flat buffer; return the summed facts."""


class SynchronousReduction:
    """One float32 all-reduce after the backward pass; none for a single worker."""

    def __init__(self, parameters: FlatParameters, slots: Slots, *, distributed: bool) -> None:
        self._parameters, self._slots, self._distributed = parameters, slots, distributed
        self._rank = dist.get_rank() if distributed else 0

    @property
    def sent_bytes(self) -> int:
        return 4 * self._parameters.summed.numel() if self._distributed else 0

    def begin(self, facts: Facts) -> None:
        self._slots.write(self._parameters.facts, facts, self._rank)

    def finish(self) -> ReducedFacts:
        if self._distributed:
            dist.all_reduce(self._parameters.summed)
        return self._slots.read(self._parameters.facts)


class OverlappedReduction:
    """All-reduces during the backward pass: a layer's gradients are posted as soon as they are complete.

    Buckets are posted from the last layer to the first, small layers together, in the same order on every worker. Facts
    are sent in float32. In bfloat16 a sum over workers is rounded to 8 bits of mantissa: a relative error of 2^-8 at
    most in each term and each partial sum. In float32 it equals the sum of :class:`SynchronousReduction`, to the bit
    for two workers; with more, the order of terms depends on the length of a message.
    """

    def __init__(self, parameters: FlatParameters, slots: Slots, dtype: torch.dtype = torch.bfloat16) -> None:
        self._parameters, self._slots = parameters, slots
        self._facts, self._rank = parameters.facts, dist.get_rank()
        self._travels = parameters.gradients  # float32 gradients are summed in place
        if dtype != torch.float32:
            self._travels = torch.zeros_like(parameters.values, dtype=dtype)
        self._spans, bucket_of = _buckets([parameter.numel() for parameter in parameters.list])
        self._sizes = [bucket_of.count(bucket) for bucket in range(len(self._spans))]
        self._missing = list(self._sizes)
        self._posted = 0
        self._works: list[dist.Work] = []
        # The default argument binds the bucket of this parameter; the name alone would be that of the last one.
        for parameter, bucket in zip(parameters.list, bucket_of, strict=True):
            parameter.register_post_accumulate_grad_hook(lambda _, bucket=bucket: self._count_complete(bucket))

    @property
    def sent_bytes(self) -> int:
        return self._travels.element_size() * self._travels.numel() + 4 * self._facts.numel()

    def begin(self, facts: Facts) -> None:
        self._missing, self._posted = list(self._sizes), 0
        self._slots.write(self._facts, facts, self._rank)
        self._works = [_start(self._facts)]  # first, and before any gradient: the same order on all workers

    def finish(self) -> ReducedFacts:
        self._post(len(self._spans))  # unused parameters get no gradient, so their buckets are still unposted
        for work in self._works:
            work.wait()
        self._works = []
        if self._travels is not self._parameters.gradients:
            self._parameters.gradients.copy_(self._travels)  # bfloat16 -> float32
        return self._slots.read(self._facts)

    def _count_complete(self, bucket: int) -> None:
        """Count a parameter whose gradient is complete; post all complete buckets up to the first incomplete one."""
        if self._works:  # empty outside begin() and finish(): a backward pass of another caller is not reduced
            self._missing[bucket] -= 1
            # A bucket completed out of order waits: collectives must have the same order on all workers.
            num_complete = self._posted
            while num_complete < len(self._spans) and self._missing[num_complete] == 0:
                num_complete += 1
            self._post(num_complete)

    def _post(self, num_complete: int) -> None:
        for start, end in self._spans[self._posted : num_complete]:
            span = self._travels[start:end]
            if self._travels is not self._parameters.gradients:
                span.copy_(self._parameters.gradients[start:end])  # float32 -> bfloat16
            self._works.append(_start(span))
        self._posted = max(self._posted, num_complete)  # finish() posts the rest


def make_reduction(
    parameters: FlatParameters, slots: Slots, *, gradients: str = "float32", distributed: bool
) -> Reduction:
    """Return the reduction for a type of gradients.

    Args:
        parameters: gradients, and ``slots.count`` elements for facts.
        slots: layout of the facts.
        gradients: type of the all-reduce, one of `GRADIENTS`.
        distributed: True if there are other workers.

    Raises:
        ValueError: if ``gradients`` is unknown.
    """
    if gradients not in GRADIENTS:
        raise ValueError(f"gradients must be one of {GRADIENTS}, got {gradients!r}")
    if distributed and gradients == "bfloat16":
        return OverlappedReduction(parameters, slots)
    if distributed and (gradients == "float32-by-layer" or dist.get_world_size() == 2):
        return OverlappedReduction(parameters, slots, torch.float32)
    return SynchronousReduction(parameters, slots, distributed=distributed)


def _start(buffer: Tensor) -> dist.Work:
    work: dist.Work = dist.all_reduce(buffer, async_op=True)
    return work


def _buckets(sizes: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Split a flat buffer into spans of whole parameters, the last parameters first.

    Returns:
        ``(start, end)`` of each span, and the index of each parameter's span.

    Example:
        >>> _buckets([2**14, 3, 2**15])
        ([(16387, 49155), (0, 16387)], [1, 1, 0])
    """
    offsets = torch.tensor([0, *sizes]).cumsum(0).tolist()  # offset of each parameter, and the total
    spans: list[tuple[int, int]] = []
    bucket_of = [0] * len(sizes)
    end = offsets[-1]
    # From the last parameter on: the backward pass completes its gradient first.
    for index in reversed(range(len(sizes))):
        bucket_of[index] = len(spans)
        if end - offsets[index] >= _BUCKET or index == 0:
            spans.append((offsets[index], end))
            end = offsets[index]
    return spans, bucket_of
