"""Widths that change while a run trains: what is decided when a loss falls so, and what fixed widths do instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from gnnqlab.bits.assigner.descent import Descent
from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.launch.start import launch
from gnnqlab.systems.system import make_system
from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph

__all__ = ["compare_widths", "replay"]


def replay(
    losses: Sequence[float],
    seconds: Sequence[float],
    *,
    settings: Orchestrated | None = None,
    as_printed: bool = False,
) -> DataFrame:
    """Return what the Quant Orchestrator decides when it is shown these losses (SYLVIE Eq. 5, Fig. 11 by δ).

    Differs: by default the rate is ``(F_(t-1) - F_t) / et_t``, positive while the loss falls; see ``as_printed``.

    Args:
        losses: by epoch.
        seconds: of every epoch.
        settings: δ, λ and the widths; the paper's by default.
        as_printed: the rate as the paper prints it, ``(F_t - F_(t-1)) / et_t``, whatever the settings say.

    Returns:
        By ``epoch``: ``loss``, ``F``, ``rate``, ``earlier`` (the rate δ epochs before) and ``base``, the width of that
        epoch.

    Raises:
        ValueError: if there are not as many seconds as losses.

    Example:
        >>> losses = [0.9**epoch for epoch in range(40)]  # levels off
        >>> int(replay(losses, [1.0] * 40)["base"].iloc[-1])
        8
        >>> int(replay(losses, [1.0] * 40, as_printed=True)["base"].max())  # in the first epochs F still speeds up
        8
    """
    import pandas as pd

    if len(losses) != len(seconds):
        raise ValueError(f"every loss needs the seconds of its epoch, got {len(losses)} losses and {len(seconds)}")
    settings = settings or Orchestrated()
    settings = replace(settings, formula="printed") if as_printed else settings
    nobody = torch.zeros(0, dtype=torch.int64)
    widths, descent = OrchestratedWidths(settings, nobody, nobody), Descent(settings.momentum, settings.delta)
    sign = -1 if settings.formula == "printed" else 1
    lines = []
    # A loss is told with the seconds of the epoch before it, those of the first epoch are not.
    led_there = [*seconds[:2], *seconds[1:-1]]
    for epoch, (loss, epoch_s) in enumerate(zip(losses, led_there)):
        now, rates = widths.base, descent.add(loss, epoch_s)
        earlier, rate = rates or (float("nan"), descent.rates[-1] if descent.rates else float("nan"))
        lines.append((epoch, loss, descent.loss, sign * rate, sign * earlier, now))
        if rates is not None:
            widths.move(wider=settings.widens(*rates))
    return pd.DataFrame(lines, columns=["epoch", "loss", "F", "rate", "earlier", "base"]).set_index("epoch")


def compare_widths(graph: Graph, *, seeds: Sequence[int] = (0,), epochs: int = 60, **settings: Any) -> DataFrame:
    """Train with fixed widths and with widths that move, all synchronous (SYLVIE's Table X).

    Args:
        graph: the graph.
        seeds: one run of every width for each, in turns.
        epochs: of every run.
        **settings: of ``gq.launch``, and ``partition``: a part.

    Returns:
        By ``bits``: median ``epoch (ms)``, ``MB an epoch`` (mean), ``final loss``, ``accuracy (%)`` and half its 95 %
        interval.
    """
    import pandas as pd

    partition = settings.pop("partition", None)
    systems: Mapping[str, Any] = {
        "32": make_system("vanilla"),
        **{str(bits): make_system("fixed-bits", bits=bits) for bits in (8, 4, 2, 1)},
        "adaptive": make_system("sylvie"),
    }
    lines = []
    for seed in seeds:
        for bits, system in systems.items():
            made = replace(system, schedule=Overlapped())
            made = made if partition is None else replace(made, partition=partition)
            run = launch(graph, system=made, epochs=epochs, seed=seed, **settings).wait()
            summary = run.summary
            score = float(summary.get("test_accuracy", summary.get("test_f1_micro", float("nan"))))
            sent = run.records[["bytes_payload", "bytes_params"]].sum().sum() / epochs / 1e6
            lines.append((bits, 1e3 * summary["epoch_s"], sent, summary["final_loss"], 100 * score))
    columns = ["bits", "epoch (ms)", "MB an epoch", "final loss", "accuracy (%)"]
    groups = pd.DataFrame(lines, columns=columns).groupby("bits", sort=False)
    table = groups.mean()
    table["epoch (ms)"] = groups["epoch (ms)"].median()
    table["± (points)"] = [
        interval(group["accuracy (%)"].tolist())[1] if len(seeds) > 1 else float("nan") for _, group in groups
    ]
    return table
