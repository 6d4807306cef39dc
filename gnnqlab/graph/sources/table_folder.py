"""Folder of a graph with a table of edges: its table of nodes, and arrays with one row per node.

A file that holds data of nodes is read, or the folder is refused with its name; other data files are named in the
graph's notes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from gnnqlab.graph.convert.splits import SPLIT_NAMES
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources import column_names
from gnnqlab.graph.sources.named_arrays import FEATURE_NAMES, LABEL_NAMES, edges_of_arrays, read_arrays
from gnnqlab.graph.sources.tables import SUFFIXES, TableOptions, columns_of, edges_of_tables, table_in

__all__ = ["read_table_folder", "read_tables", "refuse_node_files"]

_NODE_TABLES = ("nodes", "labels", "features")
"""Names of the table of nodes, of which a folder has one."""
_DATA = (*SUFFIXES, ".npy", ".npz", ".pt", ".pth", ".mat", ".bin")
_NODE_DATA = frozenset({*_NODE_TABLES, *FEATURE_NAMES, *LABEL_NAMES, *SPLIT_NAMES, "train", "val", "valid", "test"})
_ARGUMENT = re.compile(r"\b(?:id|label|split|source|target|targets|drop|edge_features|drop_edge_data)=")


def read_table_folder(folder: Path, edges: Path, options: TableOptions) -> EdgeList:
    """Read a table of edges, a table of nodes if there is one, and arrays of nodes.

    The table of nodes is called ``nodes``, ``labels`` or ``features``. Arrays are ``.npy`` files with usual names,
    ``features.npy``, ``labels.npy`` or ``train_mask.npy``, whose row ``i`` is node ``i``.

    Args:
        folder: the folder.
        edges: its table of edges.
        options: names of columns.

    Raises:
        ValueError: if a file cannot be read or holds further data of nodes, or ids and rows of arrays do not agree.
    """
    tables = [path for stem in _NODE_TABLES if (path := table_in(folder, stem)) is not None]
    nodes = tables[0] if tables else None
    arrays = sorted(folder.glob("*.npy"))
    left_out = refuse_node_files(folder, [edges, *tables[:1], *arrays])
    if nodes is not None and nodes.name.startswith("labels"):
        options = _with_label(nodes, options)
    result = read_tables(edges, nodes, options, name=folder.absolute().name)
    if arrays:
        _add_arrays(result, read_arrays(arrays), folder)
    if left_out:
        result.notes += (f"not read: {', '.join(left_out)}",)
    return result


def read_tables(edges: Path, nodes: Path | None, options: TableOptions, *, name: str | None = None) -> EdgeList:
    """Read tables by path; an error whose way out is an argument of ``read_edges`` has the call, and that of a command.

    Raises:
        ValueError: as ``edges_of_tables``.
    """
    try:
        return edges_of_tables(edges, nodes, options, name=name)
    except ValueError as error:
        if _ARGUMENT.search(str(error)) is None:
            raise
        paths = ", ".join(repr(str(path)) for path in (edges, nodes) if path is not None)
        raise ValueError(
            f"{error}; these are arguments of graph = gnnqlab.read_edges({paths}, ...), and on the command line "
            "--graph FOLDER reads what graph.save(FOLDER) has written; or edit the file"
        ) from error


def refuse_node_files(folder: Path, used: Collection[Path]) -> list[str]:
    """Return the names of other data files of a folder, none of which holds data of nodes.

    Args:
        folder: the folder.
        used: files that are read.

    Raises:
        ValueError: with the name of each file that holds data of nodes and would not be read.
    """
    others = [path for path in sorted(folder.iterdir()) if path not in used and _data_stem(path) is not None]
    refused = [path.name for path in others if _data_stem(path) in _NODE_DATA]
    if refused:
        read = ", ".join(path.name for path in used)
        raise ValueError(
            f"every file with data of nodes in {folder} must be read, got {', '.join(refused)} and {read}; join them "
            "in one table called nodes, a row per node (columns id, label, split, and features), or save arrays as "
            "features.npy, labels.npy and train_mask.npy, whose row i is node i; or move them away"
        )
    return [path.name for path in others if not path.name.lower().startswith(("readme", "license"))]


def _data_stem(path: Path) -> str | None:
    """Return the name of a data file without its endings; ``None`` for another file."""
    name = path.name.removesuffix(".gz")
    is_data = Path(name).suffix.lower() in _DATA and path.is_file()
    return Path(name).stem if is_data else None


def _with_label(table: Path, options: TableOptions) -> TableOptions:
    """Return the options for a table of classes alone, whose column need not have a usual name."""
    columns = columns_of(table, options)
    if options.label or len(columns) > 2 or column_names.those_named(columns, column_names.LABELS):
        return options
    return replace(options, label=columns[-1], id=columns[0] if len(columns) == 2 else None)


def _add_arrays(result: EdgeList, arrays: Mapping[str, np.ndarray], folder: Path) -> None:
    """Add arrays of nodes to the edges."""
    files = ", ".join(f"{name}.npy" for name in arrays)
    num_rows = next((len(array) for name, array in arrays.items() if name in (*FEATURE_NAMES, *LABEL_NAMES)), 0)
    ids, ends = result.ids, {"src": np.asarray(result.src), "dst": np.asarray(result.dst)}
    # Without a table of nodes, ids of edges with gaps are nodes with edges among the rows.
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and 0 <= ids.min() and ids.max() < num_rows:
        ends, result.ids, ids = {name: ids[positions] for name, positions in ends.items()}, None, None
        result.src, result.dst = ends.values()
        result.num_nodes = num_rows
        result.notes = tuple(note for note in result.notes if not note.startswith("ids: "))
    if ids is not None:
        raise ValueError(
            f"row i of {files} in {folder} is node i, so ids must be integers from 0 to {max(num_rows - 1, 0)}, got "
            f"{np.asarray(ids)[0]!s}; number the nodes, or write a table of nodes with a "
            "column id and a column for each feature"
        )
    result.num_nodes = max(result.num_nodes, num_rows)
    added = edges_of_arrays(result.name, {**arrays, **ends, "num_nodes": result.num_nodes})
    for field in ("features", "labels", "train_idx", "val_idx", "test_idx"):
        values = vars(added)[field]
        if values is None:
            continue
        if vars(result)[field] is not None:
            raise ValueError(
                f"{folder} must hold {field} once, got them in the table of nodes and in one of {files}; move one away"
            )
        vars(result)[field] = values
    result.notes += (f"{files}: row i is node i",)
