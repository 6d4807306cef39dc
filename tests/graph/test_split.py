"""Random splits are disjoint, complete and a function of the seed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnqlab.graph.split import random_split


@given(st.sets(st.integers(0, 500), max_size=60), st.integers(0, 99))
def test_every_candidate_once(candidates: set[int], seed: int) -> None:
    ids = torch.tensor(sorted(candidates), dtype=torch.int64)
    parts = random_split(ids, seed=seed)
    assert sorted(torch.cat(parts).tolist()) == ids.tolist()
    assert len(parts[0]) == round(0.6 * len(ids))
    assert all(torch.equal(part, part.sort().values) for part in parts)
    assert all(torch.equal(a, b) for a, b in zip(parts, random_split(ids, seed=seed)))


def test_seeds_differ() -> None:
    ids = torch.arange(100)
    assert not torch.equal(random_split(ids, seed=0)[0], random_split(ids, seed=1)[0])


def test_shares_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"shares must lie in \[0, 1\] and sum to at most 1, got train=0.8, val=0.3"):
        random_split(torch.arange(4), seed=0, train=0.8, val=0.3)
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        random_split(torch.arange(4), seed=-1)
