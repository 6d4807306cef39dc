"""Formats of graph files: each is read, with its edges, ids and weights, or refused with the way out.

The table of formats is the list of cases; every file is made by the test.
"""

from __future__ import annotations

import gzip
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csc_array, csr_array, save_npz

import gnnqlab as gq
from gnnqlab.graph import Graph
from tests.cases import each

EDGES = [(0, 1), (1, 2), (3, 4)]
WEIGHTS = [0.5, 2.5, 4.0]
NAMES = ["ann", "ben", "cleo", "dora", "emil"]
HALF = coo_array((WEIGHTS, tuple(zip(*EDGES, strict=True))), shape=(5, 5))
LINES = "".join(f"{u} {v}\n" for u, v in EDGES)
X, Y = np.arange(10.0).reshape(5, 2), np.array([0, 1, 0, 1, 0])
Make = Callable[[Path], Path]


def text(name: str, content: str) -> Make:
    """Return a function that writes a text file, compressed if its name ends in ``.gz``."""

    def make(folder: Path) -> Path:
        data = content.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return folder / name

    return make


def saved(name: str, save: Callable[[Path], object]) -> Make:
    def make(folder: Path) -> Path:
        save(folder / name)
        return folder / name

    return make


def folder_of(files: dict[str, Callable[[Path], object]]) -> Make:
    def make(folder: Path) -> Path:
        inner = folder / "graph"
        for name, write in files.items():
            (inner / name).parent.mkdir(parents=True, exist_ok=True)
            write(inner / name)
        return inner

    return make


def parquet(folder: Path) -> Path:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pd = pytest.importorskip("pandas")
    shards = folder / "shards"
    shards.mkdir()
    for number, edge in enumerate(EDGES):
        pd.DataFrame({"src": [edge[0]], "dst": [edge[1]]}).to_parquet(shards / f"part-{number}.parquet")
    return shards


def by_networkx(name: str) -> Make:
    def make(folder: Path) -> Path:
        nx = pytest.importorskip("networkx", reason="networkx is not installed")
        graph = nx.Graph(
            [(NAMES[u], NAMES[v], {"weight": weight}) for (u, v), weight in zip(EDGES, WEIGHTS, strict=True)]
        )
        write = {".graphml": nx.write_graphml, ".gml": nx.write_gml, ".gexf": nx.write_gexf, ".net": nx.write_pajek}
        write[Path(name).suffix](graph, folder / name)
        return folder / name

    return make


def planetoid(folder: Path) -> Path:
    rows, classes = np.eye(6, 3), np.eye(2, dtype=np.int32)[np.arange(6) % 2]
    graph = defaultdict(list, {np.int64(i): [np.int64((i + 1) % 6)] for i in range(6)})
    parts = {
        "x": csr_array(rows[:4]), "y": classes[:4], "allx": csr_array(rows[:4]), "ally": classes[:4],
        "tx": csr_array(rows[4:]), "ty": classes[4:], "graph": graph,
    }  # fmt: skip
    for part, value in parts.items():
        (folder / f"ind.ring.{part}").write_bytes(pickle.dumps(value))
    (folder / "ind.ring.test.index").write_text("4\n5\n")
    return folder


def mat(path: Path, **arrays: object) -> None:
    from scipy.io import savemat

    savemat(path, arrays)


