"""Objects that ``load`` takes in addition to names and paths: recognised by their attributes, without an import."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

import gnnqlab as gq
from gnnqlab.graph import Graph, from_anndata, load
from tests.cases import each
from tests.slow_down import HANG_S

SRC, DST = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2, 3, 2])
X, Y = torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1])
SPLIT = {"train_mask": Y < 0, "val_mask": Y < 0, "test_mask": Y < 0}
SPLIT["train_mask"] = torch.tensor([True, False, True, False])


def expected() -> Graph:
    return Graph.from_edges(SRC, DST, num_nodes=4, features=X, labels=Y, train_idx=[0, 2])


class FakeDGL:
    """The attributes of a ``dgl.DGLGraph`` that the conversion uses."""

    is_homogeneous = True

    def __init__(self) -> None:
        self.ndata: dict[str, Any] = {"feat": X, "label": Y, **SPLIT}
        self.edata: dict[str, Any] = {}

    def edges(self) -> tuple[torch.Tensor, torch.Tensor]:
        return SRC, DST

    def num_nodes(self) -> int:
        return 4


class FakeNetworkx:
    """The attributes of a ``networkx.DiGraph`` that the conversion uses: named nodes and edges with attributes."""

    name = ""

    def __init__(self) -> None:
        masks = {key: mask.tolist() for key, mask in SPLIT.items()}
        self.nodes = {
            f"n{i}": {"x": X[i].tolist(), "y": int(Y[i]), **{key: mask[i] for key, mask in masks.items()}}
            for i in range(4)
        }

    def edges(self, data: bool) -> list[tuple[str, str, dict[str, Any]]]:
        assert data
        return [(f"n{u}", f"n{v}", {}) for u, v in zip(SRC.tolist(), DST.tolist())]

    def is_directed(self) -> bool:
        return True

    def is_multigraph(self) -> bool:
        return False


def pyg() -> SimpleNamespace:
    return SimpleNamespace(edge_index=torch.stack([SRC, DST]), x=X, y=Y, edge_attr=None, **SPLIT)


def scipy() -> SimpleNamespace:
    entries = SimpleNamespace(row=SRC.numpy(), col=DST.numpy(), data=np.ones(4))
    return SimpleNamespace(shape=(4, 4), tocoo=lambda: entries)


@each(("make", "name"), [(FakeDGL, "dgl"), (pyg, "pyg"), (FakeNetworkx, "networkx")])
def test_objects_with_all_that_training_needs(make: Any, name: str) -> None:
    found = load(make())
    if name == "networkx":  # the only one whose nodes have names
        assert found.ids is not None and found.ids.tolist() == [f"n{i}" for i in range(4)]
    assert (found.name, found._replace(ids=None).content_hash) == (name, expected().content_hash)
    assert load(make(), name="mine").name == "mine"
    raw = load(make(), symmetrize=False, deduplicate=False, self_loops="keep")
    assert sorted(zip(*(end.tolist() for end in raw.edge_list()))) == sorted(zip(SRC.tolist(), DST.tolist()))


def test_an_adjacency_is_structure_alone() -> None:
    found = load(scipy())
    assert found.content_hash == Graph.from_edges(SRC, DST, num_nodes=4).content_hash
    with pytest.raises(ValueError, match=r"graph 'scipy' has no features, labels, train split; pass .*with_random_spl"):
        gq.configure(scipy())


def test_a_graph_stays_as_it_is() -> None:
    graph = expected()
    assert load(graph) is graph
    assert (load(graph, name="mine").name, load(graph, name="mine").content_hash) == ("mine", graph.content_hash)
    assert load(graph, self_loops="remove").num_edges == 6


def test_real_objects_of_pyg() -> None:
    data = pytest.importorskip("torch_geometric.data", reason="PyG is not installed")
    made = data.Data(edge_index=torch.stack([SRC, DST]), x=X, y=Y, **SPLIT)
    assert load(made).content_hash == expected().content_hash
    made.edge_attr = torch.rand(4)
    with pytest.raises(ValueError, match="got edge_attr"):
        load(made)
    with pytest.raises(TypeError, match="convert a heterogeneous one with to_homogeneous"):
        load(data.HeteroData({"a": {"x": X}, ("a", "to", "a"): {"edge_index": torch.stack([SRC, DST])}}))


def test_real_graphs_of_dgl() -> None:
    dgl = pytest.importorskip("dgl", reason="DGL is not installed")
    made = dgl.graph((SRC, DST), num_nodes=4)
    made.ndata.update({"feat": X, "label": Y, **SPLIT})
    assert load(made).content_hash == expected().content_hash
    # DGL's records of a part of a graph are no features of its edges.
    assert load(dgl.node_subgraph(made, [0, 1, 2])).num_nodes == 3
    made.edata["length"] = torch.rand(4)
    with pytest.raises(ValueError, match="got length"):
        load(made)
    assert load(made, drop_edge_data=True).content_hash == expected().content_hash
    several = dgl.heterograph({("a", "to", "b"): ([0], [1])})
    with pytest.raises(TypeError, match="one node and one edge type, got several; use dgl.to_homogeneous"):
        load(several)
    assert load(dgl.to_homogeneous(several)).num_nodes == 3


@each(("given", "shown"), [([[0, 1]], "list"), (np.eye(3), "ndarray"), (torch.eye(3), "Tensor"), (None, "NoneType")])
@each("verb", [load, gq.configure, gq.launch, gq.probe, gq.partition])
def test_error_for_an_unsupported_graph_type_lists_accepted_types(given: object, shown: str, verb: Any) -> None:
    text = (
        f"a graph must be a gnnqlab.Graph, a name, a path, a dgl.DGLGraph, a PyG Data, a networkx graph, an AnnData or "
        f"a square scipy.sparse adjacency, got {shown}; arrays of edges go to gnnqlab.Graph.from_edges, pandas tables "
    )
    with pytest.raises(TypeError, match=text):
        verb(given)


def test_partitions_and_configurations_of_foreign_graphs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path))
    parts = gq.partition(scipy(), gq.partitioners.Random(), workers=2)
    assert (parts.graph.name, parts.workers) == ("scipy", 2)
    assert gq.partition("sbm:20,2,4", gq.partitioners.Random(), workers=2).graph.name == "sbm:20,2,4"
    path = gq.configure(FakeDGL()).graph
    assert path.endswith("/dgl") and load(path).content_hash == expected().content_hash


def test_recognising_imports_no_library() -> None:
    program = (
        "import sys, types, torch; import gnnqlab as gq;"
        "gq.load(types.SimpleNamespace(edge_index=torch.tensor([[0], [1]])));"
        "print(*{'dgl', 'torch_geometric', 'networkx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.strip() == ""


class FakeAnnData:
    """The attributes of an ``anndata.AnnData`` that the conversion uses."""

    def __init__(self) -> None:
        weights = sparse.csr_matrix(([0.5, 0.5, 1.0, 1.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(4, 4))
        self.X = sparse.csr_matrix(X.numpy())
        self.obs_names = pd.Index(["AAAC-1", "AAAG-1", "CCGT-1", "TTGA-1"])
        types = pd.Categorical(["T cell", "B cell", None, "T cell"])
        self.obs = pd.DataFrame({"cell_type": types, "n_genes": [5, 6, 7, 8]}, index=self.obs_names)
        self.obsp = {"connectivities": weights, "distances": weights * 2}


def test_an_annotated_matrix_has_ids_weights_and_classes() -> None:
    graph = from_anndata(FakeAnnData(), labels="cell_type", name="cells")
    assert graph.name == "cells" and graph.ids is not None and graph.ids.tolist() == FakeAnnData().obs_names.tolist()
    assert graph.class_names == ("B cell", "T cell") and graph.labels.tolist() == [1, 0, -1, 1]
    assert torch.equal(graph.features.to_dense(), X)
    found = dict(zip(zip(*(ends.tolist() for ends in graph.edge_list())), graph.edge_weights.tolist()))
    assert found[0, 1] == found[1, 0] == 0.5 and found[1, 2] == 1.0
    assert "left out of obs: n_genes; labels= names the classes" in graph.notes


def test_load_takes_an_annotated_matrix_without_labels() -> None:
    graph = load(FakeAnnData(), drop_edge_data=True)
    assert graph.num_classes == 0 and graph.edge_weights is None and graph.num_features == 2
    without = FakeAnnData()
    without.X = None
    assert load(without).num_features == 0
    double = from_anndata(FakeAnnData(), connectivities="distances").edge_weights
    assert double is not None and 2.0 in double.tolist()


def test_a_key_or_column_that_an_annotated_matrix_lacks_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"key of obsp, which has \['connectivities', 'distances'\], got 'near'; scanpy"
    ):
        from_anndata(FakeAnnData(), connectivities="near")
    with pytest.raises(ValueError, match=r"column of obs, which has \['cell_type', 'n_genes'\], got 'type'"):
        from_anndata(FakeAnnData(), labels="type")
