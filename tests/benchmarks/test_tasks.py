"""The measurement of tasks: its plain GCN, and rows that compare both over seeds."""

from __future__ import annotations

import pytest
import torch

import gnnqlab as gq
from benchmarks.studies import tasks
from tests.graphs import random_graph


def test_the_plain_adjacency_is_that_of_kipf_and_welling() -> None:
    graph = random_graph(nodes=12, edges=20, seed=3)
    dense = torch.zeros(12, 12)
    for target in range(12):
        dense[target, graph.indices[graph.indptr[target] : graph.indptr[target + 1]].long()] = 1
    for kept in (None, graph.train_mask):
        part = dense if kept is None else dense * kept[:, None] * kept[None, :]
        scale = part.sum(1).clamp(min=1).rsqrt()
        expected = scale[:, None] * part * scale[None, :]
        assert torch.allclose(tasks._adjacency(graph, kept).to_dense(), expected)


def test_the_models_compute_the_same_outputs() -> None:
    """The plain model and the package's GCN, with the same weights and without dropout."""
    graph = random_graph(nodes=30, edges=60, seed=4)
    run = gq.launch(graph, workers=1, wait=True, layers=2, hidden=tasks.HIDDEN, norm="none", epochs=2)
    ours, plain = run.model(), tasks._PlainGCN(graph.num_features, graph.num_classes).eval()
    state = list(ours.state_dict().values())
    matrices, vectors = [value for value in state if value.dim() == 2], [value for value in state if value.dim() == 1]
    with torch.no_grad():
        for layer, matrix, vector in zip((plain.first, plain.second), matrices, vectors, strict=True):
            layer.weight.copy_(matrix.T if matrix.shape != layer.weight.shape else matrix)
            layer.bias.copy_(vector)
        outputs = plain(tasks._adjacency(graph), graph.features)
    assert torch.allclose(outputs.log_softmax(1), run.predict().log_softmax(1), atol=1e-5)


@pytest.mark.slow
def test_rows_compare_every_task_over_seeds() -> None:
    found = tasks.tasks(seeds=2, epochs=10, graph="digits", parts=["classes", "own objective", "inductive"])
    assert [row["case"].split(",")[0] for row in found] == ["classes", "own objective", "inductive"]
    for row in found:
        assert row["metric"] == "accuracy" and row["rival"] == "plain PyTorch"
        assert 0.3 < row["value"] <= 1 and 0.3 < row["rival_value"] <= 1


def test_unknown_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"parts must be among .*, got \['classses'\]"):
        tasks.tasks(parts=["classses"])
