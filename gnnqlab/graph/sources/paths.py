"""Graphs by path: which reader a file or folder is for."""

from __future__ import annotations

from pathlib import Path

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import reddit
from gnnqlab.graph.sources.arrays import read_npz
from gnnqlab.graph.sources.dgl_file import read_dgl_file
from gnnqlab.graph.sources.graphsaint import read_graphsaint
from gnnqlab.graph.sources.ogb import is_ogb_folder, read_ogb
from gnnqlab.graph.sources.planetoid import planetoid_names, read_planetoid
from gnnqlab.graph.sources.tables import SUFFIXES, edges_of_tables, table_in
from gnnqlab.graph.storage import is_saved_graph

__all__ = ["READABLE", "read_path"]

READABLE = (
    ".npz file, .csv, .tsv or .parquet edge list, folder with such tables called edges and nodes, DGL .bin file, "
    "folder saved by Graph.save, planetoid folder (FOLDER:NAME with ind.NAME.* files), "
    "GraphSAINT folder (adj_full.npz ...), extracted OGB folder (raw/, split/)"
)


def read_path(text: str, *, drop_edge_data: bool = False) -> EdgeList | Graph | None:
    """Read a path, or ``None`` if there is nothing at it.

    Raises:
        ValueError: if something is there that no reader is for, or edges carry values.
    """
    path = Path(text).expanduser()
    if path.is_file():
        return _read_file(path, drop_edge_data)
    if path.is_dir():
        return _read_folder(path, drop_edge_data)
    stem, separator, name = text.rpartition(":")
    folder = Path(stem).expanduser()
    if separator and folder.is_dir():
        known = planetoid_names(folder)
        if name not in known:
            raise ValueError(
                f"FOLDER:NAME must name a planetoid graph, {folder} has {', '.join(known) or 'no ind.NAME.graph'}, got "
                f"{name!r}"
            )
        return read_planetoid(folder, name)
    return None


def _read_file(path: Path, drop_edge_data: bool) -> EdgeList | Graph:
    if path.name == "graph.json":
        return Graph.load(path.parent)
    if path.suffix == ".npz":
        return read_npz(path)
    if path.suffix == ".bin":
        return read_dgl_file(path, drop_edge_data=drop_edge_data)
    if path.suffix in SUFFIXES:
        return edges_of_tables(path, drop_edge_data=drop_edge_data)
    if path.name.startswith("ind.") and path.name.count(".") >= 2:
        return read_planetoid(path.parent, path.name.split(".")[1])
    raise ValueError(f"a graph path must be one of: {READABLE}; got the file {path}")


def _read_folder(path: Path, drop_edge_data: bool) -> EdgeList | Graph:
    if is_saved_graph(path):
        return Graph.load(path)
    if (edges := table_in(path, "edges")) is not None:
        nodes = table_in(path, "nodes")
        return edges_of_tables(edges, nodes, name=path.absolute().name, drop_edge_data=drop_edge_data)
    if (path / "adj_full.npz").is_file():
        return read_graphsaint(path)
    if is_ogb_folder(path):
        return read_ogb(path)
    if all((path / file).is_file() for file in reddit.FILES):
        return reddit.read_reddit(path)
    known = planetoid_names(path)
    if len(known) == 1:
        return read_planetoid(path, known[0])
    if known:
        raise ValueError(
            f"{path} holds several planetoid graphs; name one: {' or '.join(f'{path}:{k}' for k in known)}"
        )
    raise ValueError(f"a graph path must be one of: {READABLE}; got the folder {path}")
