"""Tasks of nodes compared with the same GCN in plain PyTorch: scores of both, over the same seeds.

Each task trains with two workers and exact messages (Vanilla), and once more in one process with ``torch.sparse``,
``torch.optim.Adam`` and an objective of PyTorch. Weights and dropout are drawn independently, so scores are compared
over seeds: the mean difference must lie within its 95 % interval, or below ``TOLERANCE``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import require_among, row
from gnnqlab.graph.features import SparseRows
from gnnqlab.theory.intervals import interval
from gnnqlab.train.objectives import OneLabel

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["TASKS", "FocalLoss", "tasks"]

EPOCHS, EVERY, HIDDEN, RATE, DROPOUT = 100, 5, 64, 0.01, 0.5
TOLERANCE = 0.01
"""Difference of scores that counts as none, below the spread of most tasks over seeds."""
Loss = Callable[[Tensor, Tensor], Tensor]
Score = Callable[[Tensor, Tensor], float]


def _focal(logits: Tensor, labels: Tensor) -> Tensor:
    """Return ``(1 - p)^2 · cross-entropy`` of each row (Lin et al., ICCV 2017, eq. 4, γ = 2), ``(n,)``."""
    log_p = logits.log_softmax(1)[torch.arange(len(labels)), labels]
    return -((1 - log_p.exp()) ** 2) * log_p


class FocalLoss(OneLabel):
    """A user's own objective, for ``objective="benchmarks.studies.tasks:FocalLoss"``."""

    def summed_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the focal losses of the rows, ``(n, C)``, ``(n,)`` -> ``()``."""
        return _focal(logits, labels).sum()


def _accuracy(outputs: Tensor, labels: Tensor) -> float:
    return float((outputs.argmax(1) == labels).double().mean())


def _balanced_accuracy(outputs: Tensor, labels: Tensor) -> float:
    hits = (outputs.argmax(1) == labels).double()
    return float(torch.stack([hits[labels == label].mean() for label in labels.unique()]).mean())


def _r2(outputs: Tensor, targets: Tensor) -> float:
    residual = ((outputs - targets) ** 2).sum()
    return float(1 - residual / ((targets - targets.mean(0)) ** 2).sum())


@dataclass(frozen=True)
class Task:
    """A task: its default graph, settings of a launch, and the same in PyTorch."""

    graph: str
    settings: dict[str, Any]
    loss: Callable[[Graph], Loss]
    score: Score
    score_name: str
    summary_name: str = "test_accuracy"
    prepared: Callable[[Graph], Graph] = lambda graph: graph
    inductive: bool = False


def _balanced_loss(graph: Graph) -> Loss:
    counts = torch.bincount(graph.labels[graph.train_mask], minlength=graph.num_classes)
    return nn.CrossEntropyLoss(weight=counts.sum() / (graph.num_classes * counts))


def _with_degrees_as_targets(graph: Graph) -> Graph:
    """Return the graph with ``log(1 + degree)``, standardized, as targets of a regression.

    Rows of features get norm 1: with longer ones the first steps switch all ReLUs off, for some seeds.
    """
    import gnnqlab as gq

    features = graph.features.to_dense() if isinstance(graph.features, SparseRows) else graph.features
    degrees = torch.log1p(graph.indptr.diff().float())
    target, source = _edges(graph)
    return gq.Graph.from_edges(
        source,
        target,
        num_nodes=graph.num_nodes,
        features=nn.functional.normalize(features),
        targets=(degrees - degrees.mean()) / degrees.std(),
        train_idx=graph.train_idx,
        val_idx=graph.val_idx,
        test_idx=graph.test_idx,
        name=f"{graph.name}-degrees",
    )


def _edges(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the target and the source of each edge, ``(E,)`` each; self loops included."""
    return torch.arange(graph.num_nodes).repeat_interleave(graph.indptr.diff()), graph.indices.long()


TASKS = {
    "classes": Task("cora", {}, lambda graph: nn.CrossEntropyLoss(), _accuracy, "accuracy"),
    "balanced classes": Task(
        "amazon_computers",
        {"class_weights": "balanced"},
        _balanced_loss,
        _balanced_accuracy,
        "balanced accuracy",
        summary_name="test_balanced_accuracy",
    ),
    "regression": Task(
        "amazon_computers",
        {},
        lambda graph: nn.MSELoss(),
        _r2,
        "R²",
        summary_name="test_r2",
        prepared=_with_degrees_as_targets,
    ),
    "own objective": Task(
        "cora",
        {"objective": "benchmarks.studies.tasks:FocalLoss"},
        lambda graph: lambda logits, labels: _focal(logits, labels).mean(),
        _accuracy,
        "accuracy",
    ),
    "inductive": Task(
        "amazon_computers",
        {"protocol": "inductive"},
        lambda graph: nn.CrossEntropyLoss(),
        _accuracy,
        "accuracy",
        inductive=True,
    ),
}


