"""Link prediction is exact: P workers have the losses, gradients and scores of one process and of float64 PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from gnnqlab.graph.link_split import TEST, TRAIN, VAL, LinkSplit, split_links
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.links import area_under_curve
from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.link_share import share_links
from gnnqlab.systems import make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.link_prediction.negatives import FIXED, against, draw_pool
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.objective import Scores
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 3
SEED = 5
TRANSPORTS = {"graphsage, mlp": "ring", "gat, more pool than nodes": "all-to-all"}
TASK = TaskSettings(
    task="links", val_share=0.15, test_share=0.2, num_negatives=3, negative_pool=20, num_candidates=15, embedding=7
)
CASES = {
    "gcn, dot": ({"seed": 2}, ModelSettings(name="gcn", layers=2, hidden=16, dropout=0.3), TASK),
    "graphsage, mlp": (
        {"seed": 3, "directed": True},
        ModelSettings(name="graphsage", layers=3, hidden=8, dropout=0.2, input_dropout=0.1),
        replace(TASK, decoder="mlp"),
    ),
    "gat, more pool than nodes": (
        {"seed": 4, "self_loops": "remove"},
        ModelSettings(name="gat", layers=2, hidden=8, heads=2),
        replace(TASK, negative_pool=1000, num_candidates=1000, embedding=None),
    ),
}


def split_of(shape: dict[str, Any], task: TaskSettings) -> LinkSplit:
    return split_links(random_graph(**shape), val=task.val_share, test=task.test_share, seed=SEED)


def trainer_of(name: str, rank: int, workers: int) -> Trainer:
    shape, model, task = CASES[name]
    split = split_of(shape, task)
    owner = Random(seed=1).assign(split.graph, workers)
    shard = build_shard(split.graph, owner, rank, workers)
    links = share_links(split, owner, workers)[rank]
    settings = TrainSettings(seed=SEED, lr=0.02, transport=TRANSPORTS.get(name, "direct"))
    return worker_trainer(shard, make_system("vanilla"), model, settings, task=task, links=links)


def came_out(trainer: Trainer) -> dict[str, Any]:
    losses, gradients = [], []
    for epoch in range(EPOCHS):
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
    scores = trainer.evaluate(EPOCHS)
    trainer.close()
    return {"losses": losses, "gradients": gradients, "scores": scores}


def on_rank(rank: int, workers: int) -> dict[str, dict[str, Any]]:
    return {name: came_out(trainer_of(name, rank, workers)) for name in CASES}


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, Any]]:
    return on_rank(0, 1)


@each("workers", [2, 3, 4])
def test_workers_equal_one_process(workers, alone):
    for found in run_ranks(on_rank, workers):
        for name, truth in alone.items():
            torch.testing.assert_close(found[name]["losses"], truth["losses"], rtol=1e-5, atol=0)
            for ours, right in zip(found[name]["gradients"], truth["gradients"], strict=True):
                # Sums in another order differ by a few float32 rounding errors: about 1e-6 of the largest.
                torch.testing.assert_close(ours, right, rtol=0, atol=1e-5 * float(right.abs().max()))
            assert_same_scores(found[name]["scores"], truth["scores"], split_of(CASES[name][0], CASES[name][2]))


def assert_same_scores(found: Scores, truth: Scores, split: LinkSplit) -> None:
    """Compare scores, which depend on an order: two values that are equal or a rounding error apart may swap places."""
    counts = {"train": int(split.scored.sum()), "val": split.count(VAL), "test": split.count(TEST)}
    for name, count in counts.items():
        # Two swapped pairs among the count ** 2 that are compared, or a reciprocal rank at the top that is off by one
        # half.
        assert abs(getattr(found, name) - getattr(truth, name)) <= 2 / count**2
        mrr = f"{name}_mrr"
        assert (
            mrr not in truth.further_scores or abs(found.further_scores[mrr] - truth.further_scores[mrr]) <= 0.5 / count
        )


def written_out(split: LinkSplit, rows: torch.Tensor, score: Any, task: TaskSettings, epoch: int) -> torch.Tensor:
    """Compute the loss in a loop over the links."""
    nodes, total, terms = split.graph.num_nodes, rows.new_zeros(()), 0
    pool = draw_pool(nodes, min(task.negative_pool, nodes), seed=SEED, epoch=epoch)
    for number in (split.kinds == TRAIN).nonzero().flatten():
        u, v = split.sources[number], split.targets[number]
        drawn = pool[against(pool, u[None], v[None], number[None], count=task.num_negatives, seed=SEED, epoch=epoch)[0]]
        assert u not in drawn and v not in drawn
        total = total - functional.logsigmoid(score(rows[u], rows[v]))
        total = total - sum(functional.logsigmoid(-score(rows[u], rows[w])) for w in drawn)
        terms += 1 + task.num_negatives
    return total / terms


def gcn_in_float64(split: LinkSplit, weights: list[torch.Tensor]) -> torch.Tensor:
    """Apply two graph convolutions with dense matrices and without dropout."""
    graph = split.graph
    dense = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    dense[rows, graph.indices.long()] = 1
    out, into = dense.sum(0).clamp(min=1), dense.sum(1).clamp(min=1)
    dense = dense / (into[:, None] * out[None, :]).sqrt()
    first, first_bias, second, second_bias = weights
    hidden = (dense @ graph.features.double() @ first + first_bias).relu()
    return dense @ hidden @ second + second_bias


@each("decoder", ["dot", "mlp"])
def test_one_process_is_plain_pytorch_in_float64(decoder, monkeypatch):
    task = replace(TASK, decoder=decoder)
    shape, model = {"seed": 2}, ModelSettings(name="gcn", layers=2, hidden=16, norm="none", dropout=0.0)
    monkeypatch.setitem(CASES, "plain", (shape, model, task))
    trainer, split = trainer_of("plain", 0, 1), split_of(shape, task)
    loss = trainer.gradients(4)
    named = {name: value.detach().double().requires_grad_() for name, value in trainer.model.named_parameters()}
    layers = [named[name] for name in named if not name.startswith("link_decoder")]
    rows = gcn_in_float64(split, layers)

    def score(h: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        if decoder == "dot":
            return h @ other
        first, bias, second, last = (named[f"link_decoder.layers.{part}"] for part in PARTS)
        return (second @ (first @ (h * other) + bias).relu() + last).squeeze()

    truth = written_out(split, rows, score, task, 4)
    truth.backward()
    assert loss == pytest.approx(float(truth.detach()), rel=1e-6)
    right = torch.cat([value.grad.flatten() for value in named.values()])
    gradient = trainer.parameters.gradients.double()
    torch.testing.assert_close(gradient, right, rtol=0, atol=2e-6 * float(right.abs().max()))

    found = trainer.evaluate(5)
    with torch.no_grad():
        further = found.further_scores
        assert (found.val, further["val_mrr"]) == pytest.approx(scored(split, rows, score, task, VAL), rel=1e-6)
        assert (found.test, further["test_mrr"]) == pytest.approx(scored(split, rows, score, task, TEST), rel=1e-6)


PARTS = ("0.weight", "0.bias", "2.weight", "2.bias")


def scored(split: LinkSplit, rows: torch.Tensor, score: Any, task: TaskSettings, kind: int) -> tuple[float, float]:
    """Compute AUC and MRR in a loop over the links."""
    pool = draw_pool(split.graph.num_nodes, task.num_candidates, seed=SEED, epoch=0, use=FIXED)
    positives, negatives, reciprocal = [], [], []
    for number in (split.kinds == kind).nonzero().flatten():
        u, v = split.sources[number], split.targets[number]
        place = against(pool, u[None], v[None], number[None], count=1, seed=SEED, epoch=0, use=FIXED)
        mine = score(rows[u], rows[v])
        positives.append(mine)
        negatives.append(score(rows[u], rows[pool[place[0, 0]]]))
        others = torch.stack([score(rows[u], rows[w]) for w in pool if w not in (u, v)])
        reciprocal.append(1 / (1 + float((others > mine).sum()) + float((others == mine).sum()) / 2))
    area = area_under_curve(torch.stack(positives), torch.stack(negatives))
    return area, sum(reciprocal) / len(reciprocal)
