"""Predictions and embeddings of a run come back by the ids and class names of the graph."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import gnnqlab as gq
from gnnqlab import cli
from gnnqlab.run.node_tables import write_table
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from tests.graphs import random_graph
from tests.run.folders import run_folder

NAMES = ("blue", "green", "red")


def trained(root: Path, graph: gq.Graph, **settings: object) -> gq.Run:
    """Train a run in this process."""
    config = gq.configure(graph, workers=1, layers=2, hidden=8, epochs=2, partition="random", **settings)
    run = run_folder(root, "run", config)
    fit(run.config, run.folder, 0, 1, Heartbeat(None))
    return run


def named_graph(seed: int = 3) -> gq.Graph:
    """Return a graph with word ids and class names, 40 nodes in an order that is not alphabetical."""
    graph = random_graph(seed=seed, nodes=40, classes=3)
    order = np.random.default_rng(seed).permutation(40)
    return graph._replace(ids=np.array([f"user-{k}" for k in order]), class_names=NAMES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gq.Run]:
    yield trained(tmp_path_factory.mktemp("named"), named_graph())


def test_classes_and_probabilities_belong_to_their_ids(run: gq.Run) -> None:
    graph, shares = named_graph(), run.predict().softmax(1)
    table = run.predictions(probabilities=True).set_index("id")
    assert list(table) == ["class", "probability", "label", "split", *(f"probability_{name}" for name in NAMES)]
    for node in range(40):
        row = table.loc[graph.id_of(node)]
        assert row["class"] == NAMES[int(shares[node].argmax())]
        assert row["probability"] == pytest.approx(float(shares[node].max()))
        assert row["probability_green"] == pytest.approx(float(shares[node, 1]))
        label = int(graph.labels[node])
        assert row["label"] == NAMES[label] if label >= 0 else pd.isna(row["label"])
    for split, mask in (("train", graph.train_mask), ("val", graph.val_mask), ("test", graph.test_mask)):
        assert set(table.index[table["split"] == split]) == {
            graph.id_of(node) for node in mask.nonzero().flatten().tolist()
        }


def test_another_graph_gets_the_class_names_of_the_training_graph(run: gq.Run) -> None:
    other = named_graph(seed=4)
    renamed = other._replace(class_names=("x", "y", "z"), ids=np.arange(40) + 100)
    table = run.predictions(renamed)
    assert set(table["class"]) <= set(NAMES)
    assert set(table["label"].dropna()) <= {"x", "y", "z"}
    assert table["id"].tolist() == list(range(100, 140))
    assert "split" not in table  # that of another graph says nothing about this training


def test_embeddings_have_the_ids_as_index(run: gq.Run) -> None:
    table = run.embeddings(frame=True)
    assert torch.equal(torch.tensor(table.to_numpy()), run.embeddings())
    assert table.index.name == "id"
    assert table.index[0] == named_graph().id_of(0)


def test_several_labels_are_joined_by_name(tmp_path: Path) -> None:
    graph = random_graph(seed=5, nodes=30, classes=3, multi_label=True)._replace(class_names=NAMES)
    run = trained(tmp_path, graph)
    table, logits = run.predictions(), run.predict()
    for node in range(30):
        chosen = [name for name, logit in zip(NAMES, logits[node].tolist(), strict=True) if logit > 0]
        assert table["classes"][node] == "; ".join(chosen)
        assert table["probability_red"][node] == pytest.approx(float(logits[node, 2].sigmoid()))
    assert table["id"].tolist() == list(range(30))


def test_command_writes_the_table_and_reads_another_graph(
    run: gq.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["predict", str(run.folder), "--out", str(tmp_path / "a" / "p.csv.gz"), "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result == {"path": str(tmp_path / "a" / "p.csv.gz"), "nodes": 40, "columns": list(run.predictions())}
    assert pd.read_csv(tmp_path / "a" / "p.csv.gz")["id"].tolist() == run.predictions()["id"].tolist()
    other = named_graph(seed=4).save(tmp_path / "other")
    cli.main(["predict", run.id, "--runs", str(run.folder.parent), "--graph", str(other), "--probabilities"])
    assert f"40 nodes: {run.folder / 'predictions.csv'}" in capsys.readouterr().out
    assert "probability_red" in pd.read_csv(run.folder / "predictions.csv")


def test_wrong_ending_or_run_is_refused_before_predicting(run: gq.Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=re.escape("written as .csv, .csv.gz or .parquet, got p.xlsx")):
        write_table(pd.DataFrame(), Path("p.xlsx"))
    with pytest.raises(SystemExit) as error:
        cli.main(["predict", f"{run.id}x", "--runs", str(run.folder.parent)])
    assert error.value.code == 2
    assert f"a run must exist, got '{run.id}x'; did you mean {run.id}" in capsys.readouterr().err
