"""Counter-based noise in plain PyTorch: Philox4x32-7, 16 bits for each element.

Key: the two halves of the seed. Counter: (global node id, column // 8, epoch, stream). The four words of one block are
eight 16-bit values, low half first, so column ``c`` has half ``c % 2`` of word ``(c % 8) // 2``. With 16 bits the bias
of rounding is at most 2**-17 of a step.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), with seven rounds.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["dropout", "dropout_values", "philox", "uniform16", "uniform16_at"]

ROUNDS = 7
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Encrypt counters of four 32-bit words (int64 tensors in ``[0, 2**32)``) under a 64-bit seed."""
    c0, c1, c2, c3 = counter
    key0, key1 = seed & _WORD, seed >> 32
    # A round multiplies two words, crosses the halves of the products, and mixes in the key.
    for _ in range(ROUNDS):
        # The product overflows int64, but its 64 bits equal those of the unsigned product.
        product0, product1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0 = ((product1 >> 32) & _WORD) ^ c1 ^ key0
        c1 = product1 & _WORD
        c2 = ((product0 >> 32) & _WORD) ^ c3 ^ key1
        c3 = product0 & _WORD
        key0, key1 = (key0 + WEYL[0]) & _WORD, (key1 + WEYL[1]) & _WORD  # next round's key
    return c0, c1, c2, c3


def uniform16(ids_N: Tensor, columns: int, *, seed: int, epoch: int, stream: int) -> Tensor:
    """Generate 16 random bits for each row id and column: int32 ``(N, columns)``."""
    blocks = torch.arange(-(-columns // 8), device=ids_N.device)  # (B,): eight columns each
    rows_NB, blocks_NB = torch.broadcast_tensors(ids_N.long()[:, None], blocks)  # (N, 1), (B,) -> (N, B)
    words = philox((rows_NB, blocks_NB, torch.full_like(rows_NB, epoch), torch.full_like(rows_NB, stream)), seed)
    # Four words (N, B) are eight columns: (N, B, 8) -> (N, 8 B) -> (N, columns).
    halves = [half for word in words for half in (word & 0xFFFF, word >> 16)]
    return torch.stack(halves, dim=-1).reshape(ids_N.numel(), 8 * blocks.numel())[:, :columns].to(torch.int32)


def uniform16_at(ids_E: Tensor, columns_E: Tensor, *, seed: int, epoch: int, stream: int) -> Tensor:
    """Generate the bits of `uniform16` for single elements ``(ids[e], columns[e])``: int32 ``(E,)``."""
    ids_E, columns_E = ids_E.long(), columns_E.long()
    counter = (ids_E, columns_E // 8, torch.full_like(ids_E, epoch), torch.full_like(ids_E, stream))
    words_E4 = torch.stack(philox(counter, seed), dim=-1)  # (E, 4)
    word_E = words_E4.gather(1, (columns_E % 8 // 2)[:, None])[:, 0]  # (E,)
    # Odd columns have the upper half of the word.
    return ((word_E >> (columns_E % 2 * 16)) & 0xFFFF).to(torch.int32)


def dropout(x_ND: Tensor, ids_N: Tensor, *, threshold: int, seed: int, epoch: int, stream: int) -> Tensor:
    """Retain elements with bits of at least ``threshold``, multiplied by ``65536 / (65536 - threshold)``."""
    bits_ND = uniform16(ids_N, x_ND.shape[1], seed=seed, epoch=epoch, stream=stream)
    return _masked(x_ND, bits_ND >= threshold, threshold)


def dropout_values(
    values_E: Tensor, ids_E: Tensor, columns_E: Tensor, *, threshold: int, seed: int, epoch: int, stream: int
) -> Tensor:
    """Apply `dropout` to the stored elements of a sparse matrix."""
    bits_E = uniform16_at(ids_E, columns_E, seed=seed, epoch=epoch, stream=stream)
    return _masked(values_E, bits_E >= threshold, threshold)


def _masked(x: Tensor, mask: Tensor, threshold: int) -> Tensor:
    # bfloat16 is computed in float32 and rounded once at the end, as in the compiled kernel.
    factor = torch.tensor(65536 / (65536 - threshold), dtype=torch.float32, device=x.device)
    wide_x = x if x.dtype == torch.float64 else x.float()
    return torch.where(mask, wide_x * factor, 0.0).to(x.dtype)
