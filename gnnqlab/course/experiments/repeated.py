"""The same training several times: once a seed, and a line a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.run.run import Run

__all__ = ["repeated", "sweep_table"]


def repeated(graph: Any, *, seeds: Sequence[int] = (0, 1, 2), **settings: Any) -> list[Run]:
    """Launch the same training once a seed, one after another, and wait for each.

    Args:
        graph: as for :func:`gnnqlab.launch`.
        seeds: of weights, dropout and noise.
        **settings: as for :func:`gnnqlab.launch`.
    """
    from gnnqlab.launch.start import launch

    return [launch(graph, seed=seed, wait=True, **settings) for seed in seeds]


def sweep_table(runs: dict[Any, Sequence[Run]], *, knob: str) -> DataFrame:
    """Return a line for each run: ``knob, seed, accuracy, epoch_s, bytes_sent``.

    Args:
        runs: by value of the knob.
        knob: its name, for the first column.
    """
    import pandas as pd

    rows = []
    for value, some in runs.items():
        for run in some:
            summary = run.summary
            score = summary.get("test_accuracy", summary.get("test_f1_micro"))
            rows.append(
                {
                    knob: value,
                    "seed": run.config.train.seed,
                    "accuracy": float("nan") if score is None else float(score),
                    "epoch_s": summary["epoch_s"],
                    "bytes_sent": summary["bytes_sent"],
                }
            )
    return pd.DataFrame(rows)
