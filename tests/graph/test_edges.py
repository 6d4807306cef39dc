"""Edge lists to CSR, compared with sets and counters computed by hand."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnqlab.graph.edges import build_csr, edge_list
from tests.cases import each
from tests.steps import steps


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    num_nodes = draw(st.integers(1, 9))
    node = st.integers(0, num_nodes - 1)
    return num_nodes, draw(st.lists(st.tuples(node, node), max_size=30))


def brute_force(
    num_nodes: int, edges: list[tuple[int, int]], symmetrize: bool, deduplicate: bool, self_loops: str
) -> list[tuple[int, int]]:
    """Return every stored edge as (destination, source), sorted."""
    count: Counter[tuple[int, int]] = Counter()
    for u, v in edges:
        if u == v:
            count[v, u] += self_loops == "keep"
        else:
            count[v, u] += 1
            count[u, v] += symmetrize
    if deduplicate:
        count = Counter({edge: min(times, 1) for edge, times in count.items()})
    if self_loops == "add":
        count.update((v, v) for v in range(num_nodes))
    return sorted(count.elements())


@given(edge_lists(), st.booleans(), st.booleans(), st.sampled_from(["add", "keep", "remove"]))
def test_matches_brute_force(
    graph: tuple[int, list[tuple[int, int]]], symmetrize: bool, deduplicate: bool, self_loops: str
) -> None:
    num_nodes, edges = graph
    indptr, indices, *_ = build_csr(
        [u for u, _ in edges],
        [v for _, v in edges],
        num_nodes=num_nodes,
        symmetrize=symmetrize,
        deduplicate=deduplicate,
        self_loops=self_loops,  # type: ignore[arg-type]
    )
    src, dst = edge_list(indptr, indices)
    stored = list(zip(dst.tolist(), src.tolist()))
    assert stored == brute_force(num_nodes, edges, symmetrize, deduplicate, self_loops)
    assert (indptr.dtype, indices.dtype, len(indptr)) == (torch.int64, torch.int32, num_nodes + 1)


@each("kind", [list, np.uint8, np.int32, np.uint64, torch.int16])
def test_any_integer_list_will_do(kind: object) -> None:
    edges = [[2, 0, 1], [0, 1, 1]]
    if isinstance(kind, torch.dtype):
        src, dst = torch.tensor(edges, dtype=kind)
    else:
        src, dst = edges if kind is list else np.array(edges, dtype=kind)  # type: ignore[call-overload]
    indptr, indices, *_ = build_csr(src, dst, num_nodes=3)
    assert indptr.tolist() == [0, 3, 5, 7]
    assert indices.tolist() == [0, 1, 2, 0, 1, 0, 2]


def test_ids_near_the_limit_do_not_overflow() -> None:
    num_nodes = 70_000  # its square does not fit 32 bits
    indptr, indices, *_ = build_csr(
        np.array([num_nodes - 1], dtype=np.int32), np.array([num_nodes - 2]), num_nodes=num_nodes, self_loops="remove"
    )
    assert indices.tolist() == [num_nodes - 1, num_nodes - 2]
    assert indptr[-3:].tolist() == [0, 1, 2]


def test_the_input_is_left_alone() -> None:
    src, dst = np.array([2, 1, 0]), np.array([0, 0, 0])
    build_csr(src, dst, num_nodes=3, symmetrize=False, self_loops="keep")
    assert src.tolist() == [2, 1, 0] and dst.tolist() == [0, 0, 0]


@each(
    ("src", "dst", "options", "error", "text"),
    [
        ([0, 5], [1, 1], {}, ValueError, r"src must hold node ids in \[0, 3\), got 5 at position 1; raise num_nodes"),
        ([0, 1], [-1, 1], {}, ValueError, r"dst must hold node ids in \[0, 3\), got -1 at position 0"),
        ([0], [1, 2], {}, ValueError, "src and dst must have the same length, got 1 and 2"),
        ([0.5], [1], {}, TypeError, "src must be a one-dimensional list of integers, got float64"),
        ([[0]], [[1]], {}, TypeError, r"src must be a one-dimensional list of integers, got int64 of shape \(1, 1\)"),
        ([0], [1], {"num_nodes": 0}, ValueError, r"num_nodes must be an integer in \[1, 2147483647\], got 0"),
        ([0], [0], {"num_nodes": True}, ValueError, r"num_nodes must be an integer in \[1, 2147483647\], got True"),
        ([0], [1], {"num_nodes": 2**31}, ValueError, "num_nodes must be an integer in"),
        ([0], [1], {"self_loops": "twice"}, ValueError, r"self_loops must be one of \('add', 'keep', 'remove'\)"),
    ],
)
def test_errors(src: object, dst: object, options: dict, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build_csr(src, dst, **{"num_nodes": 3, **options})


def test_build_csr_runs_no_python_loop_over_edges() -> None:
    ends = np.random.default_rng(0).integers(200, size=(2, 100_000))
    few, many = (steps(partial(build_csr, *ends[:, :edges], num_nodes=200)) for edges in (1_000, 100_000))
    assert 0 < many <= few
