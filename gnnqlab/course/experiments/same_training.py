"""Distributed training with float32 messages: gradients that sum to that of one process, and equal losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.training.snapshot import RunLike, take
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems.registry import make_system
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts

__all__ = ["draw_agreement", "gradient_shares"]


def gradient_shares(
    parts: Parts, *, system: str = "vanilla", hidden: int = 4, seed: int = 0, **settings: int
) -> DataFrame:
    """Return each worker's contribution to loss and gradient in one training pass, their sum, and those of one process.

    The workers are threads of this process with the shards, channels and codecs of launched ones.

    Args:
        parts: the partition.
        system: name of the system.
        hidden: hidden size of the model (GCN of two layers, without dropout).
        seed: seed of its weights and of the messages' noise.
        **settings: settings of the system, for instance ``bits=2``.

    Returns:
        One line per worker, ``sum`` and ``one process``; columns ``training nodes``, ``loss``, and ``gradient``,
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
    # each worker's share of the loss; all pass at the same time
    losses = workers.run(lambda trainer: trainer.gradients(0))
    # float64, so that their sum adds little rounding
    gradients = [trainer.parameters.gradients.double().clone() for trainer in workers.trainers]
    truth = exact_trainer(parts.graph, model, seed=seed)
    loss = truth.gradients(0)
    exact_gradient = truth.parameters.gradients.double()
    # Show the last element that is clearly not zero: ReLU leaves many gradients at zero.
    place = next(i for i in range(exact_gradient.numel() - 1, -1, -1) if abs(float(exact_gradient[i])) > 1e-4)
    total = torch.stack(gradients).sum(0)  # the all-reduce: (P, weights) -> (weights,)
    lines = [
        (f"worker {rank}", int(shard.train_mask.sum()), losses[rank], float(gradients[rank][place]), float("nan"))
        for rank, shard in enumerate(parts.shards)
    ]
    num_trained = int(parts.graph.train_mask.sum())
    # relative to the norm of the exact gradient
    distance = float((total - exact_gradient).norm() / exact_gradient.norm())
    lines.append(("sum", num_trained, sum(losses), float(total[place]), distance))
    lines.append(("one process", num_trained, loss, float(exact_gradient[place]), 0.0))
    columns = ["who", "training nodes", "loss", "gradient", "distance"]
    return pd.DataFrame(lines, columns=columns).set_index("who")


_STYLES = ("sky solid", "vermillion dash", "grey dot", "green dashdot")
_WIDTHS = (9, 3.5, 2, 1.5)
"""Widths of the lines; a thinner line stays visible on a thicker one."""
_EPSILON = 2.0**-24  # half a unit in the last place of a float32 near 1


def draw_agreement(runs: Sequence[RunLike], *, dark: bool = False) -> FigureData:
    """Draw the losses of runs on top of each other, and the distance of each from the first.

    Raises:
        ValueError: if there are fewer than two runs, or more than four.
    """
    import pandas as pd

    if not 2 <= len(runs) <= len(_STYLES):  # one style per run
        raise ValueError(f"two to {len(_STYLES)} runs can be compared, got {len(runs)}")
    losses = {}
    for run in map(take, runs):
        workers = run.summary["workers"]
        name = f"{run.summary['system']}, {workers} worker" + ("" if workers == 1 else "s")
        # a second run of the same name needs another key
        losses[name if name not in losses else f"{name} (again)"] = by_epoch(run.records).set_index("epoch")["loss"]
    table = pd.DataFrame(losses)
    first_run, *other_runs = losses
    distances = table[other_runs].sub(table[first_run], axis=0).abs()  # absolute differences, epoch by epoch
    left = lines(
        table,
        y=list(table),
        styles=_STYLES,
        mode="lines",
        zero="y",
        x_axis="epoch",
        y_axis="training loss (cross-entropy)",
    )
    for trace, width in zip(left.data, _WIDTHS):
        trace.line.width = width
    right = lines(
        distances.clip(lower=1e-9),  # a difference of zero has no place on a logarithmic axis
        y=other_runs,
        styles=_STYLES[1:],
        mode="lines",
        levels={"": _EPSILON},
        log="y",
        x_axis="epoch",
        y_axis="distance from the first (loss)",
    )
    caption = f"Losses of {', '.join(losses)}. Largest distance from {first_run} in any epoch: " + ", ".join(
        f"{name} {distance:.0e}" for name, distance in distances.max().items()
    )
    return FigureData(
        panels([left, right], gap=0.13, title="The same training?", caption=caption + ".", dark=dark), table
    )
