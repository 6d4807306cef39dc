"""Graphs by name or path: the table of names and ``load``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnnqlab.by_name import closest_words
from gnnqlab.graph.convert.given import GraphLike, edges_of
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.generate import rmat, sbm
from gnnqlab.graph.generate_web import web
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import downloads
from gnnqlab.graph.sources.digits import read_digits
from gnnqlab.graph.sources.paths import READABLE, read_path

__all__ = ["Source", "expect", "is_downloaded", "known_size", "load", "names"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A graph that can be loaded by name.

    Args:
        name: argument of ``load``; a pattern such as ``sbm:NODES,CLASSES,DEGREE`` for generators.
        about: description in one line.
        download: ``"nothing"`` (generated or bundled), or the archive to download.
        read: reader, called with the part of the name after ``:`` (empty for most), the dataset
            root passed by the caller (or ``None``) and the seed.
    """

    name: str
    about: str
    download: str
    read: Callable[[str, Path | None, int], EdgeList | Graph]
    size: tuple[int, int, int] | None = None
    """Number of nodes, edges and dense features of a large graph, if known before it is loaded."""


def _sbm(parameters: str, root: Path | None, seed: int) -> Graph:
    nodes, classes, degree = _numbers("sbm:NODES,CLASSES,DEGREE", parameters, (int, int, float))
    return sbm(nodes, classes, degree, seed=seed, name=f"sbm:{parameters}")


def _rmat(parameters: str, root: Path | None, seed: int) -> Graph:
    scale, degree = _numbers("rmat:SCALE,DEGREE", parameters, (int, float))
    return rmat(scale, degree, seed=seed, name=f"rmat:{parameters}")


def _web(parameters: str, root: Path | None, seed: int) -> Graph:
    nodes, degree = _numbers("web:NODES,DEGREE", parameters, (int, float))
    return web(nodes, degree, seed=seed, name=f"web:{parameters}")


_SOURCES = (
    Source(
        name="digits",
        about="10 nearest neighbours of scikit-learn's digits: 1,797 nodes, 64 features, 10 classes",
        download="nothing",
        read=lambda parameters, root, seed: read_digits(),
        size=(1_797, 26_475, 64),
    ),
    Source(
        name="sbm:NODES,CLASSES,DEGREE",
        about="generated: planted partition with Gaussian features",
        download="nothing",
        read=_sbm,
    ),
    Source(
        name="rmat:SCALE,DEGREE",
        about="generated: power law with 2**SCALE nodes, planted classes",
        download="nothing",
        read=_rmat,
    ),
    Source(
        name="web:NODES,DEGREE",
        about="generated: links near by and to popular nodes, classes near by",
        download="nothing",
        read=_web,
    ),
    Source(
        name="cora",
        about="citations: 2,708 nodes, 5,278 edges, 1,433 features, 7 classes",
        download="cora_v2.zip (DGL)",
        read=lambda parameters, root, seed: downloads.load_citation("cora", root),
    ),
    Source(
        name="citeseer",
        about="citations: 3,327 nodes, 4,552 edges, 3,703 features, 6 classes",
        download="citeseer.zip (DGL)",
        read=lambda parameters, root, seed: downloads.load_citation("citeseer", root),
    ),
    Source(
        name="pubmed",
        about="citations: 19,717 nodes, 44,324 edges, 500 features, 3 classes",
        download="pubmed.zip (DGL)",
        read=lambda parameters, root, seed: downloads.load_citation("pubmed", root),
    ),
    Source(
        name="reddit",
        about="posts: 232,965 nodes, 57.3 M edges, 602 features, 41 classes",
        download="reddit.zip (DGL)",
        read=lambda parameters, root, seed: downloads.load_reddit(root),
        size=(232_965, 57_307_946, 602),
    ),
    Source(
        name="yelp",
        about="reviewers: 716,847 nodes, 7.0 M edges, 300 features, 100 labels",
        download="yelp.zip (DGL)",
        read=lambda parameters, root, seed: downloads.load_yelp(root),
        size=(716_847, 6_977_410, 300),
    ),
    Source(
        name="ogbn-arxiv",
        about="citations: 169,343 nodes, 1.2 M edges, 128 features, 40 classes",
        download="arxiv.zip (OGB)",
        read=lambda parameters, root, seed: downloads.load_open("ogbn-arxiv", root),
        size=(169_343, 1_166_243, 128),
    ),
    Source(
        name="ogbn-products",
        about="products: 2,449,029 nodes, 61.9 M edges, 100 features, 47 classes",
        download="products.zip (OGB)",
        read=lambda parameters, root, seed: downloads.load_open("ogbn-products", root),
        size=(2_449_029, 61_859_140, 100),
    ),
    Source(
        name="papers100M",
        about="citations: 111,059,956 nodes, 1.6 G edges, 128 features, 172 classes",
        download="papers100M-bin.zip (OGB)",
        read=lambda parameters, root, seed: downloads.load_open("ogbn-papers100M", root),
        size=(111_059_956, 1_615_685_872, 128),
    ),
    Source(
        name="amazon-products",
        about="products: 1,569,960 nodes, 132 M edges, 200 features, 107 labels",
        download="GraphSAINT files, by hand",
        read=lambda parameters, root, seed: downloads.load_amazon_products(root),
        size=(1_569_960, 132_169_734, 200),
    ),
)
_ALIASES = {"ogbn-papers100M": "papers100M", "amazonproducts": "amazon-products", "arxiv": "ogbn-arxiv"}


