"""Public graphs by name: read from the dataset root, downloaded to it if missing."""

from __future__ import annotations

from pathlib import Path

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import graphsaint, reddit
from gnnqlab.graph.sources.arrays import read_npz
from gnnqlab.graph.sources.dgl_archives import fetch_dgl_archive
from gnnqlab.graph.sources.ogb import load_ogb
from gnnqlab.graph.sources.planetoid import PARTS, read_planetoid
from gnnqlab.graph.sources.where import data_root, find_folder, missing_data
from gnnqlab.graph.storage import is_saved_graph

__all__ = ["load_amazon_products", "load_citation", "load_open", "load_reddit", "load_yelp"]


def load_citation(name: str, root: Path | None) -> EdgeList | Graph:
    """Load ``cora``, ``citeseer`` or ``pubmed`` from planetoid files."""
    return _prepared(name, root) or _read_or_fetch(
        name,
        root,
        places=(name, "planetoid", "raw"),
        files=tuple(f"ind.{name}.{part}" for part in PARTS),
        other_files=tuple(f"ind.{name}_v2.{part}" for part in PARTS),
    )


def load_reddit(root: Path | None) -> EdgeList | Graph:
    """Load Reddit: 232,965 posts, 41 communities."""
    return _prepared("reddit", root) or _read_or_fetch("reddit", root, places=("reddit",), files=reddit.FILES)


def load_yelp(root: Path | None) -> EdgeList | Graph:
    """Load Yelp: 716,847 reviewers, 100 business categories; features standardized over training nodes."""
    return _prepared("yelp", root) or _read_or_fetch("yelp", root, places=("yelp",), files=graphsaint.FILES)


def load_amazon_products(root: Path | None) -> EdgeList | Graph:
    """Load AmazonProducts, 107 categories; features are unchanged (AdaQP's loader does not standardize)."""
    name = "amazon-products"
    prepared_graph = _prepared(name, root)
    if prepared_graph is not None:
        return prepared_graph
    base = data_root(root)
    folder = find_folder(base, (name, "amazon", "AmazonProducts", "amazon_products"), graphsaint.FILES)
    if folder is None:
        # GraphSAINT's authors share it on a drive with interactive confirmation; it cannot be downloaded by a program.
        reason = "its authors offer it for manual download, in the GraphSAINT data folder"
        raise missing_data(name, graphsaint.FILES, base / name, url=None, reason=reason)
    return graphsaint.read_graphsaint(folder, name=name)


def load_open(name: str, root: Path | None) -> EdgeList | Graph:
    """Load a graph of the Open Graph Benchmark."""
    return _prepared(name, root) or _prepared(name.removeprefix("ogbn-"), root) or load_ogb(name, root)


def _prepared(name: str, root: Path | None) -> EdgeList | Graph | None:
    """Load ``NAME.npz`` or a saved graph ``NAME`` from the dataset root; return None if there is none."""
    base = data_root(root)
    if is_saved_graph(base / name):
        return Graph.load(base / name)
    return read_npz(base / f"{name}.npz") if (base / f"{name}.npz").is_file() else None


def _read_or_fetch(
    name: str, root: Path | None, *, places: tuple[str, ...], files: tuple[str, ...], other_files: tuple[str, ...] = ()
) -> EdgeList:
    base = data_root(root)
    # Search the disk, download once if the files are missing, and search again.
    for attempt in ("here", "fetched"):
        # Archives of DGL may have other file names.
        for needed_files in (files, other_files):
            folder = find_folder(base, places, needed_files) if needed_files else None
            if folder is not None:
                return _read(name, folder, needed_files)
        if attempt == "here":
            fetch_dgl_archive(name, files, base)
    raise RuntimeError(
        f"graph {name!r} was downloaded to {base}, but lacks {', '.join(files)}; put them into {base / name}"
    )


def _read(name: str, folder: Path, files: tuple[str, ...]) -> EdgeList:
    if name == "reddit":
        return reddit.read_reddit(folder)
    if name == "yelp":
        return graphsaint.read_graphsaint(folder, name=name, standardized=True)
    edges = read_planetoid(folder, files[0].split(".")[1])
    edges.name = name
    return edges
