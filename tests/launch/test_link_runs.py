"""Runs that predict links: their systems, bytes, records, displays, and predictions for pairs of nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph.link_split import TEST, TRAIN
from gnnqlab.lab.training.live_model import LiveModel
from gnnqlab.lab.training.live_views import draw_live
from gnnqlab.lab.training.report import write_report
from gnnqlab.nn.links import area_under_curve
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.link_prediction.negatives import FIXED, against, draw_pool
from gnnqlab.train.loop.fit import fit
from tests.graphs import random_graph
from tests.ranks import run_ranks
from tests.run.folders import run_folder

EPOCHS, WORKERS, HIDDEN, POOL = 3, 2, 8, 12
SYSTEMS = {
    "vanilla": {},
    "fixed-bits": {"bits": 2},
    "adaqp": {"period": 1},
    "sylvie": {"delta": 1},
    "pipegcn": {},
    "bns-gcn": {"p": 0.5},
    "sar": {},
}


def made(root: Path, name: str, graph: gq.Graph, **settings: object) -> gq.Run:
    """Make the folder of a run that has not been trained."""
    shape = {"layers": 2, "hidden": HIDDEN, "epochs": EPOCHS, "lr": 0.05, "seed": 3, "workers": WORKERS}
    task = {"task": "links", "val_share": 0.15, "test_share": 0.2, "negative_pool": POOL, "num_candidates": 10}
    config = gq.configure(graph, partition="random", **{**shape, **task, **settings})
    return run_folder(root, name, config)


def train_all(rank: int, workers: int, root: str, names: list[str]) -> None:
    for name in names:
        run = gq.Run(Path(root) / name)
        fit(run.config, run.folder, rank, workers, Heartbeat(None))


@pytest.fixture(scope="module")
def graph() -> gq.Graph:
    """Remove labels and split: link prediction needs neither."""
    whole = random_graph(nodes=80, edges=150, seed=6)
    blank = torch.zeros(80, dtype=torch.bool)
    return replace(
        whole, labels=torch.full((80,), -1), num_classes=0, train_mask=blank, val_mask=blank, test_mask=blank
    )


@pytest.fixture(scope="module")
def runs(graph: gq.Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, gq.Run]:
    root = tmp_path_factory.mktemp("runs")
    found = {name: made(root, name, graph, system=name, **settings) for name, settings in SYSTEMS.items()}
    found["mlp"] = made(root, "mlp", graph, decoder="mlp", embedding=5, num_negatives=2)
    found["coded"] = made(root, "coded", graph, system="fixed-bits", bits=8, link_bits=2)
    run_ranks(train_all, WORKERS, str(root), list(found))
    return found


def objective_rows(run: gq.Run, epoch: int) -> tuple[int, int]:
    """Count the rows sent for the loss, in each direction: in every epoch, and in all; worked out pair by pair."""
    split = run.link_split()
    owner = run.config.system_on_hosts.partition.cut(split.graph, WORKERS).owner
    pool = draw_pool(split.graph.num_nodes, POOL, seed=3, epoch=epoch)
    drawn = {(peer, int(node)) for node in pool for peer in range(WORKERS) if owner[node] != peer}
    learnt = split.kinds == TRAIN
    ends = {
        (int(owner[u]), v)
        for u, v in zip(split.sources[learnt].tolist(), split.targets[learnt].tolist(), strict=True)
        if owner[u] != owner[v]
    }
    return len(ends), len(ends | drawn)


def test_the_bytes_of_the_loss_are_counted_and_exact_in_every_system(runs: dict[str, gq.Run]) -> None:
    # one split, partition and seed for all
    rows_of = [objective_rows(runs["vanilla"], epoch) for epoch in range(EPOCHS)]
    for name, run in runs.items():
        columns = 5 if name == "mlp" else HIDDEN
        traffic = run.traffic
        last = traffic[traffic["layer"] == traffic["layer"].max()]
        if name == "coded":
            continue
        for epoch, (_, rows) in enumerate(rows_of):
            for _, part in last[last["epoch"] == epoch].groupby("direction"):
                assert set(part["bits"]) == {32} and int(part["rows"].sum()) == rows, name
                assert int(part["payload_bytes"].sum()) == 4 * columns * rows
            assert set(last["direction"]) == {"forward", "backward"}
        records = run.records
        sent = records["bytes_payload"].sum(), records["bytes_params"].sum()
        if run.config.system.schedule.lag == 0:  # otherwise no worker waits for the rows of the last epoch
            assert sent == (traffic["payload_bytes"].sum(), traffic["param_bytes"].sum()), name


def test_quantized_link_rows_send_the_bytes_of_the_formula(runs: dict[str, gq.Run]) -> None:
    traffic = runs["coded"].traffic
    last = traffic[traffic["layer"] == traffic["layer"].max()]
    for epoch in range(EPOCHS):
        ends, rows = objective_rows(runs["coded"], epoch)
        assert 0 < ends < rows
        for _, part in last[last["epoch"] == epoch].groupby("direction"):
            sums = part.groupby("bits")[["rows", "payload_bytes", "param_bytes"]].sum()
            assert sums.loc[2].tolist() == [ends, ends * 2 * HIDDEN // 8, ends * 8]  # a scale and a zero-point per row
            assert sums.loc[32].tolist() == [rows - ends, (rows - ends) * 4 * HIDDEN, 0]
    records = runs["coded"].records
    assert records["bytes_payload"].sum() == traffic["payload_bytes"].sum()


def test_loss_falls_and_scores_are_valid_in_every_system(runs: dict[str, gq.Run]) -> None:
    for name, run in runs.items():
        losses = run.records.groupby("epoch")["loss"].first()
        assert losses.iloc[-1] < losses.iloc[0], name
        for column in ("train_score", "val_score", "test_score", "val_mrr", "test_mrr"):
            assert run.records[column].dropna().between(0, 1).all() and run.records[column].notna().any(), (
                name,
                column,
            )
    bits = set(runs["fixed-bits"].traffic["bits"])
    assert bits == {2, 32}


def test_link_scores_of_a_run_reproduce_its_recorded_test_score(runs: dict[str, gq.Run], graph: gq.Graph) -> None:
    for name in ("vanilla", "mlp"):
        run = runs[name]
        split = run.link_split()
        assert run.predict().shape == (80, 5 if name == "mlp" else HIDDEN)
        chosen = split.kinds == TEST
        u, v = split.sources[chosen], split.targets[chosen]
        pool = draw_pool(80, 10, seed=3, epoch=0, use=FIXED)
        numbers = chosen.nonzero().flatten()
        w = pool[against(pool, u, v, numbers, count=1, seed=3, epoch=0, use=FIXED).flatten()]
        area = area_under_curve(run.link_scores(u, v), run.link_scores(u, w))
        assert area == pytest.approx(run.summary["test_auc"], abs=1e-6)
        # With the held-out edges in the graph, embeddings differ.
        assert not torch.equal(run.predict(graph), run.predict())
    nodes = gq.Run(runs["vanilla"].folder)
    assert set(dict(runs["mlp"].model().named_parameters())) >= {"link_decoder.layers.0.weight"}
    assert nodes.summary["test_auc"] == pytest.approx(
        nodes.records.loc[nodes.records["val_score"].idxmax(), "test_score"]
    )


def test_scores_are_shown_by_their_names(runs: dict[str, gq.Run], tmp_path: Path) -> None:
    run = runs["vanilla"]
    assert {"test_auc", "test_mrr"} <= set(run.summary) and "test_accuracy" not in run.summary
    table = gq.compare([run, runs["fixed-bits"]])
    assert {"AUC", "MRR"} <= set(table.to_frame().columns) and "test MRR" in repr(table)
    page = write_report([run], tmp_path / "report.html").read_text()
    assert "Test AUC" in page and "Test MRR" in page
    model = LiveModel(run)
    model.poll()
    figure = draw_live(model)
    assert "AUC and MRR" in [note.text for note in figure.layout.annotations]
    assert {"validation MRR", "test MRR"} <= {trace.name for trace in figure.data}


def test_a_run_that_classifies_nodes_has_no_links(tmp_path: Path) -> None:
    run = made(
        tmp_path,
        "nodes",
        random_graph(),
        task="nodes",
        val_share=0.05,
        test_share=0.1,
        negative_pool=1024,
        num_candidates=100,
    )
    with pytest.raises(
        ValueError, match="a link split needs task 'links', got run nodes of task 'nodes'; launch one with"
    ):
        run.link_split()