def load(
    graph: GraphLike,
    *,
    root: str | Path | None = None,
    name: str | None = None,
    edge_features: str | Sequence[str] | None = None,
    drop_edge_data: bool = False,
    split: int = 0,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Load a graph by name, from a path, or from another library's graph in memory.

    Args:
        graph: a name listed by ``names()``; a path: an edge list (``.csv``, ``.tsv``, ``.txt``,
            ``.edges``, ``.edgelist``, each also ``.gz``; ``.parquet`` file or folder), a folder with
            such a table called ``edges`` and one called ``nodes`` (see ``read_edges``), Matrix Market
            ``.mtx``, ``.graphml``, ``.gml``, ``.gexf``, Pajek ``.net``, METIS ``.graph``, MATLAB
            ``.mat``, a ``.pt`` file of tensors, a ``.npz`` file or a folder of ``.npy`` files, a DGL
            ``.bin`` file, a folder written by ``Graph.save``, ``FOLDER:NAME`` for planetoid files, a
            GraphSAINT folder, an extracted OGB folder; or a
            ``Graph``, a ``dgl.DGLGraph``, a PyG ``Data``, a ``networkx`` graph, a ``scipy.sparse``
            adjacency, for which ``from_dgl``, ``from_pyg``, ``from_networkx``, ``from_anndata`` and ``from_scipy``
            have more options. Names take precedence over paths; write ``./cora`` for a folder with
            the name of a known graph.
        root: folder of downloaded data; see ``data_root`` for the default. A file ``NAME.npz`` or
            a saved graph ``NAME`` in it takes precedence over a download.
        name: name of the graph in reports; by default that of the graph, file or library.
        edge_features: name, or names, of edge values in another library's graph, a DGL file or a
            table to use as features; those of a ``.npz`` file (``edge_feat``) and of a ``Graph`` are
            always used.
        drop_edge_data: True to ignore other edge values in another library's graph, a DGL file or a
            table, including weights. By default one weight per edge is used (``weight`` or
            ``edge_weight``, entries of a matrix), and other values that ``edge_features`` does not
            name are refused.
        split: number of the split, for sources with several (masks of several columns); ``graph.notes``
            has the number of splits.
        symmetrize, deduplicate, self_loops: edge rules, see ``build_csr``. ``None`` means the
            papers' (reverse edges added, repeated edges kept once, exactly one self loop per node)
            for edge lists, and no change for graphs to which they were applied before: generated and
            saved ones, and every ``Graph``.
        seed: seed of generated graphs, and of the random 60/20/20 split over labelled nodes of a
            graph without a split; a ``Graph`` gets no split.

    Raises:
        TypeError: for an object that is none of these.
        ValueError: for an unknown name, a malformed file, or edges with values other than one weight
            of at least 0.
        RuntimeError: if the data is missing and cannot be downloaded; the text lists the files and
            their folder.

    Example:
        >>> g = load("sbm:1000,4,10")
        >>> g.name, g.num_nodes, g.num_classes
        ('sbm:1000,4,10', 1000, 4)
    """
    result = _read(graph, None if root is None else Path(root), seed, edge_features, drop_edge_data, split)
    if name is not None:
        result = replace(result, name=name)
    if isinstance(result, EdgeList):
        return result.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)
    # A Graph has had its edge rules applied: only those that the caller passes change it.
    return result.with_edge_rules(
        symmetrize=bool(symmetrize), deduplicate=bool(deduplicate), self_loops=self_loops or "keep"
    )


def expect(name_or_path: str | Path) -> None:
    """Check that a name is known or a path exists, without reading the graph.

    Raises:
        ValueError: for an unknown name, a generated name with wrong parameters, or a path that does not exist.
    """
    text = str(name_or_path)
    source, parameters = _find(text)
    if source is None:
        folder = text.rpartition(":")[0] or text
        if not Path(text).expanduser().exists() and not Path(folder).expanduser().is_dir():
            raise ValueError(_unknown(text))
    elif ":" in source.name:
        # The parameters are parsed only: a generated graph is not made here.
        pattern = source.name.partition(":")[2]
        _numbers(source.name, parameters, (float,) * len(pattern.split(",")))


def known_size(name: str) -> tuple[int, int, int] | None:
    """Return lower bounds on nodes, edges and dense features of a named graph, or None if unknown.

    Example:
        >>> known_size("sbm:1000,4,10"), known_size("cora")
        ((1000, 1000, 64), None)
    """
    source, parameters = _find(name)
    if source is None:
        return None
    if ":" not in source.name:
        return source.size
    first_parameter = parameters.partition(",")[0]
    nodes = 2 ** int(first_parameter) if source.name.startswith("rmat") else int(first_parameter)
    return nodes, nodes, 64  # one self loop per node; the number of distinct sampled edges is not known


def is_downloaded(name: str) -> bool:
    """Return True for a known name whose files must be downloaded or be in the folder of data.

    Example:
        >>> is_downloaded("cora"), is_downloaded("digits"), is_downloaded("sbm:1000,4,10")
        (True, False, False)
    """
    source, _ = _find(name)
    return source is not None and source.download != "nothing"


def names() -> list[dict[str, str]]:
    """List all known names with description and required download, for tables.

    Example:
        >>> names()[0]["name"], names()[0]["needs"]
        ('digits', 'nothing')
    """
    return [{"name": source.name, "about": source.about, "needs": source.download} for source in _SOURCES]


def _read(
    graph: GraphLike,
    root: Path | None,
    seed: int,
    edge_features: str | Sequence[str] | None,
    drop_edge_data: bool,
    split: int,
) -> EdgeList | Graph:
    options: dict[str, Any] = {"edge_features": edge_features, "drop_edge_data": drop_edge_data, "split": split}
    if not isinstance(graph, Graph | str | Path):
        return edges_of(graph, **options)
    text = str(graph)
    source, parameters = (None, "") if isinstance(graph, Graph) else _find(text)
    # A Path is never a name.
    of_name = source is not None and isinstance(graph, str)
    if edge_features is not None and (of_name or isinstance(graph, Graph)):
        subject = f"graph {graph.name!r}" if isinstance(graph, Graph) else text
        raise ValueError(
            f"edge_features names values of edges in a table, a file or another library's graph, got {edge_features!r} "
            f"for {subject}; pass features to gnnqlab.Graph.from_edges"
        )
    if split and (of_name or isinstance(graph, Graph)):
        subject = graph.name if isinstance(graph, Graph) else text
        raise ValueError(f"split must be 0 for a graph with one split, got {split} for {subject}")
    if isinstance(graph, Graph):
        return graph
    if source is not None and of_name:
        return source.read(parameters, root, seed)
    result = read_path(text, **options)
    if result is not None:
        return result
    raise ValueError(_unknown(text))


def _find(text: str) -> tuple[Source | None, str]:
    """Return the source of a known name, or None, and the part of the name after its colon."""
    stem, colon, parameters = _ALIASES.get(text, text).partition(":")
    for source in _SOURCES:
        known_stem, pattern, _ = source.name.partition(":")
        if stem == known_stem and colon == pattern:
            return source, parameters
    return None, ""


def _unknown(text: str) -> str:
    path = Path(text).expanduser()
    if os.sep in text or (":" not in text and path.suffix):  # meant as a path, for which names are no help
        rule = f"a graph's file or folder must exist, got {text!r}"
        if not path.parent.is_dir():
            return f"{rule}; there is no folder {path.parent}"
        near = closest_words(path.name, (each.name for each in path.parent.iterdir()), limit=1)
        hint = f"did you mean {path.parent / near[0]}" if near else "check the path; gnnqlab graphs lists known names"
        return f"{rule}; {hint}"
    return f"a graph must be a known name or an existing path, got {text!r}; {_known_names(text.partition(':')[0])}"


def _known_names(text: str) -> str:
    stems = {source.name.partition(":")[0].lower(): source.name for source in _SOURCES}
    close_stems = closest_words(text, stems)
    hint = f"did you mean {' or '.join(stems[stem] for stem in close_stems)}? " if close_stems else ""
    return f"{hint}Known names: {', '.join(source.name for source in _SOURCES)}; readable paths: {READABLE}"


def _numbers(pattern: str, parameters: str, kinds: tuple[type, ...]) -> list:
    parts = parameters.split(",")
    try:
        if len(parts) != len(kinds):
            raise ValueError
        return [kind(part) for kind, part in zip(kinds, parts)]
    except ValueError:
        stem = pattern.partition(":")[0]
        example = {"sbm": "sbm:2000,8,10", "rmat": "rmat:14,16", "web": "web:2000,10"}[stem]
        raise ValueError(
            f"a generated graph must be named {pattern}, got '{stem}:{parameters}'; for example {example}"
        ) from None
