"""Graphs from tables: a table of edges between any ids and, optionally, a table of nodes.

Tables are delimited text, Parquet files, folders of Parquet files, or ``pandas.DataFrame``. Columns are found by their
usual names, or named by the caller. What was detected, used and left out is in the graph's notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnnqlab.graph.convert.values import named_features, take_features, take_weights
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import column_names
from gnnqlab.graph.sources.delimited import TEXT_SUFFIXES, read_delimited
from gnnqlab.graph.sources.node_positions import Ends, id_values, number_by_edges, number_by_rows
from gnnqlab.graph.sources.node_table import find_id_column, node_columns, numbers
from gnnqlab.graph.sources.row_names import is_row_numbers, with_ends_of_index, with_ids_of_index

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "SUFFIXES",
    "TableOptions",
    "columns_of",
    "edges_of_tables",
    "from_tables",
    "is_table",
    "read_edges",
    "table_in",
]

SUFFIXES = (*TEXT_SUFFIXES, ".parquet")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Names of columns, as in :func:`read_edges`."""

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    edge_features: str | Sequence[str] | None = None
    id: str | None = None
    label: str | Sequence[str] | None = None
    targets: str | Sequence[str] | None = None
    split: str | None = None
    drop: Sequence[str] = ()
    heading: bool | None = None
    num_classes: int | None = None
    drop_edge_data: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.drop, str):
            raise TypeError(f"drop must be a list of columns, got {self.drop!r}; write drop=[{self.drop!r}]")
        if (self.source is None) != (self.target is None):
            raise ValueError(
                f"source and target must be named together, got source={self.source!r} and target={self.target!r}"
            )


