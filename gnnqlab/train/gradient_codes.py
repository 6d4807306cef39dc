"""All-reduce of weight gradients as int8 codes: reduce-scatter of codes, a float32 sum, all-gather of codes.

It replaces a float32 all-reduce and has the same two rounds. The gradients of a worker are one flat vector, split into
blocks of 256 with one scale per block. ::

    1. every worker quantizes all its blocks and sends those of chunk j to worker j
    2. worker j dequantizes the received blocks to float32 and adds them in the order of ranks
    3. worker j quantizes the sums and sends them to all workers

Both steps round stochastically with independent noise, so the result is an unbiased estimate of the summed gradients.
All workers decode the same codes, so their results are identical to the bit.

TANGO (Chen et al., SC 2023, section 4, Fig. 9) transfers quantized gradients without specifying the summation.
Codes cannot be added inside an all-reduce, because the workers' scales differ.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.noise import stream
from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.reduction import Facts, ReducedFacts, Slots

__all__ = ["BLOCK", "AsCodes"]

BLOCK = 256
"""Gradients that share a scale."""
_ROW_BYTES = BLOCK + 4
"""Bytes of a block: 256 codes and a float32 scale."""


class AsCodes:
    """Reduction that sends gradients as int8 codes and facts in float32.

    With n gradients and P workers there are ``M = P ceil(ceil(n / 256) / P)`` blocks; every worker contributes
    ``260 M`` bytes and sends ``2 (P - 1) / P`` of them, as a ring all-reduce does of its ``4 n``.

    Args:
        parameters: buffers of the gradients, of the same layout on all workers.
        slots: positions of the facts in their buffer.
        seed: of the rounding noise.
    """

    def __init__(self, parameters: FlatParameters, slots: Slots, *, seed: int) -> None:
        self._parameters, self._slots, self._seed = parameters, slots, seed
        self._rank, self._workers = dist.get_rank(), dist.get_world_size()
        blocks = -(-parameters.gradients.numel() // BLOCK)
        self._chunk = -(-blocks // self._workers)  # blocks per worker, equal for all: all_to_all_single needs that
        self._padded = torch.zeros(self._workers * self._chunk, BLOCK)  # (M, 256), zeros behind the gradients
        self._step = 0

    @property
    def sent_bytes(self) -> int:
        return len(self._padded) * _ROW_BYTES + 4 * self._parameters.facts.numel()

    def begin(self, facts: Facts) -> None:
        self._slots.write(self._parameters.facts, facts, self._rank)

    def finish(self) -> ReducedFacts:
        # The noise of a block depends on its number in the whole vector, not on the worker that rounds it.
        gradients, numbers = self._parameters.gradients, torch.arange(len(self._padded))
        flat_view = self._padded.view(-1)[: gradients.numel()]  # (n,) view of (M, 256)
        flat_view.copy_(gradients)
        # Sender 0 is the noise of the sums, so that of the workers' own blocks starts at 1.
        own_codes = self._quantize(self._padded, numbers, sender=self._rank + 1)  # (M, 256) -> (M, 260) bytes
        parts = torch.empty_like(own_codes)
        dist.all_to_all_single(parts, own_codes)  # (M, 260): chunk `rank` of every worker, by rank
        total = torch.zeros(self._chunk, BLOCK)  # (M / P, 256)
        for part in parts.split(self._chunk):  # in the order of ranks: float addition is not associative
            total += _dequantize(part)
        first_block = self._rank * self._chunk
        # (M / P, 256) -> (M / P, 260) bytes; one worker rounds each sum, so all decode the same codes.
        sums = self._quantize(total, numbers[first_block:][: self._chunk], sender=0)
        # The chunks of `parts` are views: the gathered codes overwrite those received before.
        dist.all_gather(list(parts.split(self._chunk)), sums)
        self._padded.copy_(_dequantize(parts))
        gradients.copy_(flat_view)
        dist.all_reduce(self._parameters.facts)
        self._step += 1  # new noise in every step
        return self._slots.read(self._parameters.facts)

    def _quantize(self, blocks: Tensor, numbers: Tensor, *, sender: int) -> Tensor:
        """Return codes and scales of blocks as bytes, uint8 ``(m, 260)``."""
        noise = NoiseCounter(numbers, self._seed, self._step, stream("gradient", 0, sender=sender))
        try:
            rows = quantize(blocks, noise=noise)
        except NonFiniteRow as error:
            raise RuntimeError(
                f"gradients must be finite to be summed as codes, rank {self._rank} got NaN or Inf in step {self._step}"
                "; lower the learning rate (--lr)"
            ) from error
        # int8 (m, 256) and float32 (m,), both as bytes -> (m, 260)
        return torch.cat([rows.codes.view(torch.uint8), rows.scales.unsqueeze(1).view(torch.uint8)], 1)


def _dequantize(packed_blocks: Tensor) -> Tensor:
    codes, scales = packed_blocks.split([BLOCK, 4], 1)  # (m, 260) -> (m, 256), (m, 4)
    return codes.view(torch.int8) * scales.contiguous().view(torch.float32)  # (m, 256) float32
