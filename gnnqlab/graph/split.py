"""Seeded random splits for graphs without one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["random_split"]


def random_split(
    candidates: Tensor, *, seed: int, train: float = 0.6, val: float = 0.2
) -> tuple[Tensor, Tensor, Tensor]:
    """Split nodes at random into train, validation and test; the remainder of both shares is test.

    Args:
        candidates: node ids, integer, shape ``(K,)``; usually the labelled nodes.
        seed: the split is a function of ``(seed, candidates)`` only.
        train, val: shares in ``[0, 1]`` with a sum of at most 1.

    Returns:
        Three sorted int64 tensors, disjoint, that together hold every candidate.

    Raises:
        ValueError: if a share is outside its range or the seed negative.

    Example:
        >>> [len(part) for part in random_split(torch.arange(10), seed=0)]
        [6, 2, 2]
    """
    # The tolerance admits the rounding error of the sum.
    if not (0 <= train <= 1 and 0 <= val <= 1 and train + val <= 1 + 1e-9):
        raise ValueError(f"shares must lie in [0, 1] and sum to at most 1, got train={train}, val={val}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    ids = torch.as_tensor(candidates).to(torch.int64)
    # The second word separates these random numbers from those of the generators of graphs.
    order = torch.from_numpy(np.random.default_rng([seed, 0x5911]).permutation(ids.numel()))
    num_train = round(train * ids.numel())
    # Both shares may be rounded up: validation then has what training leaves.
    num_val = min(round(val * ids.numel()), ids.numel() - num_train)
    shuffled_ids = ids[order]
    parts = shuffled_ids.split([num_train, num_val, ids.numel() - num_train - num_val])
    return tuple(part.sort().values for part in parts)  # type: ignore[return-value]
