"""Graphs by path: selection of the reader for a file or folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnnqlab.graph.convert.frameworks import edges_of_dgl
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import reddit
from gnnqlab.graph.sources.arrays import read_npz
from gnnqlab.graph.sources.dimacs import read_dimacs
from gnnqlab.graph.sources.graphsaint import read_graphsaint
from gnnqlab.graph.sources.matrices import read_mat, read_mtx
from gnnqlab.graph.sources.metis_files import read_metis
from gnnqlab.graph.sources.named_arrays import is_array_folder, read_array_folder
from gnnqlab.graph.sources.networkx_files import NETWORKX_SUFFIXES, read_networkx_file
from gnnqlab.graph.sources.ogb import is_ogb_folder, looks_like_ogb, read_ogb
from gnnqlab.graph.sources.pajek import read_pajek
from gnnqlab.graph.sources.planetoid import planetoid_names, read_planetoid
from gnnqlab.graph.sources.table_folder import read_table_folder, read_tables, refuse_node_files
from gnnqlab.graph.sources.tables import TableOptions, is_table, table_in
from gnnqlab.graph.sources.torch_files import read_torch_file
from gnnqlab.graph.storage import is_saved_graph

__all__ = ["READABLE", "read_path"]

READABLE = (
    ".npz file, edge list (.csv, .tsv, .txt, .edges or .edgelist, each also .gz; .parquet file or folder), folder with "
    "such tables called edges and nodes, or with edges, features.npy and labels.npy, Matrix Market .mtx, .graphml, "
    ".gml, .gexf, Pajek .net, METIS .graph, DIMACS .gr, .col or .clq, MATLAB .mat, .pt file of tensors, folder of .npy "
    "arrays, DGL .bin file, "
    "folder saved by Graph.save, planetoid folder (FOLDER:NAME with ind.NAME.* files), "
    "GraphSAINT folder (adj_full.npz ...), extracted OGB folder (raw/, split/)"
)


def read_path(
    text: str, *, edge_features: str | Sequence[str] | None = None, drop_edge_data: bool = False, split: int = 0
) -> EdgeList | Graph | None:
    """Read a graph from a path; return ``None`` if the path does not exist.

    Raises:
        ValueError: if no reader supports it, edges have values that are not named, or ``edge_features`` is passed for
            a format without named values.
    """
    path = Path(text).expanduser()
    options: dict[str, Any] = {"edge_features": edge_features, "drop_edge_data": drop_edge_data}
    if path.is_file():
        return _read_file(path, options, split)
    if path.is_dir():
        return _read_folder(path, options, split)
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


def _read_file(path: Path, options: dict[str, Any], split: int) -> EdgeList | Graph:
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix.lower()
    if suffix == ".npz":
        _expect_no_names(path, options)
        return read_npz(path, split=split)
    if suffix == ".pt" or suffix == ".pth":
        return read_torch_file(path, split=split, **options)
    if suffix == ".mat":
        _expect_no_names(path, options)
        return read_mat(path, split=split)
    if split:
        raise ValueError(f"split must be 0 for a file with one split, got {split} for {path}")
    if suffix == ".bin":
        return _read_dgl_file(path, **options)
    if is_table(path):
        return read_tables(path, None, TableOptions(**options))
    if suffix in NETWORKX_SUFFIXES:
        return read_networkx_file(path, **options)
    _expect_no_names(path, options)
    if suffix == ".mtx":
        return read_mtx(path, drop_edge_data=options["drop_edge_data"])
    if suffix in _TEXT_READERS and not name.startswith("ind."):
        return _TEXT_READERS[suffix](path, drop_edge_data=options["drop_edge_data"])
    if path.name == "graph.json":
        return Graph.load(path.parent)
    if path.name.startswith("ind.") and path.name.count(".") >= 2:
        return read_planetoid(path.parent, path.name.split(".")[1])
    if suffix in _WAYS_OUT:
        raise ValueError(f"a graph path must be of a format that is read, got {path}: {_WAYS_OUT[suffix]}")
    raise ValueError(f"a graph path must be one of: {READABLE}; got the file {path}")


_TEXT_READERS: dict[str, Callable[..., EdgeList]] = {
    ".graph": read_metis,
    **dict.fromkeys((".net", ".paj"), read_pajek),
    **dict.fromkeys((".gr", ".col", ".clq", ".dimacs"), read_dimacs),
}
_WAYS_OUT = {
    ".h5ad": "read it with anndata.read_h5ad, and pass it to gnnqlab.load, or to from_anndata(data, labels=a column)",
    ".h5": "read its arrays with h5py, and pass them to gnnqlab.Graph.from_edges",
    ".hdf5": "read its arrays with h5py, and pass them to gnnqlab.Graph.from_edges",
    ".dgl": "load it with dgl.load_graphs, and pass the graph to gnnqlab.from_dgl",
    ".pkl": "a pickle can run code when it is read; load it yourself, and pass the graph to gnnqlab.load",
    ".pickle": "a pickle can run code when it is read; load it yourself, and pass the graph to gnnqlab.load",
    ".gpickle": "a pickle can run code when it is read; load it yourself, and pass the graph to gnnqlab.from_networkx",
    ".json": "networkx.node_link_graph reads node-link JSON; pass the graph to gnnqlab.from_networkx",
    ".xlsx": "pandas.read_excel reads its sheets; pass the tables to gnnqlab.read_edges",
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), "unpack the archive, and pass the folder or file in it"),
    ".p": "a pickle can run code when it is read; load it yourself, and pass the graph to gnnqlab.load",
    ".dot": "networkx.nx_pydot.read_dot reads it; pass the graph to gnnqlab.from_networkx",
    ".g6": "networkx.read_graph6 reads it; pass the graph to gnnqlab.from_networkx",
    ".rds": "write it in R as GraphML with igraph::write_graph(graph, file, format = 'graphml')",
    ".rdata": "write it in R as GraphML with igraph::write_graph(graph, file, format = 'graphml')",
    ".gephi": "export the graph from Gephi as GraphML, GEXF or as tables of edges and nodes",
    ".dump": "export nodes and relationships from Neo4j as CSV (apoc.export.csv), and pass them to gnnqlab.read_edges",
    ".ttl": "RDF has edges of several types; select one, and pass its pairs to gnnqlab.read_edges",
    ".nt": "RDF has edges of several types; select one, and pass its pairs to gnnqlab.read_edges",
}
"""Ending of a format that is not read -> the way to a graph."""


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


def _read_folder(path: Path, options: dict[str, Any], split: int) -> EdgeList | Graph:
    if split and not is_array_folder(path):
        raise ValueError(f"split must be 0 for a folder with one split, got {split} for {path}")
    if (path / "meta.yaml").is_file():
        raise ValueError(
            f"a graph path must be of a format that is read, got the DGL CSV data set {path}: load it with "
            "dgl.data.CSVDataset, and pass one of its graphs to gnnqlab.from_dgl"
        )
    # Files of tables have free names, so a saved graph in the same folder takes precedence.
    if not is_saved_graph(path) and (edges := table_in(path, "edges")) is not None:
        return read_table_folder(path, edges, TableOptions(**options))
    _expect_no_names(path, options)
    if is_saved_graph(path):
        return Graph.load(path)
    if (path / "adj_full.npz").is_file():
        return read_graphsaint(path)
    if is_ogb_folder(path) or looks_like_ogb(path):
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
    if is_array_folder(path):
        refuse_node_files(path, sorted(path.glob("*.npy")))
        return read_array_folder(path, split=split)
    if is_table(path):  # a folder of Parquet files
        refuse_node_files(path, sorted(path.glob("*.parquet")))
        return read_tables(path, None, TableOptions(**options))
    raise ValueError(f"a graph path must be one of: {READABLE}; got the folder {path}")


def _expect_no_names(path: Path, options: dict[str, Any]) -> None:
    if options["edge_features"] is not None:
        raise ValueError(
            "edge_features names values of edges in a table or a DGL file, got "
            f"{options['edge_features']!r} for {path}; leave it out, since saved graphs and .npz files store edge "
            "features themselves"
        )