READ: dict[str, Make] = {
    "CSV": text("a.csv", "src,dst\n" + LINES.replace(" ", ",")),
    "CSV, gzip": text("a.csv.gz", "src,dst\n" + LINES.replace(" ", ",")),
    "TSV": text("a.tsv", "source\ttarget\n" + LINES.replace(" ", "\t")),
    "SNAP": text("a.txt", "# FromNodeId\tToNodeId\n" + LINES.replace(" ", "\t")),
    "SNAP, gzip": text("a.txt.gz", "# comment\n" + LINES),
    "KONECT": text("a.edges", "% sym unweighted\n" + LINES),
    "networkx edge list": text("a.edgelist", LINES),
    "Gephi edges": text("a.csv", "Source,Target,Weight\n" + "".join(f"{u},{v},1\n" for u, v in EDGES)),
    "Neo4j relationships": text("a.csv", ":START_ID,:END_ID\n" + LINES.replace(" ", ",")),
    "Matrix Market": text("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n5 5 3\n1 2\n2 3\n4 5\n"),
    "Matrix Market, gzip, weights": text(
        "a.mtx.gz", "%%MatrixMarket matrix coordinate real symmetric\n5 5 3\n2 1 0.5\n3 2 2.5\n5 4 4.0\n"
    ),
    "GraphML": by_networkx("a.graphml"),
    "GML": by_networkx("a.gml"),
    "GEXF": by_networkx("a.gexf"),
    "Pajek": by_networkx("a.net"),
    "METIS": text("a.graph", "% comment\n5 3\n2\n1 3\n2\n5\n4\n"),
    "METIS, weights": text("a.graph", "5 3 11 1\n9 2 1\n9 1 1 3 2\n9 2 2\n9 5 4\n9 4 4\n"),
    "DIMACS": text("a.col", "c comment\np edge 5 3\ne 1 2\ne 2 3\ne 4 5\n"),
    "DIMACS, weights": text("a.gr", "p sp 5 3\na 1 2 0.5\na 2 3 2.5\na 4 5 4.0\n"),
    "MATLAB": saved("a.mat", lambda path: mat(path, A=HALF + HALF.T, features=X, labels=Y)),
    "Facebook100": saved("a.mat", lambda path: mat(path, A=HALF + HALF.T, local_info=np.ones((5, 7), int))),
    "npz of usual names": saved("a.npz", lambda path: np.savez(path, edge_index=np.array(EDGES).T, x=X, y=Y)),
    "npz of ours": saved(
        "a.npz", lambda path: np.savez(path, num_nodes=5, edge_src=[0, 1, 3], edge_dst=[1, 2, 4], feat=X, label=Y)
    ),
    "npz of scipy": saved("a.npz", lambda path: save_npz(path, csc_array(np.triu((HALF + HALF.T).toarray() > 0)))),
    "npz of rows": saved(
        "a.npz", lambda path: np.savez(path, indptr=np.array([0, 1, 2, 2, 3, 3]), indices=np.array([1, 2, 4]))
    ),
    "METIS, gzip": saved("A.GRAPH.gz", lambda path: path.write_bytes(gzip.compress(b"5 3\n2\n1 3\n2\n5\n4\n"))),
    "npy folder": folder_of(
        {"edge_index.npy": lambda path: np.save(path, np.array(EDGES)), "node_feat.npy": lambda path: np.save(path, X)}
    ),
    "pt of tensors": saved(
        "a.pt", lambda path: torch.save({"edge_index": torch.tensor(EDGES).T, "x": torch.ones(5, 2)}, path)
    ),
    "pt of names of DGL": saved(
        "a.pt", lambda path: torch.save({"edge_index": torch.tensor(EDGES).T, "feat": torch.ones(5, 2)}, path)
    ),
    "pt as PyG stores it": saved(
        "a.pt", lambda path: torch.save(({"edge_index": torch.tensor(EDGES).T, "num_nodes": 5}, None), path)
    ),
    "folder of tables": folder_of(
        {
            "edges.csv.gz": lambda path: text(path.name, "src,dst\n" + LINES.replace(" ", ","))(path.parent),
            "nodes.tsv": lambda path: path.write_text("id\tf\n" + "".join(f"{k}\t1\n" for k in range(5))),
        }
    ),
    "saved graph": saved(
        "graph", lambda path: Graph.from_edges(*zip(*EDGES, strict=True), num_nodes=5, name="a").save(path)
    ),
}
"""Format -> function that makes a file with the same three edges of five nodes."""
REFUSED: dict[str, tuple[Make, str]] = {
    "pickle": (text("a.pkl", "x"), "a pickle can run code .*; load it yourself, and pass the graph"),
    "pt of objects": (
        saved("a.pt", lambda path: torch.save({"a": Path()}, path)),
        r"torch.load\(path, weights_only=False",
    ),
    "AnnData": (text("a.h5ad", "x"), "with anndata.read_h5ad, and pass it to gnnqlab.load, or to from_anndata"),
    "HDF5": (text("a.h5", "x"), "read its arrays with h5py"),
    "Excel": (text("a.xlsx", "x"), "pandas.read_excel .* gnnqlab.read_edges"),
    "JSON": (text("a.json", "{}"), "networkx.node_link_graph"),
    "RDF": (text("a.ttl", "x"), "select one, and pass its pairs to gnnqlab.read_edges"),
    "archive": (text("a.tgz", "x"), "unpack the archive, and pass the folder or file in it"),
    "R": (text("a.rds", "x"), "write it in R as GraphML"),
    "DGL CSV": (folder_of({"meta.yaml": lambda path: path.write_text("edge_data:")}), "pass .* to gnnqlab.from_dgl"),
    "npz of unknown names": (
        saved("a.npz", lambda path: np.savez(path, edge_index=np.array(EDGES).T, mystery=X)),
        "must have a usual name, got mystery, which .* or pass arrays to gnnqlab.Graph.from_edges",
    ),
    "OGB without features": (
        folder_of(
            {
                "raw/edge.csv.gz": lambda path: path.write_bytes(gzip.compress(b"0,1\n")),
                "split/species/train.csv.gz": lambda path: path.write_bytes(gzip.compress(b"0\n")),
            }
        ),
        "lacks raw/node-feat.csv.gz.*; a graph without node features, .* gnnqlab.Graph.from_edges",
    ),
    "dense Matrix Market": (
        text("a.mtx", "%%MatrixMarket matrix array real general\n1 1\n1\n"),
        "sparse matrix .*, got a dense one; pass it to gnnqlab.from_scipy",
    ),
    "unknown": (text("a.pdf", "x"), "a graph path must be one of: .*Matrix Market"),
}
"""Format -> function that makes a file, and the way out that the error has."""


