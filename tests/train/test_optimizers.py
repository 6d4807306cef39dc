"""Optimizers by name equal those of torch; every one is the same for several workers and after resuming."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from gnnqlab.graph import sbm
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.checkpoints.checkpoint import Checkpoint
from gnnqlab.train.checkpoints.state import capture, restore
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.optimizers import make_optimizer
from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.ranks import run_ranks

GRAPH = sbm(60, 3, 6, seed=0)
MODEL = ModelSettings(name="gcn", layers=2, hidden=8, dropout=0.0)
OWN = f"{__name__}:adagrad"
CASES = {
    "adam": {"weight_decay": 0.1},
    "adamw": {"weight_decay": 0.1},
    "sgd": {"weight_decay": 0.1},
    "sgd with momentum": {"sgd_momentum": 0.9},
    "own": {"weight_decay": 0.01},
}


def adagrad(parameters: Any, *, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """Return an optimizer whose state is made by its constructor."""
    return torch.optim.Adagrad(parameters, lr=lr, weight_decay=weight_decay)


def nadam(parameters: Any, *, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """Return an optimizer whose state is made by its first step."""
    return torch.optim.NAdam(parameters, lr=lr)


def settings(case: str, **others: Any) -> TrainSettings:
    name = OWN if case == "own" else case.partition(" ")[0]
    return TrainSettings(optimizer=name, lr=0.05, **CASES[case], **others)


@each("case", list(CASES))
def test_steps_equal_those_of_torch(case: str) -> None:
    torch.manual_seed(0)
    ours, theirs = (nn.Sequential(nn.Linear(7, 9), nn.Linear(9, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    flat = FlatParameters(ours)
    chosen = settings(case)
    optimizer = make_optimizer(flat, **chosen.optimizer_arguments)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "own": torch.optim.Adagrad}
    options: dict[str, Any] = {"lr": 0.05, "weight_decay": chosen.weight_decay}
    options |= {"momentum": chosen.sgd_momentum} if case.startswith("sgd") else {}
    reference = kinds[case.partition(" ")[0]](theirs.parameters(), **options)
    for step in range(5):
        rows = torch.randn(4, 7, generator=torch.Generator().manual_seed(step))
        flat.zero()
        ours(rows).square().sum().backward()
        optimizer.step()
        reference.zero_grad()
        theirs(rows).square().sum().backward()
        reference.step()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-7)


def alone(chosen: TrainSettings) -> Trainer:
    network = build_model(MODEL, GRAPH.num_features, GRAPH.num_classes, seed=0)
    return Trainer(LocalGraph(GRAPH), label_objective(GRAPH), network, chosen)


def on_rank(rank: int, workers: int, owner: torch.Tensor, cases: list[str]) -> dict[str, list[float]]:
    shard = build_shard(GRAPH, owner, rank, workers)
    trainers = {case: worker_trainer(shard, replace(vanilla()), MODEL, settings(case)) for case in cases}
    return {case: [trainer.epoch(epoch) for epoch in range(4)] for case, trainer in trainers.items()}


def test_workers_agree_with_one_process() -> None:
    expected = {}
    for case in CASES:
        trainer = alone(settings(case))
        expected[case] = [trainer.epoch(epoch) for epoch in range(4)]
    for losses in run_ranks(on_rank, 3, Random(seed=1).cut(GRAPH, 3).owner, list(CASES)):
        for case in CASES:
            assert losses[case] == pytest.approx(expected[case], rel=1e-4), case


@each("chosen", [*(settings(case) for case in CASES), TrainSettings(optimizer=f"{__name__}:nadam")])
def test_state_is_restored_bit_for_bit(chosen: TrainSettings) -> None:
    trainer = alone(chosen)
    for epoch in range(3):
        trainer.epoch(epoch)
    tensors, facts = capture(trainer)
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    expected = [trainer.epoch(epoch) for epoch in range(3, 6)]
    again = alone(chosen)
    assert restore(again, Checkpoint(epoch=3, tensors=copies, facts=facts)) == (3, facts)
    assert [again.epoch(epoch) for epoch in range(3, 6)] == expected


@each(
    ("chosen", "text"),
    [
        ({"optimizer": "rmsprop"}, "optimizer must be one of adam, adamw, sgd, or a function .*, got 'rmsprop'"),
        (
            {"optimizer": "math:pi"},
            "optimizer must name a function of .parameters, lr, weight_decay., got .math:pi., a float",
        ),
        ({"sgd_momentum": 0.9}, "sgd_momentum needs optimizer 'sgd', got 0.9 with 'adam'"),
    ],
)
def test_wrong_optimizers_are_refused(chosen: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TrainSettings(**chosen)


def test_function_that_returns_no_optimizer_is_refused() -> None:
    with pytest.raises(ValueError, match="must return a torch.optim.Optimizer, got dict"):
        make_optimizer(FlatParameters(nn.Linear(2, 2)), **TrainSettings(optimizer="builtins:dict").optimizer_arguments)
