"""The how-to pages: their code runs as it is written, on threads of this process in place of launched workers."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits import Rows
from gnnqlab.cli import main
from gnnqlab.errors import NonFiniteRow
from gnnqlab.lab.figures import static_image
from gnnqlab.launch import local
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.nn.models import registry
from gnnqlab.run import exported_run
from gnnqlab.run import folder as files
from gnnqlab.run.node_tables import embedding_table, prediction_table
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer, one_thread
from gnnqlab.systems import registry as systems
from gnnqlab.train.config.run_config import RunConfig, TrainSettings
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from gnnqlab.train.node_features import with_node_features
from tests.pages import ROOT, blocks, section

HOW_TO = ROOT / "docs" / "how_to"
EPOCHS = 2


@dataclass
class Trained:
    """A stand-in for a run: the configuration that workers would read, and losses."""

    config: RunConfig
    graph: gq.Graph
    losses: list[float] = field(default_factory=list)

    def wait(self) -> Trained:
        return self

    def predict(self) -> torch.Tensor:
        return torch.zeros(self.graph.num_nodes, self.graph.num_classes)

    def predictions(self, *, probabilities: bool = False) -> pd.DataFrame:
        names = self.graph.class_names
        return prediction_table(self.predict(), self.graph, names, probabilities=probabilities, split=True)

    def embeddings(self, *, frame: bool) -> pd.DataFrame:
        assert frame
        return embedding_table(torch.zeros(self.graph.num_nodes, self.config.model.hidden), self.graph)


@dataclass
class Read:
    """Names, runs and graphs that a page's code has made."""

    names: dict[str, Any]
    runs: list[Trained]
    graphs: list[gq.Graph]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Read]]:
    """Runs a page: blocks that begin with a file name are modules in the same folder, the others form the script."""
    for variable in ("GNNQLAB_CACHE", "GNNQLAB_RUNS"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = [(known, dict(known)) for known in (registry.MODELS, registry._KINDS, systems.SYSTEMS)]
    modules = set(sys.modules)
    runs: list[Trained] = []
    on_machines = gq.launch.on_machines

    def launch(graph: Any, *, wait: bool = False, **settings: Any) -> Trained:
        # Workers receive the configuration as text only.
        config = RunConfig.from_json(json.loads(json.dumps(gq.configure(graph, **settings).to_json())))
        loaded = with_node_features(gq.load(graph), config.task.node_features, columns=config.model.hidden)
        loaded.check_trainable()
        run = Trained(config, loaded)
        runs.append(run)
        if config.launch.device == "cpu":
            system = config.system.on_hosts(config.launch.hosts or 1)
            cut = system.partition.cut(loaded, config.workers)
            own = config.task.objective
            workers = ThreadedWorkers(loaded, cut, system, config.model, config.train, as_launched=True, objective=own)
            run.losses += [workers.step(epoch) for epoch in range(EPOCHS)]
            assert all(0 < loss < 10 for loss in run.losses)
        return run

    def read_page(page: str, launches: Callable[..., Any] = launch) -> Read:
        monkeypatch.setattr(launches, "on_machines", on_machines, raising=False)
        monkeypatch.setattr(gq, "launch", launches)
        names: dict[str, Any] = {"__name__": "how_to"}
        graphs: list[gq.Graph] = []
        for block in blocks(HOW_TO / f"{page}.md"):
            first = block.partition("\n")[0]
            if first.startswith("# ") and first.endswith(".py"):
                Path(first.removeprefix("# ")).write_text(block)
                continue
            exec(compile(block, f"{page}.md", "exec"), names)
            if "graph" in names and all(names["graph"] is not graph for graph in graphs):
                graphs.append(names["graph"])
        return Read(names, runs, graphs)

    with one_thread():
        yield read_page
    for known, content in before:
        known.clear()
        known.update(content)
    for name in set(sys.modules) - modules:
        if name.startswith("my_"):
            del sys.modules[name]


def test_every_page_is_run() -> None:
    tested = {
        "own_graph",
        "own_model",
        "own_objective",
        "own_codec",
        "own_bits",
        "own_system",
        "cluster",
        "gpu",
        "halo_plans",  # on real ranks, in tests/halo
        "interruptions",
        "links",
        "observer",
        "paper",
        "study",
        "trackers",
    }
    assert {path.stem for path in HOW_TO.glob("*.md")} == tested


def test_your_own_graph(read: Callable[[str], Read]) -> None:
    pytest.importorskip("networkx", reason="networkx is not installed")
    page = read("own_graph")
    names = [graph.name for graph in page.graphs]
    expected = ["follows", "mine", "mine", "matrix", "Zachary's Karate Club", "bare", "weighted", "surfaces", "tables"]
    assert names == expected
    for graph in page.graphs:
        graph.check_trainable(features=graph.name != "bare")
    named, first, split, matrix, karate, bare, weighted, surfaces, towns = page.graphs
    assert [graph.name for graph in page.graphs if graph.edge_weights is not None] == [karate.name, "weighted"]
    assert [graph.num_edge_features for graph in page.graphs] == [0, 0, 0, 0, 0, 0, 0, 2, 0]
    assert bare.num_features == 0 and [run.config.task.node_features for run in page.runs[3:6]] == [
        "degree",
        "learned",
        "given",
    ]
    assert surfaces.num_edges == weighted.num_edges and page.names["sloped"].num_edge_features == 2
    assert [run.config.model.name for run in page.runs] == [
        "graphsage",
        "gcn",
        "graphsage",
        "graphsage",
        "graphsage",
        "gcn",
        "gat",
        "mpnn",
        "graphsage",
    ]
    assert page.names["report"].max_difference < 1e-5
    assert named.class_names == ("buyer", "seller", "visitor") and named.id_of(0).startswith("user-")
    written = pd.read_csv("predictions.csv")
    assert set(written["id"]) == set(named.ids.tolist()) and set(written["class"]) <= set(named.class_names)
    assert towns.class_names == ("town", "village") and list(page.names["table"])[-1] == "probability_village"
    assert page.names["nearest"].shape == (60, 256)
    assert weighted.num_edges == 2 * int((page.names["src"] != page.names["dst"]).sum()) + 60
    assert first.num_edges == split.num_edges == matrix.num_edges == towns.num_edges
    assert [int(mask.sum()) for mask in (split.train_mask, split.val_mask, split.test_mask)] == [40, 10, 10]
    assert (karate.num_nodes, karate.num_edges) == (34, 2 * 78 + 34) and towns.num_features == 1
    devices = page.names["network"]
    assert (devices.num_features, devices.num_labelled, devices.id_of(0)) == (8, 40, "dev-0")
    assert page.names["classes"].shape == (60,)


def test_your_own_graph_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nx = pytest.importorskip("networkx", reason="networkx is not installed")
    pytest.importorskip("dgl", reason="DGL is not installed")
    from scipy.io import savemat
    from scipy.sparse import coo_array

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "people").mkdir()
    Path("people/edges.csv").write_text("src,dst\n0,1\n1,2\n2,3\n")
    Path("people/nodes.csv").write_text("age,label,split\n30,0,train\n40,1,train\n50,0,val\n60,1,test\n")
    Path("soc-Epinions1.txt.gz").write_bytes(gzip.compress(b"# FromNodeId ToNodeId\n0\t1\n1\t2\n2\t3\n"))
    Path("power.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n4 4 3\n1 2\n2 3\n3 4\n")
    savemat(
        "Penn94.mat", {"A": coo_array(([1, 1, 1], ([0, 1, 2], [1, 2, 3])), shape=(4, 4)), "local_info": np.ones((4, 7))}
    )
    masks = {f"{part}_masks": np.eye(4, dtype=bool) for part in ("train",)}
    ends = {"edge_index": [[0, 1, 2], [1, 2, 3]], "x": np.ones((4, 2)), "y": [0, 1, 0, 1]}
    np.savez("tolokers.npz", **ends, **masks)
    nx_graph = nx.path_graph(["a", "b", "c", "d"])
    nx.set_node_attributes(nx_graph, {node: {"age": 30 + row, "club": row % 2} for row, node in enumerate(nx_graph)})
    names: dict[str, Any] = {
        "gq": gq,
        "gnnqlab": gq,
        "data": SimpleNamespace(
            X=np.ones((4, 2)),
            obs_names=["a", "b", "c", "d"],
            obs=pd.DataFrame({"cell_type": ["T", "B", "T", "B"]}),
            obsp={"connectivities": coo_array(([1, 1, 1], ([0, 1, 2], [1, 2, 3])), shape=(4, 4))},
        ),
        "dgl_graph": gq.load("sbm:20,2,4").to_dgl(),
        "nx_graph": nx_graph,
        "adjacency": coo_array(([1, 1, 1], ([0, 1, 2], [1, 2, 3])), shape=(4, 4)),
        "src": [0, 1, 2],
        "dst": [1, 2, 3],
        "x": torch.rand(4, 2),
        "y": [0, 1, 0, 1],
    }
    launched = []
    monkeypatch.setattr(gq, "launch", lambda graph, **settings: launched.append(gq.configure(graph, **settings)))
    table = section(HOW_TO / "own_graph.md", "In one line")
    made = []
    for line in re.findall(r"^\|.*\| `(.+?)`[^`]*\|$", table, re.M):
        exec(line, names)
        made.append(names.get("graph"))
    assert [config.system.name for config in launched] == ["adaqp"] and launched[0].graph.endswith("/dgl")
    assert [graph.name for graph in made[1:]] == [
        "mine", "networkx", "scipy", "anndata", "soc-Epinions1", "people", "power", "Penn94", "tolokers", "graph",
    ]  # fmt: skip
    for graph in made[1:]:
        if graph.name not in ("soc-Epinions1", "power"):  # edges only
            graph.check_trainable()
    assert {graph.num_edges for graph in made[2:]} == {10}, "the same path of four nodes from every source"


