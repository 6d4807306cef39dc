"""What the README says about one's own graph runs as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gnnqlab as gq
from tests.pages import ROOT, blocks

README = ROOT / "README.md"


def test_your_own_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    pytest.importorskip("dgl", reason="DGL is not installed")
    from scipy.sparse import coo_array

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "people").mkdir()
    for edges, nodes in (("roads", "places"), ("people/edges", "people/nodes")):
        Path(f"{edges}.csv").write_text("src,dst\n0,1\n1,2\n2,3\n")
        Path(f"{nodes}.csv").write_text("age,label,split\n30,0,train\n40,1,train\n50,0,val\n60,1,test\n")
    nx_graph = nx.path_graph(["a", "b", "c", "d"])
    nx.set_node_attributes(nx_graph, {node: {"age": 30 + row, "club": row % 2} for row, node in enumerate(nx_graph)})
    names: dict[str, Any] = {
        "gq": gq,
        "dgl_graph": gq.to_dgl(gq.load("sbm:20,2,4")),
        "nx_graph": nx_graph,
        "adjacency": coo_array(([1, 1, 1], ([0, 1, 2], [1, 2, 3])), shape=(4, 4)),
        "src": [0, 1, 2],
        "dst": [1, 2, 3],
        "x": torch.rand(4, 2),
        "y": [0, 1, 0, 1],
    }
    launched = []
    monkeypatch.setattr(gq, "launch", lambda graph, **settings: launched.append(gq.configure(graph, **settings)))
    made = []
    for line in blocks(README, under="Your own graph")[0].splitlines():
        exec(line, names)
        made.append(names.get("graph"))
    assert [config.system.name for config in launched] == ["adaqp"] and launched[0].graph.endswith("/dgl")
    assert [graph.name for graph in made[1:]] == ["mine", "networkx", "scipy", "roads", "people", "graph"]
    for graph in made[1:]:
        graph.check_trainable()
    # The four nodes of a path, whichever way they came.
    assert {graph.num_edges for graph in made[2:]} == {10}
