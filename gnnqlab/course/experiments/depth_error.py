"""Seven models over one exchange: what few bits do to output and gradient at every depth, and to a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.bits.in_words import human_bits
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems.system import make_system
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts

__all__ = ["SEVEN", "depth_error", "train_models"]

SEVEN = ("gcn", "graphsage", "gat", "jknet", "gcnii", "sgc", "dagnn")


def depth_error(
    parts: Parts,
    *,
    models: Sequence[str] = SEVEN,
    depths: Sequence[int] = (2, 4, 8, 16),
    bits: int = 2,
    hidden: int = 32,
    repeats: int = 2,
    seed: int = 0,
) -> DataFrame:
    """Return by how much quantized messages change a model's output and its gradient, at its first weights.

    ``||z - z_exact|| / ||z_exact||`` over all nodes, z the logits, and the same for the gradient of all weights; the
    root of the mean square over ``repeats`` draws of noise. The workers are threads with the shards, exchanges and
    codecs of real ones; no dropout.

    Args:
        parts: who owns what.
        models: names.
        depths: layers, or hops where a hop has no weights.
        bits: of every message, forward and backward; 32 for float32.
        hidden: width.
        repeats: draws of noise.
        seed: of weights and noise.

    Returns:
        One line each model and depth: ``output (%)`` and ``gradient (%)``.

    Raises:
        ValueError: if a name, a depth or the bits are wrong.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> bool((depth_error(parts, models=("gcn", "sgc"), depths=(2,), bits=32) < 1e-3).all(axis=None))
        True
    """
    import pandas as pd

    lines = []
    for name in models:
        for depth in depths:
            model = ModelSettings(name=name, layers=depth, hidden=hidden, dropout=0.0)
            workers = _workers(parts, model, bits, seed)
            truth = exact_trainer(parts.graph, model, seed=seed)
            exact = _logits([truth], [None], parts.graph.num_nodes, 0)
            truth.gradients(0)
            gradient = truth.parameters.gradients
            squares = [0.0, 0.0]
            for epoch in range(repeats):
                z = _logits(workers, [shard.owned for shard in workers.shards], parts.graph.num_nodes, epoch)
                _, noisy = workers.gradients(epoch)
                squares[0] += float((z - exact).norm() / exact.norm()) ** 2 / repeats
                squares[1] += float((noisy - gradient).norm() / gradient.norm()) ** 2 / repeats
            lines.append((name, depth, *(100 * square**0.5 for square in squares)))
    table = pd.DataFrame(lines, columns=["model", "depth", "output (%)", "gradient (%)"])
    return table.set_index(["model", "depth"])


def _workers(parts: Parts, model: ModelSettings, bits: int, seed: int) -> ThreadedWorkers:

    system = make_system("vanilla") if bits == 32 else make_system("fixed-bits", bits=bits)
    settings = TrainSettings(seed=seed)
    return ThreadedWorkers(parts.graph, parts.cut, system, model, settings)


def _logits(trainers: Any, owned: Sequence[Tensor | None], num_nodes: int, epoch: int) -> Tensor:
    """The logits of all nodes, from one trainer or from threaded workers."""

    def one(trainer: Any) -> Tensor:
        with torch.no_grad():
            out: Tensor = trainer.model(trainer.graph.at(epoch, training=True), trainer.graph.features)
        return out

    parts = [one(trainer) for trainer in trainers] if isinstance(trainers, list) else trainers.run(one)
    whole = torch.empty(num_nodes, parts[0].shape[1])
    for ids, part in zip(owned, parts):
        whole[slice(None) if ids is None else ids] = part
    return whole


def train_models(
    parts: Parts,
    *,
    models: Sequence[str] = SEVEN,
    layers: int = 4,
    bits: Sequence[int] = (32, 2),
    hidden: int = 32,
    epochs: int = 30,
    seed: int = 0,
) -> DataFrame:
    """Train models in one process and on the workers of ``parts`` (threads here), without dropout.

    Returns:
        By ``model``: ``one process: loss`` (the last epoch's) and test ``accuracy (%)``, and the same for every width.
    """
    import pandas as pd

    graph, lines = parts.graph, {}
    for name in models:
        model = ModelSettings(name=name, layers=layers, hidden=hidden, dropout=0.0)
        local = exact_trainer(graph, model, seed=seed)
        loss = [local.epoch(epoch) for epoch in range(epochs)][-1]
        scores = local.evaluate(epochs)
        line = {"one process: loss": loss, "accuracy (%)": 100 * scores.test}
        for width in bits:
            workers = _workers(parts, model, width, seed)
            loss = [workers.step(epoch) for epoch in range(epochs)][-1]
            # Evaluation exchanges exact rows, which is what one process has.
            local.parameters.values.copy_(workers.trainers[0].parameters.values)
            scores = local.evaluate(epochs)
            label = f"{parts.workers} workers, {human_bits(width)}"
            line |= {f"{label}: loss": loss, f"{label}: accuracy (%)": 100 * scores.test}
        lines[name] = line
    table = pd.DataFrame(lines).T
    table.index.name = "model"
    return table
