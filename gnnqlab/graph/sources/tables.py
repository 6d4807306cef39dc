"""Edge lists as tables: a file of edges and, optionally, a file of nodes, in CSV, TSV or Parquet.

The table of edges has the columns ``src`` and ``dst``, and optionally ``weight``. The table of nodes has one row per
node and any of the columns ``id``, ``label`` and ``split``; every other column is a feature. Nodes are the integers
from 0 to N - 1: those of ``id``, or else the row numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gnnqlab.graph.convert.values import as_targets, named_features, take_features, take_weights
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.graph import Graph

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["SUFFIXES", "edges_of_tables", "from_tables", "table_in"]

SUFFIXES = (".csv", ".tsv", ".parquet")
_SPLITS = ("train", "val", "test")


def from_tables(
    edges: str | Path | DataFrame,
    nodes: str | Path | DataFrame | None = None,
    *,
    edge_features: str | Sequence[str] | None = None,
    name: str | None = None,
    num_classes: int | None = None,
    drop_edge_data: bool = False,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Build a graph from a table of edges and a table of nodes.

    Args:
        edges: a ``.csv``, ``.tsv`` or ``.parquet`` file with a heading, or a ``pandas.DataFrame``, with the columns
            ``src`` and ``dst``: integers from 0 to N - 1. Without ``nodes`` every one of them must occur. ``weight``
            is a finite number of at least 0 in every row; see ``Graph.from_edges``.
        nodes: likewise, with one row per node. ``id`` is the node; without it row ``i`` is node ``i``. ``label`` is a
            class counted from 0, or -1 or empty for "unlabelled". ``split`` is ``train``, ``val``, ``test`` or empty.
            Every other column is a feature, a number in every row.
        edge_features: columns of ``edges`` to use as features, a finite number in every row.
        name: name of the graph in reports; by default the name of the file of edges.
        num_classes: number of classes; by default that of the labels.
        drop_edge_data: True to ignore columns of ``edges`` other than ``edge_features=``, including ``weight``. By
            default other columns are refused.
        symmetrize, deduplicate, self_loops: edge rules; ``None``: the defaults of ``build_csr``, as in the papers.
        seed: seed of the random 60/20/20 split of a graph with labels and without ``split``.

    Raises:
        ValueError: if a table cannot be read, lacks a column, or a value is invalid for its column.
        RuntimeError: for Parquet without pyarrow.

    Example:
        >>> import pandas as pd
        >>> edges = pd.DataFrame({"src": [0, 1], "dst": [1, 2]})
        >>> nodes = pd.DataFrame({"label": [0, 1, 1], "age": [30, 40, 50], "split": ["train", "val", "test"]})
        >>> from_tables(edges, nodes, name="people")
        Graph('people', nodes=3, edges=7, features=1, classes=2, single-label, train/val/test=1/1/1)
    """
    result = edges_of_tables(edges, nodes, edge_features=edge_features, name=name, drop_edge_data=drop_edge_data)
    result.num_classes = num_classes
    return result.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def edges_of_tables(
    edges: str | Path | DataFrame,
    nodes: str | Path | DataFrame | None = None,
    *,
    edge_features: str | Sequence[str] | None = None,
    name: str | None = None,
    drop_edge_data: bool = False,
) -> EdgeList:
    """Read two tables, without applying edge rules or making a split; see ``from_tables``."""
    edge_table, table = _table(edges, "edges")
    missing_columns = [column for column in ("src", "dst") if column not in edge_table]
    if missing_columns:
        raise ValueError(
            f"{table} must have the columns src and dst, got {_listed(edge_table)}; name them in the first line"
        )
    extras = {str(column): edge_table[column].to_numpy() for column in edge_table if column not in ("src", "dst")}
    feature_names = named_features(edge_features)
    weights = take_weights(f"from_tables ({table})", extras, drop=drop_edge_data, features=feature_names)
    edge_rows = take_features(
        edge_features,
        extras,
        lambda column: _numbers(edge_table[column], f"column {column} of {table}", "an edge feature"),
    )
    src, dst = (_ids(edge_table[column], f"column {column} of {table}") for column in ("src", "dst"))
    name = name or (Path(edges).stem if isinstance(edges, str | Path) else "tables")
    max_id = int(max(src.max(initial=-1), dst.max(initial=-1)))  # -1 without edges
    if nodes is None:
        _expect_every_id(src, dst, max_id, table)
        arrays: dict[str, Any] = {"src": src, "dst": dst, "edge_weights": weights, "edge_features": edge_rows}
        return EdgeList(name=name, num_nodes=max_id + 1, **arrays)
    node_table, node_name = _table(nodes, "nodes")
    if max_id >= len(node_table):
        raise ValueError(
            f"{node_name} must have a row for every node, got {len(node_table)} rows and an edge of node {max_id}; "
            "nodes are counted from 0"
        )
    if "id" in node_table:
        # Rows in the order of the node ids.
        row_of_node = _row_of_node(_ids(node_table["id"], f"column id of {node_name}"), node_name)
        node_table = node_table.iloc[row_of_node].reset_index(drop=True)
    columns = [column for column in node_table if column not in ("id", "label", "split")]
    values = [_numbers(node_table[column], f"column {column} of {node_name}", "a feature") for column in columns]
    masks = _masks(node_table["split"], node_name) if "split" in node_table else dict.fromkeys(_SPLITS)
    return EdgeList(
        name=name,
        src=src,
        dst=dst,
        num_nodes=len(node_table),
        edge_weights=weights,
        edge_features=edge_rows,
        features=np.stack(values, axis=1).astype(np.float32) if values else None,
        labels=_labels(node_table["label"], node_name) if "label" in node_table else None,
        train_idx=masks["train"],
        val_idx=masks["val"],
        test_idx=masks["test"],
    )


