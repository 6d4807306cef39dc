"""The law of distributed training, to be looked at: exact messages change nothing but who computes what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.bundle import Bundle
from gnnqlab.lab.frames import by_epoch
from gnnqlab.lab.snapshot import RunLike, take
from gnnqlab.lab.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts

__all__ = ["draw_agreement", "gradient_shares"]

_LOOKS = (
    (OKABE_ITO["sky"], "solid", 9),
    (OKABE_ITO["vermillion"], "dash", 3.5),
    ("#1f2328", "dot", 2),
    (OKABE_ITO["green"], "dashdot", 1.5),
)
_EPSILON = 2.0**-24  # half a unit in the last place of a float32 near 1


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
        >>> from gnnqlab.lab import course
        >>> from gnnqlab.partition.parts import partition
        >>> shares = gradient_shares(partition(course.ten_nodes(), course.Halves(), workers=2))
        >>> shares["training nodes"].tolist(), bool(shares["distance"]["sum"] < 1e-6)
        ([2, 2, 4, 4], True)
    """
    import pandas as pd
    import torch

    from gnnqlab.measure.in_process import ThreadedWorkers, exact_trainer
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.systems.system import make_system
    from gnnqlab.train.config import TrainSettings

    model = ModelSettings(name="gcn", layers=2, hidden=hidden, dropout=0.0)
    workers = ThreadedWorkers(
        parts.graph,
        parts.owner,
        make_system(system, **settings),
        model,
        TrainSettings(seed=seed),
        workers=parts.workers,
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


def draw_agreement(runs: Sequence[RunLike], *, dark: bool = False) -> Bundle:
    """Draw the losses of runs on each other, and how far each is from the first.

    Raises:
        ValueError: if there are fewer than two runs, or more than four.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    if not 2 <= len(runs) <= len(_LOOKS):
        raise ValueError(f"two to {len(_LOOKS)} runs are laid on each other, got {len(runs)}")
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.13)
    losses = {}
    for run, (color, dash, width) in zip(map(take, runs), _LOOKS):
        workers = run.summary["workers"]
        name = f"{run.summary['system']}, {workers} worker" + ("" if workers == 1 else "s")
        table = by_epoch(run.records).set_index("epoch")["loss"]
        losses[name if name not in losses else f"{name} (again)"] = table
        line = {"color": color if not dark or width != 2 else "#e6e8ea", "dash": dash, "width": width}
        figure.add_scatter(x=table.index.tolist(), y=table.tolist(), mode="lines", line=line, name=name, row=1, col=1)
        if len(losses) > 1:
            apart = (table - next(iter(losses.values()))).abs().clip(lower=1e-9)
            figure.add_scatter(
                x=apart.index.tolist(),
                y=apart.tolist(),
                mode="lines",
                line={**line, "width": 2},
                name=name,
                showlegend=False,
                row=1,
                col=2,
            )
    figure.add_hline(y=_EPSILON, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1}, row=1, col=2)
    first, *others = losses
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="training loss (cross-entropy)", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(
        title_text="distance from the first (loss)", type="log", exponentformat="power", dtick=2, row=1, col=2
    )
    worst = {name: float((losses[name] - losses[first]).abs().max()) for name in others}
    caption = f"Losses of {', '.join(losses)}. Largest distance from {first} in any epoch: " + ", ".join(
        f"{name} {distance:.0e}" for name, distance in worst.items()
    )
    finish(figure, title="The same training?", caption=caption + ".", dark=dark, height=360)
    return Bundle(figure, pd.DataFrame(losses))