def test_your_own_model(read: Callable[[str], Read], capsys: pytest.CaptureFixture[str]) -> None:
    page = read("own_model")
    (run,) = page.runs
    report = page.names["report"]
    assert report.max_difference < 1e-5 and "gin: workers agree with one process" in str(report)
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("2 the loss of epoch 0 0.") and float(said.split()[-1]) > 1e-4
    assert (run.config.model.name, run.config.model.epsilon, run.config.model.norm) == ("gin", 0.1, "none")
    # The law, dropout included: three workers with float32 messages equal one process.
    settings = TrainSettings(seed=3)
    cut = gq.partitioners.Random(seed=1).cut(run.graph, 3)
    workers = ThreadedWorkers(run.graph, cut, gq.systems.vanilla(), run.config.model, settings)
    alone = exact_trainer(run.graph, run.config.model, seed=3)
    loss, gradients = workers.gradients(0)
    assert loss == pytest.approx(alone.gradients(0), rel=1e-5)
    torch.testing.assert_close(gradients, alone.parameters.gradients, rtol=1e-4, atol=1e-5)


def test_your_own_objective(read: Callable[[str], Read], capsys: pytest.CaptureFixture[str]) -> None:
    page = read("own_objective")
    (run,) = page.runs
    assert run.config.task.objective == "my_losses:Focal" and page.names["report"].max_difference < 1e-5
    assert capsys.readouterr().out.startswith("gcn: workers agree with one process")
    plain = gq.launch("sbm:200,3,6", workers=2, layers=2, hidden=16)
    assert run.losses[0] < 0.7 * plain.losses[0], "the focal loss is (1 - p)^2 times the cross-entropy"


