"""Weight gradients summed as int8 codes: scattered, summed in float32, rounded once more, and gathered.

What travels in place of a float32 all-reduce, in the same two rounds. All gradients of a worker are one row of numbers,
cut into blocks of 256; a block has a scale of its own. ::

    1. every worker rounds all its blocks, and sends worker j those of chunk j
    2. worker j adds what came, widened to float32, in the order of ranks
    3. it rounds the sums, and sends them to all

Both roundings are stochastic and their noise is independent, so the mean of what all hold is the sum of the gradients.
All widen the same codes, so they hold the same bits.

TANGO (Chen et al., SC 2023, section 4, Fig. 9) transfers quantized gradients and does not say how they are summed.
Codes cannot be added as they travel, as an all-reduce does: their scales differ.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.quantize import Noise, quantize
from gnnqlab.kernels.noise import stream
from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.reduction import Facts, Slots, Summed

__all__ = ["BLOCK", "AsCodes"]

BLOCK = 256
"""Gradients that share a scale."""
_ROW_BYTES = BLOCK + 4
"""Of a block's codes and its scale."""


class AsCodes:
    """Sums gradients as int8 codes; facts travel in float32.

    With n gradients and P workers there are ``M = P ceil(ceil(n / 256) / P)`` blocks; every worker puts ``260 M`` bytes
    into the sum and sends ``2 (P - 1) / P`` of them, as a ring all-reduce does of its ``4 n``.

    Args:
        parameters: whose gradients, alike on all workers.
        slots: where the facts stand.
        seed: of the noise.
    """

    def __init__(self, parameters: FlatParameters, slots: Slots, *, seed: int) -> None:
        self._parameters, self._slots, self._seed = parameters, slots, seed
        self._rank, self._workers = dist.get_rank(), dist.get_world_size()
        blocks = -(-parameters.gradients.numel() // BLOCK)
        self._chunk = -(-blocks // self._workers)
        self._padded = torch.zeros(self._workers * self._chunk, BLOCK)
        self._step = 0

    @property
    def sent_bytes(self) -> int:
        return len(self._padded) * _ROW_BYTES + 4 * self._parameters.facts.numel()

    def begin(self, facts: Facts) -> None:
        self._slots.write(self._parameters.facts, facts, self._rank)

    def finish(self) -> Summed:
        gradients, numbers = self._parameters.gradients, torch.arange(len(self._padded))
        flat = self._padded.view(-1)[: gradients.numel()]
        flat.copy_(gradients)
        own = self._rounded(self._padded, numbers, sender=self._rank + 1)
        parts = torch.empty_like(own)
        dist.all_to_all_single(parts, own)
        total = torch.zeros(self._chunk, BLOCK)
        for part in parts.split(self._chunk):
            total += _widened(part)
        first = self._rank * self._chunk
        dist.all_gather(list(parts.split(self._chunk)), self._rounded(total, numbers[first:][: self._chunk], sender=0))
        self._padded.copy_(_widened(parts))
        gradients.copy_(flat)
        dist.all_reduce(self._parameters.facts)
        self._step += 1
        return self._slots.read(self._parameters.facts)

    def _rounded(self, blocks: Tensor, numbers: Tensor, *, sender: int) -> Tensor:
        """Return codes and scales of blocks as bytes, uint8 ``(m, 260)``."""
        noise = Noise(numbers, self._seed, self._step, stream("gradient", 0, sender=sender))
        try:
            rows = quantize(blocks, noise=noise)
        except NonFiniteRow as error:
            raise RuntimeError(
                f"gradients must be finite to be summed as codes, rank {self._rank} got NaN or Inf in step {self._step}"
                "; lower the learning rate (--lr)"
            ) from error
        return torch.cat([rows.codes.view(torch.uint8), rows.scales.unsqueeze(1).view(torch.uint8)], 1)


def _widened(rounded: Tensor) -> Tensor:
    codes, scales = rounded.split([BLOCK, 4], 1)
    return codes.view(torch.int8) * scales.contiguous().view(torch.float32)
