"""The citation graphs of Planetoid (Yang et al., ICML 2016): folders with ``ind.NAME.*`` files.

The files are Python 2 pickles. They are read by a restricted unpickler that can build only numpy
arrays, sparse rows and dictionaries of lists.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.features import SparseRows

__all__ = ["PARTS", "planetoid_names", "read_planetoid"]

# ``x`` repeats the first rows of ``allx`` and is not read.
PARTS = ("y", "tx", "ty", "allx", "ally", "graph", "test.index")
NUM_VAL = 500


def planetoid_names(folder: Path) -> list[str]:
    """List the names with a file ``ind.NAME.graph`` in the folder."""
    return sorted(file.name.removeprefix("ind.").removesuffix(".graph") for file in folder.glob("ind.*.graph"))


def read_planetoid(folder: Path, name: str) -> EdgeList:
    """Read one citation graph with its official split.

    Training nodes are the rows of ``y`` (20 per class), validation nodes the next 500, test nodes
    the ids in ``test.index``. Test rows are stored in the order of that file, all others by node id.
    Ids missing in ``test.index`` (15 in citeseer) are nodes without features and label. Edges are
    returned as stored: in both directions, a few of them twice.

    Args:
        folder: holds ``ind.NAME.y``, ``.tx``, ``.ty``, ``.allx``, ``.ally``, ``.graph`` and
            ``.test.index``.
        name: NAME.

    Raises:
        ValueError: if a file is missing, malformed, or contains objects other than arrays.
    """
    files = {part: folder / f"ind.{name}.{part}" for part in PARTS}
    missing_files = [file.name for file in files.values() if not file.is_file()]
    if missing_files:
        raise ValueError(f"a planetoid graph must have all of ind.{name}.*, {folder} lacks {', '.join(missing_files)}")
    allx, tx = (_sparse_rows(files[part]) for part in ("allx", "tx"))
    ally, ty = (_one_hot(files[part]) for part in ("ally", "ty"))
    num_train = len(_one_hot(files["y"]))  # nodes in y
    neighbours = _unpickle(files["graph"])
    try:
        test = np.loadtxt(files["test.index"], dtype=np.int64, ndmin=1)
        degree = np.fromiter((len(lists) for lists in neighbours.values()), dtype=np.int64, count=len(neighbours))
        node = np.fromiter(neighbours.keys(), dtype=np.int64, count=len(neighbours))
        dst = np.fromiter((v for lists in neighbours.values() for v in lists), dtype=np.int64, count=int(degree.sum()))
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"ind.{name}.graph and .test.index in {folder} cannot be read: {error}") from error
    num_known = len(ally)
    if len(allx) != num_known or len(tx) != len(ty) or len(test) != len(ty) or (len(test) and test.min() < num_known):
        raise ValueError(
            f"planetoid files must agree: rows of allx = ally, of tx = ty = test.index, test ids after them; got "
            f"{len(allx)}, {num_known}, {len(tx)}, {len(ty)}, {len(test)} in {folder} for {name}"
        )
    # Ids run to the largest test id, though some below it are missing in test.index.
    num_nodes = int(test.max()) + 1 if len(test) else num_known

    # Row of [allx; tx; one empty row] for each node; ids missing in test.index get the empty one.
    pick = np.full(num_nodes, num_known + len(test), dtype=np.int64)  # (N,)
    pick[:num_known] = np.arange(num_known)
    pick[test] = num_known + np.arange(len(test))
    one_hot = np.concatenate([ally, ty, np.zeros_like(ally[:1])])[pick]  # (N, C)
    stacked_features = SparseRows(
        # The offset of the empty row is the end of tx, twice.
        indptr=torch.cat([allx.indptr, allx.num_values + tx.indptr[1:], (allx.num_values + tx.indptr)[-1:]]),
        indices=torch.cat([allx.indices, tx.indices]),
        values=torch.cat([allx.values, tx.values]),
        num_columns=allx.num_columns,
    )
    return EdgeList(
        name=name,
        src=np.repeat(node, degree),
        dst=dst,
        num_nodes=num_nodes,
        features=stacked_features.index_rows(torch.from_numpy(pick)),
        labels=np.where(one_hot.any(1), one_hot.argmax(1), -1),  # a row of zeros: unlabelled
        train_idx=np.arange(num_train),
        val_idx=np.arange(num_train, min(num_train + NUM_VAL, num_known)),
        test_idx=np.sort(test),
        num_classes=one_hot.shape[1],
    )


class _StoredRows:
    """Replacement of scipy's ``csr_matrix`` for unpickling: stores the pickled state, executes nothing."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state


