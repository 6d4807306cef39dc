"""Adjacency matrices in files of other programs, read by scipy: Matrix Market and MATLAB."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

from gnnqlab.graph.convert.scipy_matrices import edges_of_scipy
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.named_arrays import edges_of_arrays, has_edges

__all__ = ["read_mat", "read_mtx"]

_MATLAB_NAMES = {
    "network": "A", "net": "A", "attributes": "x", "attrb": "x", "fea": "x", "group": "y", "class": "y", "label": "y",
}  # fmt: skip
_OF_INTEGERS = ("edge_index", "edges", "src", "dst", "edge_src", "edge_dst", "row", "col", "y", "Y", "labels", "gnd")


def read_mtx(path: Path, *, drop_edge_data: bool = False) -> EdgeList:
    """Read a square sparse matrix in Matrix Market format, ``.mtx`` or ``.mtx.gz``; its values are edge weights.

    Raises:
        ValueError: if the file is malformed, or the matrix is not square.
    """
    from scipy.io import mmread

    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            matrix = mmread(file)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} must be a matrix in Matrix Market format: {error}") from error
    if not hasattr(matrix, "tocoo"):
        raise ValueError(
            f"{path} must hold a sparse matrix (coordinate), got a dense one; pass it to gnnqlab.from_scipy"
        )
    edges = edges_of_scipy(
        matrix, name=path.name.removesuffix(".gz").removesuffix(".mtx"), drop_edge_data=drop_edge_data
    )
    edges.notes = (f"{path.name}: Matrix Market, {'with' if edges.edge_weights is not None else 'without'} weights",)
    return edges


def read_mat(path: Path, *, split: int = 0) -> EdgeList:
    """Read a MATLAB file: arrays with usual names, or Facebook100 (``A`` and ``local_info``), as LINKX uses it.

    The gender in column 1 of ``local_info`` is the class, and the other columns are one-hot features (Lim et al.,
    2021); 0 stands for a missing value.

    Raises:
        ValueError: if the file is malformed or has another content.
    """
    from scipy.io import loadmat

    try:
        contents = loadmat(path)
    except NotImplementedError as error:
        raise ValueError(
            f"{path} must be a MATLAB file of version 7 or older, got version 7.3, which is HDF5; save it with -v7, or "
            "read it with h5py and pass arrays to gnnqlab.Graph.from_edges"
        ) from error
    except Exception as error:  # scipy raises errors of several kinds for a damaged file
        raise ValueError(f"{path} must be a MATLAB file: {error}") from error
    arrays = {key: value for key, value in contents.items() if not key.startswith("__")}
    if "local_info" not in arrays or "A" not in arrays:
        return _of_usual_names(path, arrays, split)
    edges = edges_of_scipy(arrays["A"], name=path.stem)
    info = np.asarray(arrays["local_info"])  # (N, 7): status, gender, major, second major, dorm, year, high school
    edges.labels = np.where(info[:, 1] > 0, info[:, 1] - 1, -1).astype(np.int64)
    edges.features = _one_hot(np.delete(info, 1, axis=1))
    edges.notes = (
        f"{path.name}: Facebook100; class: gender, column 1 of local_info; features: its other columns, one-hot",
    )
    return edges


def _of_usual_names(path: Path, arrays: dict[str, Any], split: int) -> EdgeList:
    """Read arrays with usual names, or one square sparse matrix of any name; MATLAB counts classes from 1."""
    from scipy.sparse import issparse

    if set(arrays) == {"Problem"} and "A" in (arrays["Problem"].dtype.names or ()):
        # A structure of the SuiteSparse collection, whose other fields describe the matrix.
        arrays = {"A": arrays["Problem"]["A"][0, 0]}
    # Names as in MATLAB code: Network, Attributes, Label.
    arrays = {_MATLAB_NAMES.get(key.lower(), key): value for key, value in arrays.items()}
    if not has_edges(arrays):
        square = [key for key, value in arrays.items() if issparse(value) and value.shape[0] == value.shape[1]]
        if len(square) > 1:
            raise ValueError(
                f"{path} must hold one square sparse matrix, got {', '.join(square)}; read it with scipy.io.loadmat "
                "and pass one of them to gnnqlab.from_scipy"
            )
        arrays = {("A" if key in square else key): value for key, value in arrays.items()}
    arrays = {key: _as_integers(value) if key in _OF_INTEGERS else value for key, value in arrays.items()}
    edges = edges_of_arrays(path.stem, arrays, split=split)
    labels = edges.labels
    if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iu" and labels.size:
        if labels.min() == 1:
            edges.labels, edges.class_names = labels.astype(np.int64) - 1, tuple(range(1, int(labels.max()) + 1))
    return edges


def _as_integers(values: Any) -> Any:
    """Return whole numbers as integers, and sparse indicators of classes as a dense array."""
    array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    is_whole = array.dtype.kind == "f" and bool((array == np.floor(array)).all())
    return array.astype(np.int64) if is_whole else array


def _one_hot(columns: np.ndarray) -> Any:
    """Return the values of several columns as one sparse row of zeros and ones per node; 0 is no value."""
    from scipy.sparse import csr_array

    num_nodes, places, offset = len(columns), [], 0
    for column in columns.T:
        values, codes = np.unique(column, return_inverse=True)
        places.append(np.where(column == 0, -1, codes + offset))
        offset += len(values)
    place = np.stack(places, axis=1)  # (N, k)
    row, kind = np.nonzero(place >= 0)
    ones = np.ones(row.size, dtype=np.float32)
    return csr_array((ones, (row, place[row, kind])), shape=(num_nodes, offset))