def test_your_own_codec(read: Callable[[str], Read]) -> None:
    page = read("own_codec")
    (run,) = page.runs
    assert run.config.system == page.names["half"]
    exact = gq.launch("sbm:200,3,6", workers=2, layers=2, hidden=16)
    assert run.losses == pytest.approx(exact.losses, rel=1e-3) and run.losses != exact.losses
    codec, rows = page.names["my_codec"].Half(), torch.tensor([[1.0, 2.5, 1e6]])
    layout, place = codec.layout(16, 1, 3), torch.tensor([0])
    with pytest.raises(NonFiniteRow):
        codec.encode(rows, place, place, layout, torch.empty(6, dtype=torch.uint8), Noise(0, 0, 0))


def test_your_own_bits(read: Callable[[str], Read]) -> None:
    page = read("own_bits")
    by_layer, turns = [run.config.system.bits for run in page.runs]
    ids = torch.arange(6)
    asked = [Rows(layer=layer, direction=way, sender=0, receiver=1, ids=ids, seed=0)
             for layer, way in ((0, "forward"), (1, "forward"), (5, "forward"), (1, "backward"))]  # fmt: skip
    assert [by_layer.widths(rows, 0) for rows in asked] == [8, 2, 2, 8]
    assert turns.widths(asked[0], 0).tolist() == [8, 2, 2, 2, 8, 2]
    assert turns.widths(asked[0], 10).tolist() == [2, 8, 2, 2, 2, 8]


def test_observer(read: Callable[[str], Read], capsys: pytest.CaptureFixture[str]) -> None:
    page = read("observer")
    errors = page.names["errors"]
    assert set(errors["rank"]) == {0, 1} and (errors["error"] >= 0).all() and errors["error"].max() > 0
    assert capsys.readouterr().out.startswith("degree\n")
    (run,) = page.runs
    assert run.config.launch.observers == ("my_observers:RowErrors",)


def test_your_own_system(read: Callable[[str], Read]) -> None:
    runs = read("own_system").runs
    assert [run.config.system.name for run in runs] == ["overlapped", "lazy-bits", "vanilla", "lazy-bits"]
    assert [run.config.system.cache for run in (runs[1], runs[3])] == [
        gq.caches.Unchanged(tolerance=t) for t in (0.1, 0.05)
    ]
    with pytest.raises(ValueError, match="needs every boundary row in every epoch"):
        replace(gq.systems.adaqp(), sampler=gq.samplers.BoundarySampling(p=0.5))


