"""xoshiro256++ in NumPy: eight generators side by side, and the noise of a matrix whose rows are cut into blocks.

Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (ACM TOMS 2021); the states begin as words
of SplitMix64, as its authors recommend. Letters: N rows, D columns, B blocks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["BLOCK_ROWS", "LANES", "WORDS", "bits16", "draw", "first_states", "splitmix"]

LANES = 8
"""Generators whose words make up one draw."""
WORDS = 4
"""Of a generator's state."""
BLOCK_ROWS = 64
"""Rows that one set of lanes rounds, one after another."""

Words = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIXED = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def splitmix(seed: int, indices: Words) -> Words:
    """Return words of the sequence of SplitMix64 that a seed begins."""
    z = np.uint64(seed) + (indices + np.uint64(1)) * _GOLDEN
    for shift, multiplier in _MIXED:
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(multiplier)
    return z ^ (z >> np.uint64(31))


def first_states(seed: int, blocks: int) -> Words:
    """Return the states in which the lanes of each block begin, ``(B, lanes, words)``."""
    return splitmix(seed, np.arange(blocks * LANES * WORDS, dtype=np.uint64)).reshape(blocks, LANES, WORDS)


def draw(states: Words, draws: int) -> Words:
    """Return ``draws`` words of each generator, ``(draws, ...)``, from states ``(..., words)``, which do not change."""
    s = [states[..., word].copy() for word in range(WORDS)]
    out = np.empty((draws, *states.shape[:-1]), dtype=np.uint64)
    for i in range(draws):
        out[i] = _rotated(s[0] + s[3], 23) + s[0]
        shifted = s[1] << np.uint64(17)
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = _rotated(s[3], 45)
    return out


def bits16(rows: int, columns: int, *, seed: int) -> Tensor:
    """Sixteen random bits for each element: int32 ``(N, D)``; a row begins with a new draw of its block's lanes."""
    blocks, draws = -(-rows // BLOCK_ROWS), -(-columns // (4 * LANES))
    words = draw(first_states(seed, blocks), BLOCK_ROWS * draws).reshape(BLOCK_ROWS, draws, blocks, LANES)
    by_row = np.ascontiguousarray(words.transpose(2, 0, 1, 3)).astype("<u8", copy=False)
    values = by_row.view("<u2").reshape(blocks * BLOCK_ROWS, draws * 4 * LANES)
    return torch.from_numpy(values[:rows, :columns].astype(np.int32))


def _rotated(x: Words, by: int) -> Words:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))
