"""Names, near misses, paths, and the embedded graph."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from gnnqlab.graph import Graph, load, names
from gnnqlab.graph.sources import data_root
from tests.cases import each
from tests.graph.sources.files import write_planetoid

CONTRACT = (
    "digits", "sbm:NODES,CLASSES,DEGREE", "rmat:SCALE,DEGREE", "web:NODES,DEGREE", "cora", "citeseer", "pubmed",
    "reddit", "yelp", "ogbn-arxiv", "ogbn-products", "papers100M", "amazon-products",
)  # fmt: skip


def test_every_promised_name_is_listed() -> None:
    assert [row["name"] for row in names()] == list(CONTRACT)
    assert all(row["about"] and row["needs"] for row in names())


def test_digits() -> None:
    g = load("digits")
    assert (g.name, g.num_nodes, g.num_features, g.num_classes) == ("digits", 1797, 64, 10)
    assert [int(m.sum()) for m in (g.train_mask, g.val_mask, g.test_mask)] == [1078, 359, 360]
    assert int(g.in_degrees.min()) >= 11 and g.is_symmetric  # ten neighbours and itself
    assert float(g.features.min()) == 0 and float(g.features.max()) == 1
    # The same graph on every machine: integer distances, ties by id.
    assert g.content_hash == "48c1869505d3e1256c540091277ebfb0"
    directed = load("digits", symmetrize=False, self_loops="remove")
    assert torch.equal(directed.in_degrees, torch.full((1797,), 10))


def test_digits_graph_has_the_images_and_labels_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    g = load("digits")
    assert (g.features.numpy() * 16 == images).all() and (g.labels.numpy() == labels).all()
    # As if the bundled file had moved, or scikit-learn were absent.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert load("digits").content_hash == g.content_hash
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(RuntimeError, match="graph 'digits' needs scikit-learn, which bundles its images: .*; install"):
        load("digits")


def test_digits_lists_the_nearest() -> None:
    g = load("digits", symmetrize=False, self_loops="remove")
    node = 7
    distance = torch.cdist(g.features[node : node + 1].double(), g.features.double())[0]
    listed = g.indices[g.indptr[node] : g.indptr[node + 1]].long()
    others = torch.ones(g.num_nodes, dtype=torch.bool)
    others[listed] = False
    others[node] = False
    assert float(distance[listed].max()) <= float(distance[others].min()) + 1e-12


def test_seed_reaches_generator_and_split() -> None:
    assert load("sbm:50,2,4", seed=1).content_hash != load("sbm:50,2,4", seed=2).content_hash
    assert not torch.equal(load("digits", seed=1).train_mask, load("digits", seed=2).train_mask)
    assert load("rmat:6,4", seed=1).name == "rmat:6,4"


@each(
    ("name", "text"),
    [
        ("digit", r"got 'digit'; did you mean digits.*\? Known names: digits, sbm:NODES,CLASSES,DEGREE"),
        ("ogbn_arxiv", "did you mean ogbn-arxiv"),
        ("Cora", "did you mean cora"),
        ("sbm", "did you mean sbm:NODES,CLASSES,DEGREE"),
        (
            "xyzzy",
            r"a graph must be a known name or an existing path, got 'xyzzy'; Known names: .*; readable paths: .npz",
        ),
        ("./none.npz", "got './none.npz'"),
        ("sbm:10,2", "must be named sbm:NODES,CLASSES,DEGREE, got 'sbm:10,2'; for example sbm:2000,8,10"),
        ("sbm:a,b,c", "must be named sbm:NODES,CLASSES,DEGREE, got 'sbm:a,b,c'"),
        ("rmat:4", "must be named rmat:SCALE,DEGREE, got 'rmat:4'; for example rmat:14,16"),
        ("sbm:2,4,1", "nodes must be at least 4, got 2"),
    ],
)
def test_unknown_names(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load(name)


def test_unreadable_paths(tmp_path: Path) -> None:
    (tmp_path / "notes.pdf").write_text("nothing")
    with pytest.raises(ValueError, match=r"a graph path must be one of: .npz file, .* got the file .*notes.pdf"):
        load(tmp_path / "notes.pdf")
    with pytest.raises(ValueError, match=r"a graph path must be one of: .* got the folder"):
        load(tmp_path)


def test_names_go_before_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Graph.from_edges([0], [1], num_nodes=2, name="mine").save(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert load("digits").name == "digits"
    assert load("./digits").name == "mine"
    assert load(Path("digits")).name == "mine"


def test_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert data_root("x") == Path("x")
    assert data_root() == tmp_path / "downloads"  # the environment variable
    monkeypatch.delenv("GNNQLAB_DATA")
    assert data_root() == Path("~/.cache/gnnqlab/data").expanduser()
    (tmp_path / "datasets").mkdir()
    assert data_root() == Path("datasets/downloads")


def test_prepared_graphs_in_the_root_are_taken(tmp_path: Path) -> None:
    small = Graph.from_edges([0], [1], num_nodes=2, name="prepared")
    small.save(tmp_path / "papers100M")
    small.save(tmp_path / "pubmed")
    assert load("papers100M", root=tmp_path).name == "prepared"
    assert load("ogbn-papers100M", root=tmp_path).name == "prepared"
    assert load("pubmed", root=tmp_path).name == "prepared"


@each("place", ["cora", "planetoid", "raw/planetoid", "cora_d697a464"])
@each("stem", ["cora", "cora_v2"])
def test_citation_files_are_found_where_people_put_them(tmp_path: Path, place: str, stem: str) -> None:
    write_planetoid(tmp_path / place, stem)
    g = load("cora", root=tmp_path)
    assert (g.name, g.num_nodes) == ("cora", 10)


def test_shared_data_as_root(shared: Path) -> None:
    assert load("cora", root=shared).num_nodes == 2708
    assert load("citeseer", root=shared / "raw").num_nodes == 3327