def test_several_machines(read: Callable[[str], Read], capsys: pytest.CaptureFixture[str]) -> None:
    page = read("cluster")
    assert [run.config.launch.hosts for run in page.runs] == [2, 2, 2] and page.names["parts"].workers == 4
    for line in blocks(HOW_TO / "cluster.md", language="bash"):
        program, *arguments = line.split()
        assert program == "gnnqlab" and main(arguments) in (0, None)
        said = capsys.readouterr().out
        assert said.count("--nproc-per-node=4") == 3 and "#SBATCH --nodes=2" in said


def test_a_gpu(read: Callable[[str], Read]) -> None:
    one, several = (run.config.launch for run in read("gpu").runs)
    assert (one.device, one.backend) == ("cuda", "gloo") and (several.device, several.backend) == ("cuda", "nccl")


def test_signals_and_restarts(read: Callable[[str], Read]) -> None:
    (run,) = read("interruptions").runs
    assert run.config.launch.retries == 3 and run.config.train.checkpoint_every == 5


def train_here(config: RunConfig, root: Path) -> gq.Run:
    """Train with one worker, in this process."""
    root.mkdir(parents=True, exist_ok=True)
    folder = files.create(root, f"run-{len(list(root.glob('run-*')))}")
    files.write_json(folder / "config.json", config.to_json())
    fit(config, folder, 0, 1, Heartbeat(None))
    files.write_json(folder / "status.json", {"state": "finished", "epoch": config.train.epochs - 1, "errors": []})
    return gq.Run(folder)


def test_study(read: Callable[[str], Read], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def launch(config: RunConfig, *, root: Path) -> gq.Run:
        return train_here(replace(config, workers=1), root)

    monkeypatch.setattr(local, "launch", launch)
    page = read("study")
    assert len(page.names["study"].runs()) == 6 and set(page.names["frame"]["status"]) == {"finished"}
    found = page.names["larger"].frame().groupby("system")["status"].first()
    assert found.to_dict() == {"vanilla": "finished", "adaqp, λ = 0.9": "not trained", "2 bits": "not trained"}
    assert all((tmp_path / name).exists() for name in ("first-study.csv", "first-study.html"))


def test_paper(
    read: Callable[[str], Read], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[tuple[str, float]] = []

    def draw(figure: Any, kind: str, width: int, height: int, scale: float) -> bytes:
        drawn.append((kind, width * scale * 2.54 / 96))  # centimetres
        return b"<svg/>" if kind == "svg" else b"%PDF"

    monkeypatch.setattr(local, "launch", lambda config, *, root, **more: train_here(replace(config, workers=1), root))
    monkeypatch.setattr(static_image, "_missing_for_pictures", lambda: "")
    monkeypatch.setattr(static_image, "_draw", draw)
    page = read("paper")
    assert drawn == [("pdf", pytest.approx(8.5)), ("svg", pytest.approx(17.8)), ("pdf", pytest.approx(8.5))]
    assert page.names["comparison"].table()["seeds"].tolist() == [3, 3]
    table = (tmp_path / "table.tex").read_text()
    assert table.splitlines()[2] == r"system & test accuracy & accuracy $-$ Vanilla & speed-up & less sent \\"
    assert table.count(r"$\pm$") >= 4
    files = ("accuracy.pdf", "time.svg", "time-to-accuracy.pdf", "paper.csv", "paper.html")
    assert all((tmp_path / name).exists() for name in files)


def test_trackers(read: Callable[..., Read], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exported: list[str] = []

    def export(run: gq.Run) -> Path:
        return run.folder

    def recorded(name: str) -> Callable[[gq.Run], Path]:
        exported.append(name.removeprefix("run.export."))
        return export

    monkeypatch.setattr(exported_run, "attached", recorded)
    monkeypatch.setattr(pd, "read_parquet", lambda folder: gq.Run(folder).records)

    def launch(graph: Any, *, wait: bool, **settings: Any) -> gq.Run:
        return train_here(gq.configure(graph, **{**settings, "system": "vanilla", "workers": 1}), tmp_path)

    page = read("trackers", launch)
    assert exported == list(exported_run.TOOLS)
    assert len(page.names["records"]) == 4


def test_links(read: Callable[..., Read], tmp_path: Path) -> None:
    def launch(graph: Any, **settings: Any) -> gq.Run:
        return train_here(gq.configure(graph, **{**settings, "workers": 1}), tmp_path)

    page = read("links", launch)
    run = page.names["run"]
    assert run.summary["test_auc"] > 0.9 and run.summary["test_mrr"] > 0.3
    assert page.names["rows"].shape == (1797, 16) and page.names["scores"].shape == (5,)
    assert page.names["quantized"].summary["test_auc"] == pytest.approx(run.summary["test_auc"])
