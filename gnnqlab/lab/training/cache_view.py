"""Figure of a cache over epochs: share of rows sent, threshold ε, and accuracy (CDFGNN Fig. 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.training.snapshot import RunLike
from gnnqlab.train.loop.scores import score_label

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["CachedRun", "draw_cache", "sent_by_layer"]


class CachedRun(RunLike, Protocol):
    """Run with the counts of its cache: a handle, or a snapshot."""

    @property
    def cache(self) -> DataFrame | None: ...


def sent_by_layer(counts: DataFrame) -> DataFrame:
    """Return the share of rows sent by epoch, one column per layer, over all workers and both directions.

    Args:
        counts: ``run.cache``.

    Example:
        >>> import pandas as pd
        >>> rows = {"epoch": [0, 0], "layer": [0, 0], "rows_sent": [3, 1], "rows_offered": [4, 4]}
        >>> sent_by_layer(pd.DataFrame(rows)).to_dict()
        {0: {0: 0.5}}
    """
    sums = counts.groupby(["epoch", "layer"])[["rows_sent", "rows_offered"]].sum()
    return (sums["rows_sent"] / sums["rows_offered"]).unstack("layer")  # (epochs, layers)


def draw_cache(run: CachedRun, *, label: str = "", dark: bool = False) -> FigureData:
    """Draw the share of rows sent by layer, ε, and the accuracy over epochs (CDFGNN Fig. 7).

    A cache that does not choose rows by a threshold has no panel of ε.

    Args:
        run: a run with a cache.
        label: name of the run in the title, if there are several.
        dark: colours for a dark page.

    Raises:
        ValueError: if the run has no cache.
    """
    counts = run.cache
    if counts is None or counts.empty:
        name = label or run.summary["run"]
        raise ValueError(
            f'a run must have a cache to be drawn, got {name} without one; launch it with cache="adaptive"'
        )
    shares = sent_by_layer(counts).add_prefix("layer ")
    # One threshold per epoch, for all layers and workers.
    epsilon = counts.groupby("epoch")["epsilon"].first().rename("ε")
    scores = by_epoch(run.records).dropna(subset=["val_score"]).set_index("epoch")[["train_score", "val_score"]]
    has_epsilon = bool(epsilon.notna().any())
    charts = [
        lines(100 * shares, y=list(shares), styles=["blue", "vermillion", "green", "orange"], y_axis="rows sent (%)"),
        lines(epsilon.to_frame(), y="ε", styles=["purple"], shape="hv", y_axis="ε (no unit)"),
        lines(
            100 * scores, y={"train_score": "training", "val_score": "validation"}, styles=["grey", "sky"],
            x_axis="epoch", y_axis=f"{score_label(run.summary)} (%)",
        ),
    ]  # fmt: skip
    if not has_epsilon:
        del charts[1]  # the panel of ε
    # Percent of the rows offered to the cache.
    skipped_percent = 100 * (1 - counts["rows_sent"].sum() / counts["rows_offered"].sum())
    course = f"went from {epsilon.iloc[0]:.3g} to {epsilon.iloc[-1]:.3g}, at most {epsilon.max():.3g}"
    caption = f"Over the whole training {skipped_percent:.0f} % of the rows were skipped; " + (
        f"ε {course}." if has_epsilon else "the cache has no ε."
    )
    figure = panels(
        charts,
        rows=len(charts),
        share_x=True,
        gap=0.06,
        caption=caption,
        dark=dark,
        height=200 + 120 * len(charts),
        title=f"Rows sent by the cache of {label}" if label else "Rows sent by the cache",
    )
    figure.update_traces(mode="lines").update_yaxes(rangemode="tozero")
    return FigureData(figure, shares.assign(**({"epsilon": epsilon} if has_epsilon else {})))