def read_edges(
    edges: str | Path | DataFrame,
    nodes: str | Path | DataFrame | None = None,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    edge_features: str | Sequence[str] | None = None,
    id: str | None = None,
    label: str | Sequence[str] | None = None,
    targets: str | Sequence[str] | None = None,
    split: str | None = None,
    drop: Sequence[str] = (),
    heading: bool | None = None,
    name: str | None = None,
    num_classes: int | None = None,
    drop_edge_data: bool = False,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Build a graph from a table of edges, with any ids of nodes, and optionally a table of nodes.

    Ids may be integers with gaps, up to 64 bits, or texts. They are ``graph.ids``, and results come back by them
    (``run.predictions()``). ``graph.notes`` says what was detected, used and left out.

    Args:
        edges: a delimited text file (``.csv``, ``.tsv``, ``.txt``, ``.edges``, ``.edgelist``, each also ``.gz``), whose
            comments, separator and heading are detected; a ``.parquet`` file, or a folder of such files; or a
            ``pandas.DataFrame``.
        nodes: likewise, one row per node. Without it the nodes are those that occur in edges.
        source, target: columns of both ends of an edge. By default those with usual names (``src``, ``dst``;
            ``source``, ``target``; ``from``, ``to`` ...), or the two columns of a table that has no more.
        weight: column of weights, finite and at least 0; by default one called ``weight``.
        edge_features: columns of ``edges`` to use as features, a finite number in every row.
        id: column of ``nodes`` with the ids that edges use. By default one with a usual name (``id``, ``node_id`` ...);
            without it row ``i`` is node ``i``.
        label: column of classes: whole numbers, words or truth values; empty for "unlabelled". Several columns of 0 and
            1 are several classes per node. By default one called ``label``, ``y``, ``class`` or ``target``. Words and
            numbers with gaps become ``graph.class_names``.
        targets: column, or columns, of numbers to predict in place of classes (regression); empty for "unknown".
        split: column with ``train``, ``val``, ``test`` or empty; by default one called ``split``, or the columns
            ``train_mask``, ``val_mask`` and ``test_mask``.
        drop: columns of ``nodes`` to leave out. Every other column is a feature, a number in every row.
        heading: True or False if the first line of a text file is wrongly detected as a heading or not.
        name: name of the graph in reports; by default the name of the file of edges.
        num_classes: number of classes; by default that of the labels.
        drop_edge_data: True to ignore columns of ``edges`` other than those named. By default they are refused.
        symmetrize, deduplicate, self_loops: edge rules; ``None``: the defaults of ``build_csr``, as in the papers.
        seed: seed of the random 60/20/20 split of a graph with labels and without a split.

    Raises:
        ValueError: if a table cannot be read, a column is not found or could have several uses, or a value is invalid
            for its column; the text names file, column, row and value.
        RuntimeError: for Parquet without pyarrow.

    Example:
        >>> import pandas as pd
        >>> edges = pd.DataFrame({"from": ["ann", "bob"], "to": ["bob", "cem"]})
        >>> nodes = pd.DataFrame({"name": ["ann", "bob", "cem"], "age": [30, 40, 50], "class": ["x", "y", "x"]})
        >>> graph = read_edges(edges, nodes, name="people")
        >>> graph.ids.tolist(), graph.class_names, graph.labels.tolist()
        (['ann', 'bob', 'cem'], ('x', 'y'), [0, 1, 0])
        >>> graph.notes[0]
        "edges: source 'from', target 'to'"
    """
    options = TableOptions(
        source=source, target=target, weight=weight, edge_features=edge_features, id=id, label=label, targets=targets,
        split=split,
        drop=drop, heading=heading, num_classes=num_classes, drop_edge_data=drop_edge_data,
    )  # fmt: skip
    result = edges_of_tables(edges, nodes, options, name=name)
    if num_classes is not None:
        result.num_classes = num_classes
    return result.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def from_tables(edges: str | Path | DataFrame, nodes: str | Path | DataFrame | None = None, **options: Any) -> Graph:
    """Build a graph from a table of edges and a table of nodes; :func:`read_edges` under its name of version 0.9.

    Example:
        >>> import pandas as pd
        >>> edges = pd.DataFrame({"src": [0, 1], "dst": [1, 2]})
        >>> nodes = pd.DataFrame({"label": [0, 1, 1], "age": [30, 40, 50], "split": ["train", "val", "test"]})
        >>> from_tables(edges, nodes, name="people")
        Graph('people', nodes=3, edges=7, features=1, classes=2, single-label, train/val/test=1/1/1)
    """
    return read_edges(edges, nodes, **options)


def edges_of_tables(
    edges: str | Path | DataFrame,
    nodes: str | Path | DataFrame | None = None,
    options: TableOptions | None = None,
    *,
    name: str | None = None,
) -> EdgeList:
    """Read two tables, without applying edge rules or making a split; see :func:`read_edges`."""
    options = options or TableOptions()
    edge_table, table, notes = _table(edges, "edges", options.heading)
    edge_table = with_ends_of_index(edge_table)
    numbered = [column for column in edge_table if is_row_numbers(edge_table[column], column)]
    if numbered:
        edge_table = edge_table.drop(columns=numbered)
        notes.append(f"left out of edges: column {numbered[0]}, which numbers the rows")
    source, target = _ends(edge_table, table, options)
    notes.append(f"edges: source {source!r}, target {target!r}")
    extras = {str(column): edge_table[column].to_numpy() for column in edge_table if column not in (source, target)}
    weight = options.weight or next(iter(column_names.those_named(extras, column_names.WEIGHTS)), None)
    if weight is not None and options.weight is None and weight in named_features(options.edge_features):
        weight = None
    if options.drop_edge_data and options.weight is None:
        weight = None
    features = named_features(options.edge_features)
    weights = take_weights(f"read_edges ({table})", extras, weight, drop=options.drop_edge_data, features=features)
    if weight is not None:
        weights = numbers(edge_table[weight], f"column {weight} of {table}", "a weight")
        notes.append(f"edge weights: column {weight}")
    left_out = [column for column in extras if column != weight and column not in features]
    if left_out:
        notes.append(f"left out of edges: {', '.join(left_out)}")
    edge_rows = take_features(
        options.edge_features,
        extras,
        lambda column: numbers(edge_table[column], f"column {column} of {table}", "an edge feature"),
    )
    given = [id_values(edge_table[column], f"column {column} of {table}") for column in (source, target)]
    result = EdgeList(
        name=name or (_stem(Path(edges)) if isinstance(edges, str | Path) else "tables"),
        src=given[0],
        dst=given[1],
        num_nodes=0,
        edge_weights=weights,
        edge_features=edge_rows,
    )
    if nodes is None:
        if not given[0].size:
            raise ValueError(f"{table} must hold at least one edge if there is no table of nodes, got none")
        ends = number_by_edges(*given)
    else:
        ends = _add_nodes(result, nodes, given, options, notes)
    result.src, result.dst, result.num_nodes = ends.source, ends.target, ends.ids.size
    if not _are_positions(ends.ids):
        result.ids = ends.ids
        notes.append(f"ids: {ends.ids.size} {'texts' if ends.ids.dtype.kind == 'U' else 'integers'}, see graph.ids")
    result.notes = tuple(notes)
    return result


def columns_of(path: Path, options: TableOptions) -> list[str]:
    """Return the names of the columns of a table; see :func:`read_edges`."""
    return list(_table(path, "nodes", options.heading)[0])


def is_table(path: Path) -> bool:
    """Return True for a delimited text file, a Parquet file, or a folder of Parquet files."""
    if path.is_dir():
        return any(path.glob("*.parquet"))
    return _suffix(path) in SUFFIXES


def table_in(folder: Path, stem: str) -> Path | None:
    """Return the path of the table named ``stem`` in a folder, or None.

    Raises:
        ValueError: if there are several of that name.
    """
    names = [f"{stem}{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz")]
    paths = [folder / name for name in names if (folder / name).is_file()]
    paths += [folder / stem] if (folder / stem).is_dir() and is_table(folder / stem) else []
    if len(paths) > 1:
        raise ValueError(
            f"{folder} must hold one table named {stem}, got {', '.join(path.name for path in paths)}; move all but "
            "one away"
        )
    return paths[0] if paths else None


def _add_nodes(
    result: EdgeList,
    nodes: str | Path | DataFrame,
    given: Sequence[np.ndarray],
    options: TableOptions,
    notes: list[str],
) -> Ends:
    """Add the contents of a table of nodes to the edges; return the numbering of the nodes."""
    node_table, name, node_notes = _table(nodes, "nodes", options.heading)
    node_table, index = with_ids_of_index(node_table)
    if options.id is not None and options.id not in node_table:
        raise ValueError(f"{name} must have the column {options.id!r}, got {_listed(node_table)}")
    taken = [options.split]
    for names in (options.label, options.targets):
        taken += [names] if isinstance(names, str) else names or ()
    taken += options.drop
    id_column = options.id or find_id_column(node_table, given, taken, index)
    columns = node_columns(
        node_table,
        name,
        id_column=id_column,
        label=options.label,
        targets=options.targets,
        split=options.split,
        drop=options.drop,
        num_classes=options.num_classes,
    )
    if id_column is None:
        ends, order = _by_row(given, len(node_table), node_table, name), np.arange(len(node_table))
        node_notes.append("nodes: row i of the table is node i")
    else:
        ids = id_values(node_table[id_column], f"column {id_column} of {name}")
        ends, order = number_by_rows(given[0], given[1], ids, column=id_column, table=name)
        node_notes.append(f"nodes: rows by their ids in column {id_column}")
    if columns.features is not None:
        result.features = columns.features[order]
    if columns.labels is not None:
        result.labels = columns.labels.values[order]
        result.class_names = columns.labels.class_names
        if columns.labels.class_names is not None:
            result.num_classes = len(columns.labels.class_names)
    if columns.targets is not None:
        result.targets, result.class_names = columns.targets[order], columns.target_names
    masks = {part: mask[order] for part, mask in columns.masks.items()}
    result.train_idx, result.val_idx, result.test_idx = (masks.get(part) for part in ("train", "val", "test"))
    notes += [*node_notes, *columns.notes]
    return ends


def _by_row(given: Sequence[np.ndarray], num_rows: int, table: DataFrame, name: str) -> Ends:
    """Return ends that are positions of rows."""
    for values in given:
        is_position = values.dtype.kind in "iu"
        if values.size and (not is_position or values.min() < 0 or values.max() >= num_rows):
            wrong = values[0] if not is_position else values.min() if values.min() < 0 else values.max()
            raise ValueError(
                f"{name} must have a row for every node, got {num_rows} rows and an edge of node {wrong!s}; without a "
                f"column of ids, nodes are counted from 0; name the column of ids with id=, there are {_listed(table)}"
            )
    source, target = (values.astype(np.int64, copy=False) for values in given)
    return Ends(source, target, np.arange(num_rows))


def _ends(table: DataFrame, name: str, options: TableOptions) -> tuple[str, str]:
    """Return the columns of both ends of edges."""
    columns = [str(column) for column in table]
    for column in (options.source, options.target, options.weight):
        if column is not None and column not in columns:
            raise ValueError(f"{name} must have the column {column!r}, got {_listed(table)}")
    if options.source is not None and options.target is not None:
        return options.source, options.target
    known = column_names.pair_of_ends(columns)
    if known is not None:
        return known
    # Without known names: two columns are both ends, and a third that is called a weight does not disturb.
    others = [column for column in columns if not column_names.those_named([column], column_names.WEIGHTS)]
    if len(others) == 2:
        return others[0], others[1]
    if len(columns) < 2:
        raise ValueError(f"{name} must have two columns, the ends of edges, got {_listed(table)}; is it an edge list?")
    example = "source='column 1', target='column 2'" if "column 1" in columns else "source='...', target='...'"
    raise ValueError(
        f"{name} must have the columns src and dst, or others named by the caller, got {_listed(table)}; write "
        f"gnnqlab.read_edges(path, {example}), with weight='...' or drop_edge_data=True for the other columns"
    )


def _table(source: str | Path | DataFrame, label: str, heading: bool | None) -> tuple[DataFrame, str, list[str]]:
    """Return a table with text names of columns, its name in errors, and notes on its layout."""
    if not isinstance(source, str | Path):
        if not hasattr(source, "columns"):
            raise TypeError(f"{label} must be a path or a pandas.DataFrame, got {type(source).__name__}")
        table = source.rename(columns=str)
        if not table.columns.is_unique:
            column = table.columns[table.columns.duplicated()][0]
            raise ValueError(f"columns of the table of {label} must have different names, got {column!r} twice; rename")
        return table, f"the table of {label}", []
    path = Path(source).expanduser()
    if path.exists() and not is_table(path):
        raise ValueError(f"a table must be one of {', '.join(SUFFIXES)}, text also with .gz, got {path}")
    try:
        if path.is_dir() or _suffix(path) == ".parquet":
            import pandas as pd

            return pd.read_parquet(path).rename(columns=str), str(path), [f"{path.name}: Parquet"]
        names = frozenset(column_names.EDGE_NAMES) | {*column_names.IDS, *column_names.LABELS}
        table, note = read_delimited(path, names=names, heading=heading)
    except ImportError as error:
        raise RuntimeError(
            f"reading {path} needs pyarrow, got {str(error).splitlines()[0]}; pip install pyarrow, or write it as CSV"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"table {path} must be text in UTF-8, got the byte {error.object[error.start]:#x} at position "
            f"{error.start}; save it as UTF-8, or pass pandas.read_csv(path, encoding='latin-1') as the table"
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(f"table {path} cannot be read: {error}") from error
    # A separator at the end of each line makes one more column, without name and values.
    empty = [
        column for column in table if table[column].isna().all() and str(column).startswith(("Unnamed", "column "))
    ]
    if empty and len(table):
        table = table.drop(columns=empty)
        note += f"; {len(empty)} empty columns left out"
    return table, str(path), [f"{path.name}: {note}"]


def _are_positions(ids: np.ndarray) -> bool:
    return ids.dtype.kind in "iu" and bool((ids == np.arange(ids.size)).all())


def _suffix(path: Path) -> str:
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem


def _listed(table: DataFrame) -> str:
    return ", ".join(map(str, table.columns)) or "none"
