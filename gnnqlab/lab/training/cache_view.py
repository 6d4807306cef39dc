"""The cache at work: which rows were sent, by which threshold, and what became of the accuracy (CDFGNN Fig. 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.figures.theme import OKABE_ITO, finish
from gnnqlab.lab.training.snapshot import RunLike
from gnnqlab.train.loop.scores import score_label

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["CachedRun", "draw_cache", "sent_by_layer"]

_COLORS = [OKABE_ITO[name] for name in ("blue", "vermillion", "green", "orange")]


class CachedRun(RunLike, Protocol):
    """A run that also says what its cache sent: a handle, or a snapshot."""

    @property
    def cache(self) -> DataFrame | None: ...


def sent_by_layer(counts: DataFrame) -> DataFrame:
    """Return the share of rows sent by epoch, a column a layer, all workers and both directions.

    Args:
        counts: ``run.cache``.

    Example:
        >>> import pandas as pd
        >>> rows = {"epoch": [0, 0], "layer": [0, 0], "rows_sent": [3, 1], "rows_offered": [4, 4]}
        >>> sent_by_layer(pd.DataFrame(rows)).to_dict()
        {0: {0: 0.5}}
    """
    sums = counts.groupby(["epoch", "layer"])[["rows_sent", "rows_offered"]].sum()
    return (sums["rows_sent"] / sums["rows_offered"]).unstack("layer")


def draw_cache(run: CachedRun, *, label: str = "", dark: bool = False) -> Bundle:
    """Draw the share of rows sent by layer, ε, and the accuracy over epochs (CDFGNN Fig. 7).

    A cache that chooses by another rule than a threshold has no panel of ε.

    Args:
        run: with a cache.
        label: the run's name in the title, where there are several.
        dark: for a dark page.

    Raises:
        ValueError: if the run has no cache.
    """
    from plotly.subplots import make_subplots

    counts = run.cache
    if counts is None or counts.empty:
        name = label or run.summary["run"]
        raise ValueError(
            f'a run must have a cache to be drawn, got {name} without one; launch it with cache="adaptive"'
        )
    shares = sent_by_layer(counts)
    epsilon = counts.groupby("epoch")["epsilon"].first()
    scores = by_epoch(run.records).dropna(subset=["val_score"])
    told = bool(epsilon.notna().any())
    titles = ["rows sent (%)", *["ε (no unit)"] * told, f"{score_label(run.summary)} (%)"]
    figure = make_subplots(rows=len(titles), cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for index, layer in enumerate(shares):
        _line(figure, 1, shares.index, 100 * shares[layer], f"layer {layer}", _COLORS[index % len(_COLORS)])
    if told:
        _line(figure, 2, epsilon.index, epsilon, "ε", OKABE_ITO["purple"], shape="hv")
    _line(figure, len(titles), scores["epoch"], 100 * scores["train_score"], "training", OKABE_ITO["grey"])
    _line(figure, len(titles), scores["epoch"], 100 * scores["val_score"], "validation", OKABE_ITO["sky"])
    for row, title in enumerate(titles, 1):
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text="epoch", row=len(titles), col=1)
    kept = 100 * (1 - counts["rows_sent"].sum() / counts["rows_offered"].sum())
    moved = f"went from {epsilon.iloc[0]:.3g} to {epsilon.iloc[-1]:.3g}, at most {epsilon.max():.3g}"
    caption = f"Over the whole training {kept:.0f} % of the rows stayed home; " + (
        f"ε {moved}." if told else "the cache has no ε."
    )
    title = f"What the cache of {label} sends" if label else "What the cache sends"
    finish(figure, title=title, caption=caption, dark=dark, height=200 + 120 * len(titles))
    return Bundle(figure, shares.add_prefix("layer ").assign(**({"epsilon": epsilon} if told else {})))


def _line(figure: Any, row: int, x: Any, y: Any, name: str, color: str, *, shape: str = "linear") -> None:
    look = {"color": color, "width": 2, "shape": shape}
    figure.add_scatter(x=list(x), y=list(y), name=name, mode="lines", line=look, row=row, col=1)