class _PlainGCN(nn.Module):
    """Two layers ``A x W + b`` with ReLU and dropout (Kipf and Welling, ICLR 2017), on a sparse matrix of PyTorch."""

    def __init__(self, num_features: int, num_outputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(num_features, HIDDEN), nn.Linear(HIDDEN, num_outputs)
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, adjacency: Tensor, features: Tensor) -> Tensor:
        """Return outputs ``(N, C)`` for features ``(N, F)``."""
        hidden = torch.sparse.mm(adjacency, features @ self.first.weight.T) + self.first.bias
        hidden = nn.functional.dropout(hidden.relu(), DROPOUT, self.training)
        return torch.sparse.mm(adjacency, hidden @ self.second.weight.T) + self.second.bias


def _adjacency(graph: Graph, kept: Tensor | None = None) -> Tensor:
    """Return ``D^-1/2 A D^-1/2`` as a sparse matrix, of the subgraph of the ``kept`` nodes if given, ``(N, N)``."""
    pairs = torch.stack(_edges(graph))
    if kept is not None:
        pairs = pairs[:, kept[pairs].all(0)]
    degrees = torch.bincount(pairs[0], minlength=graph.num_nodes).float()
    values = (degrees[pairs[0]] * degrees[pairs[1]]).rsqrt()
    shape = (graph.num_nodes, graph.num_nodes)
    return torch.sparse_coo_tensor(pairs, values, shape, check_invariants=False).coalesce()


def _plain_score(task: Task, graph: Graph, seed: int, epochs: int) -> float:
    """Train in plain PyTorch; return the test score of the epoch with the best validation score."""
    torch.manual_seed(seed)
    labels, features = graph.labels, graph.features
    if isinstance(features, SparseRows):
        features = features.to_dense()
    num_outputs, select = (labels.shape[1], _r2) if labels.is_floating_point() else (graph.num_classes, _accuracy)
    model, loss = _PlainGCN(graph.num_features, num_outputs), task.loss(graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    whole = _adjacency(graph)
    trained = _adjacency(graph, graph.train_mask) if task.inductive else whole
    best = float("-inf"), 0.0
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss(model(trained, features)[graph.train_mask], labels[graph.train_mask]).backward()
        optimizer.step()
        if (epoch + 1) % EVERY == 0 or epoch == epochs - 1:
            model.eval()
            with torch.no_grad():
                outputs = model(whole, features)
            selected = select(outputs[graph.val_mask], labels[graph.val_mask])
            if selected > best[0]:  # the first of equal ones
                best = selected, task.score(outputs[graph.test_mask], labels[graph.test_mask])
    return best[1]


def tasks(
    *,
    seeds: int = 5,
    epochs: int = EPOCHS,
    workers: Sequence[int] = (2,),
    graph: str | None = None,
    parts: Sequence[str] = tuple(TASKS),
) -> list[dict[str, Any]]:
    """Train every task over seeds, with workers and in plain PyTorch; compare the test scores.

    Args:
        seeds: number of trainings of each, at least 2 for an interval.
        epochs: of each training.
        workers: numbers of workers.
        graph: of all tasks, in place of their default ones.
        parts: names of tasks.

    Raises:
        ValueError: if a task is unknown, or there are fewer than two seeds.
    """
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2, for an interval, got {seeds}")
    require_among("parts", parts, TASKS)
    return [line for name in parts for line in _rows(name, TASKS[name], seeds, epochs, workers, graph)]


def _rows(
    name: str, task: Task, seeds: int, epochs: int, workers: Sequence[int], named: str | None
) -> Iterator[dict[str, Any]]:
    import gnnqlab as gq

    graph = task.prepared(gq.load(graph_or_digits(named, task.graph)))
    plain_scores = [_plain_score(task, graph, seed, epochs) for seed in range(seeds)]
    settings: dict[str, Any] = {
        "layers": 2,
        "hidden": HIDDEN,
        "dropout": DROPOUT,
        "norm": "none",
        "lr": RATE,
        "epochs": epochs,
    }
    settings |= {"evaluate_every": EVERY, **task.settings}
    for count in workers:
        scores = []
        for seed in range(seeds):
            run = gq.launch(graph, system="vanilla", workers=count, seed=seed, wait=True, **settings)
            scores.append(float(run.summary[task.summary_name]))
        difference, half = interval([ours - plain for ours, plain in zip(scores, plain_scores, strict=True)])
        # 1 if the mean difference lies within its interval around zero.
        within = abs(difference) <= max(half, TOLERANCE)
        yield row(
            f"{name}, {graph.name}, {count} workers, {epochs} epochs, {seeds} seeds",
            task.score_name,
            sum(scores) / seeds,
            "",
            "plain PyTorch",
            sum(plain_scores) / seeds,
            float(within),
            1.0,
            detail=f" (difference {difference:+.4f} ± {half:.4f})",
        )
