"""Graphs by path: selection of the reader for a file or folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnnqlab.graph.convert.frameworks import edges_of_dgl
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import reddit
from gnnqlab.graph.sources.arrays import read_npz
from gnnqlab.graph.sources.graphsaint import read_graphsaint
from gnnqlab.graph.sources.ogb import is_ogb_folder, read_ogb
from gnnqlab.graph.sources.planetoid import planetoid_names, read_planetoid
from gnnqlab.graph.sources.tables import TableOptions, edges_of_tables, is_table, table_in
from gnnqlab.graph.storage import is_saved_graph

__all__ = ["READABLE", "read_path"]

READABLE = (
    ".npz file, edge list (.csv, .tsv, .txt, .edges or .edgelist, each also .gz; .parquet file or folder), folder with "
    "such tables called edges and nodes, DGL .bin file, "
    "folder saved by Graph.save, planetoid folder (FOLDER:NAME with ind.NAME.* files), "
    "GraphSAINT folder (adj_full.npz ...), extracted OGB folder (raw/, split/)"
)


def read_path(
    text: str, *, edge_features: str | Sequence[str] | None = None, drop_edge_data: bool = False
) -> EdgeList | Graph | None:
    """Read a graph from a path; return ``None`` if the path does not exist.

    Raises:
        ValueError: if no reader supports it, edges have values that are not named, or ``edge_features`` is passed for
            a format without named values.
    """
    path = Path(text).expanduser()
    options: dict[str, Any] = {"edge_features": edge_features, "drop_edge_data": drop_edge_data}
    if path.is_file():
        return _read_file(path, options)
    if path.is_dir():
        return _read_folder(path, options)
    # FOLDER:NAME, split at the last colon, since a folder's name may have colons.
    stem, separator, name = text.rpartition(":")
    folder = Path(stem).expanduser()
    if separator and folder.is_dir():
        names = planetoid_names(folder)
        if name not in names:
            raise ValueError(
                f"FOLDER:NAME must name a planetoid graph, {folder} has {', '.join(names) or 'no ind.NAME.graph'}, got "
                f"{name!r}"
            )
        _expect_no_names(folder, options)
        return read_planetoid(folder, name)
    return None


def _read_file(path: Path, options: dict[str, Any]) -> EdgeList | Graph:
    if path.suffix == ".bin":
        return _read_dgl_file(path, **options)
    if is_table(path):
        return edges_of_tables(path, options=TableOptions(**options))
    _expect_no_names(path, options)
    if path.name == "graph.json":
        return Graph.load(path.parent)
    if path.suffix == ".npz":
        return read_npz(path)
    if path.name.startswith("ind.") and path.name.count(".") >= 2:
        return read_planetoid(path.parent, path.name.split(".")[1])
    raise ValueError(f"a graph path must be one of: {READABLE}; got the file {path}")


def _read_dgl_file(
    path: Path, *, edge_features: str | Sequence[str] | None = None, drop_edge_data: bool = False
) -> EdgeList:
    """Read a ``.bin`` file with one graph; features, labels and masks as in ``from_dgl``.

    Raises:
        RuntimeError: without DGL.
        ValueError: if the file holds no graph, or several, or edges have values that are not named.
    """
    try:
        import dgl
    except ImportError as error:
        raise RuntimeError(
            f"reading {path} needs DGL, which is not installed here: {error}; on a machine with DGL, "
            "gnnqlab.load(path).save(folder) makes a copy that does not need it"
        ) from error
    try:
        graphs, _ = dgl.load_graphs(str(path))
    except dgl.DGLError as error:
        raise ValueError(f"{path} must be a file written by dgl.save_graphs: {str(error).splitlines()[0]}") from error
    if len(graphs) != 1:
        raise ValueError(f"a DGL file must hold one graph, {path} holds {len(graphs)}; save one of them alone")
    edges = edges_of_dgl(graphs[0], edge_features=edge_features, drop_edge_data=drop_edge_data)
    edges.name = path.stem
    return edges


def _read_folder(path: Path, options: dict[str, Any]) -> EdgeList | Graph:
    # Files of tables have free names, so a saved graph in the same folder takes precedence.
    if not is_saved_graph(path) and (edges := table_in(path, "edges")) is not None:
        nodes = table_in(path, "nodes")
        return edges_of_tables(edges, nodes, TableOptions(**options), name=path.absolute().name)
    _expect_no_names(path, options)
    if is_saved_graph(path):
        return Graph.load(path)
    if (path / "adj_full.npz").is_file():
        return read_graphsaint(path)
    if is_ogb_folder(path):
        return read_ogb(path)
    if all((path / file).is_file() for file in reddit.FILES):
        return reddit.read_reddit(path)
    known_names = planetoid_names(path)
    if len(known_names) == 1:
        return read_planetoid(path, known_names[0])
    if known_names:
        raise ValueError(
            f"{path} holds several planetoid graphs; name one: {' or '.join(f'{path}:{k}' for k in known_names)}"
        )
    if is_table(path):  # a folder of Parquet files
        return edges_of_tables(path, options=TableOptions(**options))
    raise ValueError(f"a graph path must be one of: {READABLE}; got the folder {path}")


def _expect_no_names(path: Path, options: dict[str, Any]) -> None:
    if options["edge_features"] is not None:
        raise ValueError(
            "edge_features names values of edges in a table or a DGL file, got "
            f"{options['edge_features']!r} for {path}; leave it out, since saved graphs and .npz files store edge "
            "features themselves"
        )
