"""Sums of heads: the same bits in one pass and in one per head; the faster way is chosen once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from gnnqlab.kernels.codec.quantize import quantize
from gnnqlab.kernels.sparse import head_sums as heads_room
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.head_sums import WAYS, head_sums, measured_ways
from gnnqlab.kernels.sparse.int8_edges import int8_weighted_sum
from tests.kernels.backends import EVERY, on_native, use


def _case(edges: int, heads: int, features: int):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(20, (edges,), generator=generator) * 2
    indptr = torch.zeros(41, dtype=torch.int64)
    indptr[1:] = torch.bincount(rows, minlength=40).cumsum(0)
    adj = Adjacency(indptr, torch.randint(30, (edges,), generator=generator).int(), num_columns=30)
    x = quantize(torch.randn(30, heads * features, generator=generator))
    return adj, torch.randn(edges, heads, generator=generator), x


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize(("heads", "features"), [(1, 5), (2, 7), (3, 16), (4, 33), (2, 257)])
def test_both_ways_have_the_same_bits(backend: str, heads: int, features: int) -> None:
    """Without compiled kernels they differ by the order of float32 sums of some twenty terms."""
    adj, weights, x = _case(400, heads, features)
    with use(backend):
        together, apart = (head_sums(adj, weights, x, heads=heads, way=way) for way in ("together", "apart"))
        assert torch.equal(together, int8_weighted_sum(adj, weights, x, heads=heads))
    if backend == "reference":
        torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-5 * float(together.abs().max()))
    else:
        assert torch.equal(together, apart)


@on_native
@pytest.mark.parametrize("faster", ["together", "apart"])
def test_the_faster_way_is_measured_once_and_taken(monkeypatch: pytest.MonkeyPatch, faster: str, backend: str) -> None:
    adj, weights, x = _case(heads_room._MIN_EDGES, 2, 3)
    looked, taken, original = [], [], heads_room._sum_per_head

    def look(**ways: object) -> str:
        looked.append(sorted(ways))
        return faster

    def apart(*operands):
        taken.append("apart")
        return original(*operands)

    with use(backend):
        monkeypatch.setattr(heads_room, "_measured", {})
        monkeypatch.setattr(heads_room, "_faster", look)
        monkeypatch.setattr(heads_room, "_sum_per_head", apart)
        for _ in range(3):
            head_sums(adj, weights, x, heads=2)
        assert looked == [["apart", "together"]] and list(measured_ways().values()) == [faster]
        assert len(taken) == (3 if faster == "apart" else 0)
        for way in WAYS[1:]:
            taken.clear()
            head_sums(adj, weights, x, heads=2, way=way)
            assert taken == (["apart"] if way == "apart" else []), "a requested way is used"


def test_faster_names_the_way_with_the_shortest_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(heads_room, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def lasting(*seconds: float) -> Callable[[], None]:
        """Return a way whose calls take so many seconds of the clock."""
        left = iter(seconds)
        return lambda: now.__setitem__(0, now[0] + next(left))

    assert heads_room._faster(one=lasting(9.0, 1.0), other=lasting(2.0, 2.0)) == "one", "its best call counts"
    assert heads_room._faster(one=lasting(2.0, 3.0), other=lasting(1.5, 9.0)) == "other"


def test_invalid_way_weights_or_heads_raise_value_error() -> None:
    adj, weights, x = _case(400, 2, 3)
    with pytest.raises(ValueError, match="way must be one of"):
        head_sums(adj, weights, x, heads=2, way="both")
    for way in WAYS:
        with pytest.raises(ValueError, match="weights must be"):
            head_sums(adj, weights[:, :1], x, heads=2, way=way)
        with pytest.raises(ValueError, match="equal heads"):
            head_sums(adj, weights, x, heads=4, way=way)
