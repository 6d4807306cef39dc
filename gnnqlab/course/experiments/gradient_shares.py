"""The law of distributed training, measured: what each worker adds, and one process beside the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems.system import make_system
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts

__all__ = ["gradient_shares"]


def gradient_shares(
    parts: Parts, *, system: str = "vanilla", hidden: int = 4, seed: int = 0, **settings: int
) -> DataFrame:
    """Return what each worker adds to loss and gradient in one training pass, and one process beside their sum.

    The workers are threads of this process with the shards, channels and codecs of real ones.

    Args:
        parts: who owns what.
        system: decides how messages travel.
        hidden: width of the model (GCN of two layers, without dropout).
        seed: of its weights and of the messages' noise.
        **settings: of the system, for instance ``bits=2``.

    Returns:
        A line for each worker, ``sum`` and ``one process``; columns ``training nodes``, ``loss``, and ``gradient``,
        the first element of the last layer's weight gradient; ``distance`` of the whole gradient from that of one
        process, relative, for the sum.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> shares = gradient_shares(partition(course.ten_nodes(), course.Halves(), workers=2))
        >>> shares["training nodes"].tolist(), bool(shares["distance"]["sum"] < 1e-6)
        ([2, 2, 4, 4], True)
    """
    import pandas as pd

    model = ModelSettings(name="gcn", layers=2, hidden=hidden, dropout=0.0)
    workers = ThreadedWorkers(
        parts.graph,
        parts.cut,
        make_system(system, **settings),
        model,
        TrainSettings(seed=seed),
    )
    losses = workers.run(lambda trainer: trainer.gradients(0))
    gradients = [trainer.parameters.gradients.double().clone() for trainer in workers.trainers]
    truth = exact_trainer(parts.graph, model, seed=seed)
    loss = truth.gradients(0)
    exact = truth.parameters.gradients.double()
    place = next(i for i in range(exact.numel() - 1, -1, -1) if abs(float(exact[i])) > 1e-4)
    together = torch.stack(gradients).sum(0)
    lines = [
        (f"worker {rank}", int(shard.train_mask.sum()), losses[rank], float(gradients[rank][place]), float("nan"))
        for rank, shard in enumerate(parts.shards)
    ]
    trained = int(parts.graph.train_mask.sum())
    distance = float((together - exact).norm() / exact.norm())
    lines.append(("sum", trained, sum(losses), float(together[place]), distance))
    lines.append(("one process", trained, loss, float(exact[place]), 0.0))
    columns = ["who", "training nodes", "loss", "gradient", "distance"]
    return pd.DataFrame(lines, columns=columns).set_index("who")