def _numeric_dtype(spec: object, *_: object) -> np.dtype:
    dtype = np.dtype(str(spec))
    # An array of objects could execute code when it is unpickled.
    if dtype.kind not in "biuf":
        raise pickle.UnpicklingError(f"arrays must be numbers, got dtype {dtype}")
    return dtype


def _latin1(text: str, _: str) -> bytes:
    """Encode text as latin-1, the way in which Python 3 pickles bytes for Python 2."""
    return text.encode("latin1")


def _from_buffer(buffer: object, dtype: np.dtype, shape: tuple[int, ...], order: str, *_: object) -> np.ndarray:
    """Build an array as NumPy 2 pickles contiguous ones."""
    return np.frombuffer(buffer, dtype=dtype).reshape(shape, order="F" if order == "F" else "C")  # type: ignore[call-overload]


def _scalar(dtype: np.dtype, data: bytes) -> Any:
    """Build a NumPy number, as keys of a dictionary may be."""
    return np.frombuffer(data, dtype=dtype)[0]


# numpy's function that builds an array during unpickling; its module differs between numpy versions.
_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
_ALLOWED: dict[str, Callable] = {
    "numpy.core.multiarray._reconstruct": _RECONSTRUCT,
    "numpy._core.multiarray._reconstruct": _RECONSTRUCT,
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": _numeric_dtype,
    "scipy.sparse.csr.csr_matrix": _StoredRows,
    "scipy.sparse._csr.csr_matrix": _StoredRows,
    "scipy.sparse._csr.csr_array": _StoredRows,
    "numpy._core.numeric._frombuffer": _from_buffer,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.core.multiarray.scalar": _scalar,
    "_codecs.encode": _latin1,
    "collections.defaultdict": defaultdict,
    "__builtin__.list": list,
    "builtins.list": list,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable:
        allowed_class = _ALLOWED.get(f"{module}.{name}")
        if allowed_class is None:
            raise pickle.UnpicklingError(f"it contains {module}.{name}")
        return allowed_class


def _unpickle(file: Path) -> Any:
    with file.open("rb") as stream:
        try:
            # latin-1 maps the bytes of Python 2 strings, array data among them, one to one.
            return _ArrayUnpickler(stream, encoding="latin1").load()
        except Exception as error:  # a damaged pickle can fail in any way
            raise ValueError(
                f"planetoid files must hold only numpy arrays, sparse rows and lists, {file} was refused: {error}; do "
                "not use a file from a source you do not trust"
            ) from error


def _sparse_rows(file: Path) -> SparseRows:
    from scipy.sparse import csr_array

    stored_matrix = _unpickle(file)
    try:
        state = stored_matrix.state
        # The name of the attribute depends on scipy's version.
        shape = tuple(int(length) for length in state.get("_shape", state.get("shape")))
        return SparseRows.from_scipy(csr_array((state["data"], state["indices"], state["indptr"]), shape=shape))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} must hold a sparse matrix in CSR: {error}") from error


def _one_hot(file: Path) -> np.ndarray:
    array = _unpickle(file)
    if not isinstance(array, np.ndarray) or array.ndim != 2:
        raise ValueError(f"{file} must hold one row of class indicators per node, got {type(array).__name__}")
    return array
