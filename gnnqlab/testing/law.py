"""Equivalence check of distributed training: with float32 messages, P workers compute the same as one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnnqlab.errors import LawBroken
from gnnqlab.former_names import FormerMember
from gnnqlab.nn.models.registry import ModelSettings, build_model, for_now
from gnnqlab.simulation.simulated_group import simulated_group
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.testing.edge_cases import EdgeCase, cases
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import Trainer

__all__ = ["LawReport", "check_law"]

# Two, because dropout masks depend on the epoch.
_EPOCHS = 2
_PLACES = ("losses", "gradients", "logits")
Passes = list[tuple[str, str, Tensor]]
"""Results of the passes: kind, name and values of each tensor."""


@dataclass(frozen=True, kw_only=True)
class LawReport:
    """Result of :func:`check_law`: the cases compared, and their differences from one process."""

    model: str
    tolerance: float
    rows: tuple[dict[str, Any], ...]
    """One row per case: ``workers``, ``graph`` and the largest difference of ``losses``, ``gradients`` and ``logits``,
    relative to the largest value of the kind in one process."""

    @property
    def max_difference(self) -> float:
        """Largest difference over all cases."""
        return max(row[place] for row in self.rows for place in _PLACES)

    worst = FormerMember("max_difference")

    def __str__(self) -> str:
        lines = [f"{self.model}: workers agree with one process within {self.tolerance:g} of the largest value"]
        for row in self.rows:
            differences = ", ".join(f"{place} {row[place]:.0e}" for place in _PLACES)
            lines.append(f"  {row['workers']} worker(s), {row['graph']}: {differences}")
        return "\n".join(lines)


def check_law(
    model: str | ModelSettings,
    *,
    workers: Sequence[int] = (1, 2, 3, 4),
    tolerance: float = 1e-5,
    seed: int = 0,
    edge_features: int = 0,
    objective: str = "",
    **settings: Any,
) -> LawReport:
    """Check that the workers of a model compute the same losses, gradients and logits as one process.

    Small random graphs are partitioned by edge-cuts; the cases include isolated nodes, directed edges without self
    loops and a worker without a halo. Two training passes with dropout and one in evaluation run in threads of this
    process that exchange float32 rows, and on the whole graph. A model that reads the number of workers or its rank
    from ``torch.distributed``, ``WORLD_SIZE`` or ``RANK`` reads those of the case; a collective operation of its own
    fails here, since threads have no process group. The order of sums depends on the number of workers: a few float32
    roundings, each 6e-8, grow to about 1e-6. An element within a rounding error of a ReLU's corner may be on either
    side of it; in that case another ``seed`` passes.

    Args:
        model: name of a registered model; ``module:name`` of a builder ``(settings, in_features, num_classes, seed) ->
            module``, registered or not; or settings.
        workers: numbers of workers, each at least 1 and at most 44.
        tolerance: largest difference, relative to the largest loss, gradient or logit of one process.
        seed: seed of graphs, cuts, weights and dropout.
        edge_features: number of features per edge, for a model that supports them.
        objective: class of your own objective as ``module:Class``; by default cross-entropy.
        **settings: settings of the model; by default 3 layers of 16 with dropout 0.3, and 0.1 on the features.

    Returns:
        The report, which can be printed.

    Raises:
        LawBroken: an ``AssertionError`` that names the first difference: number of workers, graph, tensor.
        ValueError: if a name, a setting or a number of workers is invalid.
        RuntimeError: after a minute, if a worker waits in an exchange in which another takes no part.
        ImportError: if there is no such module.

    Example:
        >>> report = check_law("gcn", workers=(1, 2), layers=2)
        >>> report.max_difference < 1e-5, [row["workers"] for row in report.rows]
        (True, [1, 2, 2])
    """
    if not workers or not all(1 <= count <= 44 for count in workers):
        raise ValueError(f"workers must hold at least one number, each from 1 to 44, got {tuple(workers)}")
    with for_now(model if isinstance(model, str) else model.name) as name:
        if isinstance(model, ModelSettings):
            shape = dataclasses.replace(model, **settings)
        else:
            shape = ModelSettings(name=name, **_SHAPE | settings)
        model_name = model if isinstance(model, str) else name
        _require_same_start(shape, model_name, seed, edge_features)
        graphs = cases(workers, seed=seed, edge_features=edge_features)
        rows = [_compare_case(case, shape, model_name, tolerance, seed, objective) for case in graphs]
    return LawReport(model=model_name, tolerance=tolerance, rows=tuple(rows))


_SHAPE = {"layers": 3, "hidden": 16, "dropout": 0.3, "input_dropout": 0.1}


def _require_same_start(shape: ModelSettings, model_name: str, seed: int, edge_features: int) -> None:
    """Check that weights are a function of the seed, since every worker initializes its own copy."""
    of_edges = {"seed": seed, "edge_features": edge_features}
    # Two builds from one seed must agree to the bit.
    first_state, second_state = (build_model(shape, 12, 4, **of_edges).state_dict() for _ in range(2))
    for name, value in first_state.items():
        if not torch.equal(value, second_state[name]):
            raise LawBroken(
                model=model_name,
                workers=2,
                graph="before training",
                tensor=f"{name}, drawn twice from one seed,",
                difference=float((value - second_state[name]).abs().max()),
                tolerance=0.0,
            )


def _compare_case(
    case: EdgeCase, shape: ModelSettings, model_name: str, tolerance: float, seed: int, objective: str
) -> dict[str, Any]:
    """Compute the largest differences of one case, by kind."""
    truth = _run_one_process(case, shape, seed, objective)
    # Relative to the kind's largest value: a tensor of zeros has no relative error of its own.
    largest_values = {place: max(_size(value) for kind, _, value in truth if kind == place) for place in _PLACES}
    row: dict[str, Any] = {"workers": case.workers, "graph": case.description, **dict.fromkeys(_PLACES, 0.0)}
    with simulated_group(case.workers):  # so that a model that reads the number of workers computes as when launched
        passes = _run_workers(case, shape, seed, objective)
    for (place, name, true_value), (_, _, worker_value) in zip(truth, passes, strict=True):
        difference = _size(worker_value - true_value) / (largest_values[place] or 1.0)  # absolute, if all values are 0
        if not difference <= tolerance:  # also true for NaN
            raise LawBroken(
                model=model_name,
                workers=case.workers,
                graph=case.description,
                tensor=name,
                difference=difference,
                tolerance=tolerance,
            )
        row[place] = max(row[place], difference)
    return row


def _size(value: Tensor) -> float:
    return float(value.abs().max()) if value.numel() else 0.0


def _run_one_process(case: EdgeCase, shape: ModelSettings, seed: int, objective: str) -> Passes:
    trainer = exact_trainer(case.graph, shape, seed=seed, objective=objective)
    passes: Passes = []
    for epoch in range(_EPOCHS):
        loss = trainer.gradients(epoch)
        passes += _name_tensors(trainer, epoch, loss, trainer.parameters.gradients)
    return [*passes, ("logits", "logits", _logits(trainer))]


def _run_workers(case: EdgeCase, shape: ModelSettings, seed: int, objective: str) -> Passes:
    train = TrainSettings(seed=seed)
    threads = ThreadedWorkers(case.graph, case.cut, vanilla(), shape, train, as_launched=True, objective=objective)
    passes: Passes = []
    for epoch in range(_EPOCHS):
        passes += _name_tensors(
            threads.trainers[0], epoch, *threads.gradients(epoch)
        )  # gradients are summed over workers
    parts = threads.run(_logits)
    logits = torch.empty(case.graph.num_nodes, *parts[0].shape[1:])  # (N, C) of all workers
    for shard, part in zip(threads.shards, parts, strict=True):
        logits[shard.owned] = part  # local order -> global ids
    return [*passes, ("logits", "logits", logits)]


def _name_tensors(trainer: Trainer, epoch: int, loss: float, gradient: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield the loss, and the gradient of each parameter under its name."""
    yield "losses", f"the loss of epoch {epoch}", torch.tensor(loss)
    names = [name for name, _ in trainer.model.named_parameters()]
    sizes = [parameter.numel() for parameter in trainer.parameters.list]
    for name, part in zip(names, gradient.clone().split(sizes), strict=True):  # cloned: the next pass overwrites it
        yield "gradients", f"the gradient of {name} in epoch {epoch}", part


def _logits(trainer: Trainer) -> Tensor:
    """Return the logits of a trainer's rows in evaluation."""
    trainer.model.eval()
    with torch.no_grad():
        logits: Tensor = trainer.model(trainer.graph.open_pass(_EPOCHS, training=False), trainer.graph.features)
    return logits
