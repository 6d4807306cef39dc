"""SparseRows compared with the equal dense matrix."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnqlab.graph import SparseRows
from tests.cases import each


def random_sparse(rows: int, columns: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(rows, columns, generator=generator)
    return dense * (torch.rand(rows, columns, generator=generator) < 0.3)


@given(st.integers(0, 6), st.integers(0, 5), st.integers(0, 1000), st.data())
def test_rows_of_any_order_match_the_dense_matrix(rows: int, columns: int, seed: int, data: st.DataObject) -> None:
    dense = random_sparse(rows, columns, seed)
    sparse = SparseRows.from_dense(dense)
    assert torch.equal(sparse.to_dense(), dense)
    assert sparse.shape == dense.shape and len(sparse) == rows and sparse.num_values == int((dense != 0).sum())
    ids = data.draw(st.lists(st.integers(0, rows - 1), max_size=8)) if rows else []
    chosen = torch.tensor(ids, dtype=torch.int64)
    assert torch.equal(sparse.index_rows(chosen).to_dense(), dense[chosen])


def test_scipy_duplicates_are_summed() -> None:
    from scipy.sparse import coo_array

    matrix = coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert SparseRows.from_scipy(matrix).to_dense().tolist() == [[0.0, 3.0], [4.0, 0.0]]


def test_nbytes_and_repr() -> None:
    rows = SparseRows.from_dense(torch.eye(3))
    assert rows.nbytes == 4 * 8 + 3 * 4 + 3 * 4
    assert repr(rows) == "SparseRows(shape=(3, 3), values=3)"


def test_row_ids_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"row ids must lie in \[0, 3\), got values from 1 to 3"):
        SparseRows.from_dense(torch.eye(3)).index_rows(torch.tensor([1, 3]))


@each(
    ("changes", "error", "text"),
    [
        ({"indices": torch.tensor([0, 1])}, TypeError, "indices of sparse features must be a one-dimensional int32"),
        ({"values": torch.ones(3)}, ValueError, "one column index per value, got 2 indices and 3 values"),
        ({"num_columns": 1}, ValueError, r"indices of the sparse features must lie in \[0, 1\), got 1 in row 1"),
        ({"num_columns": -1}, ValueError, "num_columns must be an integer of at least 0, got -1"),
        ({"indptr": torch.tensor([0, 1, 1])}, ValueError, "must run from 0 to the number of indices, 2, got 0 to 1"),
        (
            {"indptr": torch.tensor([0, 0, 2]), "indices": torch.tensor([1, 1], dtype=torch.int32)},
            ValueError,
            "must be strictly ascending within a row, got 1 before 1 in row 1; SparseRows.from_scipy sorts them",
        ),
        (
            {"values": torch.tensor([1.0, float("nan")])},
            ValueError,
            "features must be finite, got nan in row 1, column 1",
        ),
    ],
)
def test_errors(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    given: dict[str, Any] = {
        "indptr": torch.tensor([0, 1, 2]),
        "indices": torch.tensor([0, 1], dtype=torch.int32),
        "values": torch.ones(2),
        "num_columns": 2,
    }
    with pytest.raises(error, match=text):
        SparseRows(**{**given, **changes})
