"""Counts of work are those of the tensors themselves, and of PyTorch's own counter."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.theory.limits import NeighbourSum, Product, RowPass
from tests.cases import each


@each(("rows", "inner", "columns"), [(7, 5, 3), (1, 1, 1), (4, 0, 2), (0, 3, 3)])
def test_operations_of_a_product(rows: int, inner: int, columns: int) -> None:
    with FlopCounterMode(display=False) as counter:
        torch.ones(rows, inner) @ torch.ones(inner, columns)
    assert Product(rows=rows, inner=inner, columns=columns).flops == counter.get_total_flops()


@each("weighted", (True, False))
def test_bytes_of_a_sum_are_those_of_its_matrix_and_of_its_rows(weighted: bool) -> None:
    indptr, indices = torch.tensor([0, 2, 2, 5]), torch.tensor([6, 1, 1, 3, 6], dtype=torch.int32)  # 1, 3, 6 are used
    matrix = Adjacency(indptr, indices, torch.ones(5) if weighted else None, num_columns=7)
    used, made = torch.ones(3, 11), torch.ones(matrix.num_rows, 11)
    here = [used, made, *(part for part in matrix.csr if part is not None)]
    one = NeighbourSum(edges=5, source_rows=3, rows=3, columns=11, weighted=weighted)
    assert one.bytes == sum(tensor.nbytes for tensor in here)
    added = NeighbourSum(edges=5, source_rows=3, rows=3, columns=11, weighted=weighted, added=True)
    assert added.bytes - one.bytes == made.nbytes


def test_bytes_of_a_pass_are_those_of_its_rows() -> None:
    x, out = torch.ones(5, 3), torch.ones(5, 6)
    assert RowPass(num_read=x.numel(), num_written=out.numel()).bytes == x.nbytes + out.nbytes