def table_in(folder: Path, stem: str) -> Path | None:
    """Return the path of the table named ``stem`` in a folder, or None.

    Raises:
        ValueError: if there are several of that name.
    """
    paths = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(paths) > 1:
        raise ValueError(
            f"{folder} must hold one table named {stem}, got {', '.join(path.name for path in paths)}; move all but "
            "one away"
        )
    return paths[0] if paths else None


def _table(source: str | Path | DataFrame, label: str) -> tuple[DataFrame, str]:
    """Return a table and its name in errors."""
    if not isinstance(source, str | Path):
        if not hasattr(source, "columns"):
            raise TypeError(f"{label} must be a path or a pandas.DataFrame, got {type(source).__name__}")
        return source, f"the table of {label}"
    path = Path(source).expanduser()
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a table must be one of {', '.join(SUFFIXES)}, got {path}")
    try:
        return _READERS[path.suffix](path), str(path)
    except ImportError as error:
        raise RuntimeError(
            f"reading {path} needs pyarrow, got {str(error).splitlines()[0]}; pip install pyarrow, or write it as CSV"
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(f"table {path} cannot be read: {error}") from error


def _delimited(separator: str) -> Callable[[Path], DataFrame]:
    def read(path: Path) -> DataFrame:
        import pandas as pd

        return pd.read_csv(path, sep=separator, skipinitialspace=True)

    return read


def _parquet(path: Path) -> DataFrame:
    import pandas as pd

    return pd.read_parquet(path)


_READERS = {".csv": _delimited(","), ".tsv": _delimited("\t"), ".parquet": _parquet}


def _ids(column: Series, label: str) -> np.ndarray:
    from pandas.api.types import is_integer_dtype

    if not len(column):
        # pandas reads an empty column as objects, not as integers.
        return np.empty(0, dtype=np.int64)
    if not is_integer_dtype(column) or column.hasnans:
        row = _first_empty(column) if column.hasnans else 0
        value = "none" if column.hasnans else repr(column.tolist()[0])
        raise ValueError(
            f"{label} must hold integers from 0 to N - 1, got {value} in row {row}; number the nodes, for "
            "instance with pandas.factorize over src and dst together"
        )
    ids = np.asarray(column.to_numpy(), dtype=np.int64)
    if ids.min() < 0:
        raise ValueError(f"{label} must hold integers from 0 to N - 1, got {ids.min()} in row {ids.argmin()}")
    return ids


def _expect_every_id(src: np.ndarray, dst: np.ndarray, max_id: int, table_name: str) -> None:
    """Check that every number up to the largest occurs in an edge; an isolated node would be ambiguous."""
    ids = np.unique(np.concatenate([src, dst]))  # ascending
    if not ids.size:
        raise ValueError(f"{table_name} must hold at least one edge if there is no table of nodes, got none")
    if ids.size != max_id + 1:
        gap = int((ids != np.arange(ids.size)).argmax())  # the first gap
        raise ValueError(
            f"{table_name} must name every node from 0 to the largest, {max_id}, if there is no table of nodes, got "
            f"{ids.size} ids without node {gap}; number the nodes without gaps, or pass a table with one row per node"
        )


def _row_of_node(ids: np.ndarray, table: str) -> np.ndarray:
    """Return the row of each node."""
    order = np.argsort(ids, kind="stable")  # row of each id
    is_wrong = ids[order] != np.arange(len(ids))
    if is_wrong.any():
        node = int(is_wrong.argmax())
        # At the first mismatch either the id before occurs twice, or the id itself is missing.
        is_twice = bool(node and ids[order][node] == node - 1)
        event = f"id {node - 1} occurs twice" if is_twice else f"id {node} is missing"
        raise ValueError(f"column id of {table} must hold each of 0 to {len(ids) - 1} once, but {event}")
    return order


def _labels(column: Series, table_name: str) -> Any:
    return as_targets(torch.from_numpy(_numbers(column, f"column label of {table_name}", "a class", allow_empty=True)))


def _numbers(column: Series, label: str, role: str, *, allow_empty: bool = False) -> np.ndarray:
    from pandas.api.types import is_numeric_dtype

    if not is_numeric_dtype(column) and not column.isna().all():
        raise ValueError(
            f"{label} is {role}, which must be a number, got {column.dropna().iloc[0]!r}; number it, for instance with "
            "pandas.factorize, or leave the column out"
        )
    if column.hasnans and not allow_empty:
        raise ValueError(f"{label} is {role}, which must not be empty, got no value in row {_first_empty(column)}")
    return np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))  # a copy: pandas may return read-only memory


def _first_empty(column: Series) -> int:
    return int(column.isna().to_numpy().argmax())


def _masks(column: Series, table_name: str) -> dict[str, Any]:
    is_wrong = ~(column.isin(_SPLITS) | column.isna()).to_numpy(dtype=bool)
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise ValueError(
            f"column split of {table_name} must be train, val, test or empty, got {column.tolist()[row]!r} in row {row}"
        )
    return {split: (column == split).to_numpy(dtype=bool, na_value=False) for split in _SPLITS}


def _listed(table: DataFrame) -> str:
    return ", ".join(map(str, table.columns)) or "none"
