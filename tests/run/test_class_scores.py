"""Confusion matrix and ROC AUC of a run equal those of scikit-learn, with class names, and agree with its summary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.run.class_scores import confusion_table, macro_auc
from tests.cases import each
from tests.graphs import random_graph
from tests.run.test_node_tables import NAMES, named_graph, trained


@each("classes", [2, 5])
def test_values_equal_scikit_learn(classes: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(classes)
    logits = torch.randn(200, classes, generator=generator).mul(4).round()  # with ties
    labels = torch.randint(classes, (200,), generator=generator)
    predicted = logits.argmax(1)
    table = confusion_table(logits, labels)
    assert table.values.tolist() == metrics.confusion_matrix(labels, predicted).tolist()
    shares = logits.double().softmax(1)
    scores = shares[:, 1] if classes == 2 else shares
    expected = metrics.roc_auc_score(labels, scores, average="macro", multi_class="ovr")
    assert macro_auc(logits, labels) == pytest.approx(expected, abs=1e-12)
    several = (torch.rand(200, classes, generator=generator) < 0.3).to(torch.uint8)
    expected = metrics.roc_auc_score(several, logits, average="macro")
    assert macro_auc(logits, several) == pytest.approx(expected, abs=1e-12)


def test_absent_classes_are_left_out_of_the_mean() -> None:
    logits = torch.tensor([[2.0, 0.0, 9.0], [0.0, 2.0, 9.0]])
    assert macro_auc(logits, torch.tensor([0, 1])) == 1.0  # no node has class 2
    assert torch.tensor(macro_auc(logits, torch.tensor([0, 0]))).isnan()  # one class only
    assert confusion_table(logits, torch.tensor([0, 1])).values.tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]


def test_run_counts_the_nodes_of_a_split_by_class_name(tmp_path: Path) -> None:
    graph = named_graph()
    run = trained(tmp_path, graph)
    for mask, nodes in (("test", graph.test_mask), ("val", graph.val_mask)):
        table = run.confusion(mask)
        assert (tuple(table.index), tuple(table.columns)) == (NAMES, NAMES)
        assert table.sum(axis=1).tolist() == torch.bincount(graph.labels[nodes], minlength=3).tolist()
    table = run.confusion()
    accuracy = sum(table.loc[name, name] for name in NAMES) / int(graph.test_mask.sum())
    assert accuracy == pytest.approx(run.summary["test_accuracy"], abs=1e-6)
    assert run.confusion(epoch="last").values.sum() == int(graph.test_mask.sum())
    predictions = run.predictions(probabilities=True)
    predictions = predictions[predictions["split"] == "test"]
    metrics = pytest.importorskip("sklearn.metrics")
    shares = predictions[[f"probability_{name}" for name in NAMES]]
    expected = metrics.roc_auc_score(predictions["label"], shares, average="macro", multi_class="ovr")
    assert run.roc_auc() == pytest.approx(expected, abs=1e-6)


def test_runs_without_one_class_per_node_are_refused(tmp_path: Path) -> None:
    run = trained(tmp_path / "one", random_graph(nodes=40))
    with pytest.raises(ValueError, match="mask must be 'train', 'val' or 'test', got 'tests'"):
        run.confusion("tests")  # type: ignore[arg-type]
    several = trained(tmp_path / "several", random_graph(nodes=40, multi_label=True))
    assert 0 <= several.roc_auc() <= 1
    with pytest.raises(ValueError, match="needs one class per node, got run .* with several labels per node"):
        several.confusion()
    numbers = trained(tmp_path / "numbers", _numbers())
    with pytest.raises(ValueError, match="needs classes of nodes, got run .* with numbers to predict"):
        numbers.roc_auc()


def _numbers() -> gq.Graph:
    graph = random_graph(nodes=40)
    return graph._replace(labels=graph.features[:, :1].clone(), num_classes=1)