def found_edges(graph: Graph) -> set[tuple[object, object]]:
    pairs = zip(*(ends.tolist() for ends in graph.edge_list()), strict=True)
    return {(graph.id_of(u), graph.id_of(v)) for u, v in pairs if u < v}


@each("name", list(READ))
def test_format_is_read_with_its_edges(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name.replace(" ", "-")
    folder.mkdir()
    graph = gq.load(READ[name](folder))
    assert graph.num_nodes == 5
    has_names = name in ("GraphML", "GML", "GEXF", "Pajek")
    named = {(NAMES[u], NAMES[v]) for u, v in EDGES}
    assert found_edges(graph) == (named if has_names else set(EDGES))
    is_weighted = has_names or "weights" in name or name in ("MATLAB", "Facebook100")
    assert (graph.edge_weights is not None) == is_weighted
    if is_weighted:
        assert {0.5, 2.5, 4.0} <= set(graph.edge_weights.tolist()) or "METIS" in name  # type: ignore[union-attr]
    if name in ("MATLAB", "npz of usual names", "npz of ours"):
        assert (graph.features.tolist(), graph.labels.tolist()) == (X.tolist(), Y.tolist())
    assert name != "pt of names of DGL" or graph.num_features == 2
    has_no_notes = ("npz of ours", "npz of rows", "npz of scipy", "saved graph", "pt of tensors", "pt of names of DGL")
    assert graph.notes or name in (*has_no_notes, "pt as PyG stores it")


def test_folder_of_parquet_files_is_read(tmp_path: Path) -> None:
    assert found_edges(gq.load(parquet(tmp_path))) == set(EDGES)
    (tmp_path / "store").mkdir()
    (tmp_path / "shards").rename(tmp_path / "store" / "edges")
    assert found_edges(gq.load(tmp_path / "store")) == set(EDGES)


def test_planetoid_files_of_numpy_2_are_read(tmp_path: Path) -> None:
    graph = gq.load(f"{planetoid(tmp_path)}:ring")
    assert (graph.num_nodes, graph.num_edges) == (6, 18)
    assert np.allclose(np.asarray(graph.features), np.eye(6, 3))


@each("name", list(REFUSED))
def test_format_is_refused_with_the_way_out(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name.replace(" ", "-")
    folder.mkdir()
    make, way_out = REFUSED[name]
    with pytest.raises(ValueError, match=way_out):
        gq.load(make(folder))


def test_one_of_several_splits_is_chosen_and_said(tmp_path: Path) -> None:
    draw = np.random.default_rng(0).random((40, 10))
    masks = {"train_mask": draw < 0.5, "val_mask": (draw >= 0.5) & (draw < 0.7), "test_mask": draw >= 0.7}
    ends = np.random.default_rng(1).integers(0, 40, (2, 90))
    path = tmp_path / "a.npz"
    np.savez(path, edge_index=ends, x=draw, y=np.arange(40) % 2, **masks)
    for split in (0, 3):
        graph = gq.load(path, split=split)
        assert graph.train_mask.tolist() == masks["train_mask"][:, split].tolist()
        assert any(f"number {split} of 10" in note for note in graph.notes)
    with pytest.raises(ValueError, match=r"split must be in \[0, 10\), the number of splits in the masks, got 10"):
        gq.load(path, split=10)
    with pytest.raises(ValueError, match="split must be 0 for a graph with one split, got 1 for digits"):
        gq.load("digits", split=1)
