"""Smoothed staleness: PipeGCN with embeddings, gradients or both averaged over epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnnqlab.exchange.schedules.pipeline import Pipelined
from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.launch.start import launch

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.run.run import Run
    from gnnqlab.systems.system import System

__all__ = ["UNSMOOTHED", "SMOOTHED", "draw_smoothing", "add_smoothing", "smoothing_table", "train_smoothed"]
__getattr__ = former_functions(__name__, {"smoothed": "add_smoothing", "WHAT": "SMOOTHED"})

SMOOTHED = {"features": (1, 0), "gradients": (0, 1), "both": (1, 1)}
"""Name -> smoothing of (features, gradients): PipeGCN-F, -G and -GF."""
UNSMOOTHED = ("nothing", 0.0)
"""Key of the run without smoothing."""


def add_smoothing(system: System, what: str, gamma: float) -> System:
    """Return a system with smoothed rows of one epoch of staleness: ``m <- γ m + (1 - γ) row``.

    Args:
        system: system whose schedule is replaced.
        what: key of `SMOOTHED`.
        gamma: γ in [0, 1).

    Example:
        >>> from gnnqlab.systems import pipegcn
        >>> made = add_smoothing(pipegcn(), "gradients", 0.5)
        >>> made.name, made.schedule.feature_smoothing, made.schedule.gradient_smoothing
        ('pipegcn gradients 0.5', 0.0, 0.5)
    """
    if what not in SMOOTHED:
        raise ValueError(f"what is smoothed must be one of {tuple(SMOOTHED)}, got {what!r}")
    rows, gradients = SMOOTHED[what]  # 0 switches the smoothing of features or gradients off
    schedule = Pipelined(feature_smoothing=rows * gamma, gradient_smoothing=gradients * gamma)
    return replace(system, schedule=schedule, name=f"pipegcn {what} {gamma:g}")


def train_smoothed(
    graph: Graph, system: System, *, gammas: Sequence[float] = (0.5, 0.95), what: Sequence[str] = tuple(SMOOTHED),
    **settings: Any,
) -> dict[tuple[str, float], Run]:  # fmt: skip
    """Train a system without smoothing, and with each γ for features, gradients and both.

    Args:
        graph: the graph.
        system: system whose schedule is replaced.
        gammas: values of γ above 0.
        what: keys of `SMOOTHED`.
        **settings: settings of ``gq.launch``: ``epochs``, ``workers``, ``seed`` and so on.

    Returns:
        Finished runs by key of `SMOOTHED` and γ; ``("nothing", 0.0)`` is the run without smoothing.
    """
    # γ = 0 with the same schedule is PipeGCN itself
    systems = {UNSMOOTHED: replace(add_smoothing(system, "both", 0.0), name="pipegcn")}
    systems |= {(part, gamma): add_smoothing(system, part, gamma) for part in what for gamma in gammas}
    return {key: launch(graph, system=variant, **settings).wait() for key, variant in systems.items()}


def smoothing_table(runs: Mapping[tuple[str, float], Run]) -> DataFrame:
    """Return one line per run of `train_smoothed`: ``smoothed``, ``γ``, ``final loss``, ``accuracy (%)``."""
    import pandas as pd

    lines = []
    for (part, gamma), run in runs.items():
        # multi-label graphs report micro-F1
        score = run.summary.get("test_accuracy", run.summary.get("test_f1_micro", float("nan")))
        lines.append((part, gamma, run.summary["final_loss"], 100 * float(score)))
    return pd.DataFrame(lines, columns=["smoothed", "γ", "final loss", "accuracy (%)"])


# γ -> colour: darker for stronger smoothing.
_COLORS = {0.0: "#56b4e9", 0.5: "#0072b2 dash", 0.95: "#003c5f dash"}


def draw_smoothing(
    records: Mapping[tuple[str, float], DataFrame], *, fresh: DataFrame | None = None, dark: bool = False
) -> FigureData:
    """Draw the loss by epoch: one panel each for features, gradients and both, one line per γ.

    Args:
        records: ``run.records`` by key of `SMOOTHED` and γ; ``("nothing", 0.0)`` is drawn in every panel.
        fresh: records of a run without staleness, grey in every panel.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no smoothed run.
    """
    import pandas as pd

    parts = [part for part in SMOOTHED if any(key[0] == part for key in records)]
    if not parts:  # order of SMOOTHED, only kinds with a run
        raise ValueError(f"a smoothed run is needed, got {list(records)}; see train_smoothed")
    losses = {key: by_epoch(frame).set_index("epoch")["loss"] for key, frame in records.items()}
    fresh_losses = {} if fresh is None else {"fresh rows": by_epoch(fresh).set_index("epoch")["loss"]}
    styles = {f"γ = {gamma:g}": _COLORS.get(gamma, "purple dash") for _, gamma in records} | {"fresh rows": "grey dot"}
    charts = {}
    for part in parts:
        part_losses = sorted(
            ((gamma, loss) for (smoothed_part, gamma), loss in losses.items() if smoothed_part in ("nothing", part)),
            key=lambda pair: pair[0],
        )  # by γ, so that colours and legend rise together
        table = pd.DataFrame({**fresh_losses, **{f"γ = {gamma:g}": loss for gamma, loss in part_losses}})
        charts[f"{part} smoothed"] = lines(
            table,
            y=list(table),
            styles=styles,
            mode="lines",
            log="y",
            x_axis="epoch",
            y_axis="training loss (cross-entropy)",
        )
    words = ", ".join(
        f"{smoothed_part} γ = {gamma:g}: {loss.iloc[-1]:.3g}" if gamma else f"unsmoothed {loss.iloc[-1]:.3g}"
        for (smoothed_part, gamma), loss in losses.items()
    )
    ends = "" if fresh is None else f" fresh rows {by_epoch(fresh)['loss'].iloc[-1]:.3g},"
    figure = panels(
        charts,
        share_y=True,
        gap=0.03,
        title="Stale rows with and without smoothing",
        caption=f"Training loss with rows of one epoch of staleness. At the end:{ends} {words}.",
        dark=dark,
        height=380,
        legend_below=True,
    )
    return FigureData(
        figure,
        pd.DataFrame({f"{smoothed_part}, γ = {gamma:g}": loss for (smoothed_part, gamma), loss in losses.items()}),
    )
