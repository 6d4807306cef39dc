"""Comparison of trainings with caches, a sweep of a fixed threshold, and Theorem 1's bound (CDFGNN)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import add_slider, lines, panels, scatter
from gnnqlab.lab.training.cache_view import draw_cache, sent_by_layer
from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["compare_caches", "draw_bound", "draw_cache", "draw_sweep", "sent_by_layer"]

_ROUNDING = 1e-12
"""Share of the squared gradient below which an error is float32 rounding: while the caches are still empty."""


def compare_caches(found: DataFrame) -> DataFrame:
    """Return each cache's skipped rows and its test score relative to ``none``, with 95 % intervals over seeds.

    Args:
        found: result of :func:`gnnqlab.simulation.cached_training.train_cached` with ``none`` among the caches.

    Example:
        >>> import pandas as pd
        >>> scores, kept = [0.5, 0.6] * 2, [0, 0.5] * 2
        >>> rows = {"cache": ["none", "a"] * 2, "seed": [0, 0, 1, 1], "score": scores, "kept": kept}
        >>> compare_caches(pd.DataFrame(rows)).loc["a"].to_dict()
        {'rows kept (%)': 50.0, 'score (%)': 60.0, 'beside none (points)': 10.0, '±': 0.0}
    """
    import pandas as pd

    scores = 100 * found.pivot(index="seed", columns="cache", values="score")  # (seed, cache), percent
    shares = 100 * found.groupby("cache", sort=False)["kept"].mean()
    change = scores.sub(scores["none"], axis=0)  # paired by seed
    table = pd.DataFrame({"rows kept (%)": shares, "score (%)": scores.mean(), "beside none (points)": change.mean()})
    # half of the 95 % interval of the paired differences
    table["±"] = [interval(change[name].tolist())[1] for name in table.index]
    return table.loc[shares.index].round(2)


def draw_sweep(found: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw skipped rows and test score over a fixed ε, with a slider that marks one ε.

    Args:
        found: result of :func:`gnnqlab.simulation.cached_training.train_cached` for caches of rule ``fixed``.
    """
    means = found.groupby("epsilon")[["kept", "score"]].mean() * 100  # mean over seeds, percent
    point = means.iloc[:1]  # the point that the slider moves
    charts = {
        # Two traces per panel, the line over all ε and then the marked point: the slider changes traces 1 and 3.
        title: scatter(
            point, y=name, styles=["purple circle-open"], size=16, zero=zero,
            figure=lines(means, y=name, styles=[color], x_axis="ε (no unit)", y_axis="%"),
        )
        for name, title, color, zero in (("kept", "rows skipped", "green", "y"), ("score", "test score", "sky", ""))
    }  # fmt: skip
    max_share, min_share = means["kept"].max(), means["kept"].min()
    caption = (
        f"From ε = {means.index[0]:g} to {means.index[-1]:g}, {min_share:.0f} to {max_share:.0f} % of rows are skipped."
    )
    figure = panels(charts, gap=0.12, title="A fixed threshold", caption=caption, dark=dark, height=420)
    figure.update_traces(showlegend=False)
    steps = {
        f"{epsilon:g}": {"x": [[epsilon], [epsilon]], "y": [[line["kept"]], [line["score"]]]}
        for epsilon, line in means.iterrows()
    }
    add_slider(figure, steps, start=next(iter(steps)), prefix="ε = ", traces=[1, 3])
    return FigureData(figure, means.round(1))


def draw_bound(found: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw the mean of ``||∇L||²`` and both readings of its bound (CDFGNN Theorem 1).

    Args:
        found: the ``frame`` of :func:`gnnqlab.theory.cache_error`.
    """
    columns = {
        "mean_square": "mean of ||∇L||²", "bound": "bound, every term", "printed": "bound as printed",
        "error_square": "||Δ||² of the epoch",
    }  # fmt: skip
    # Errors of an exact zero are float32 rounding and would stretch the logarithmic axis over many decades.
    squares = found.assign(
        **{column: found[column].where(found[column] > _ROUNDING * found["mean_square"]) for column in columns}
    )
    # wide -> long: one row per epoch and curve
    rows = squares.melt("epoch", list(columns), var_name="what", value_name="square").dropna()
    is_bounded = bool((found["mean_square"] <= found["bound"]).all())
    caption = f"The bound with every term {'holds' if is_bounded else 'does not hold'} in all {len(found)} epochs."
    figure = lines(
        rows,
        x="epoch",
        y="square",
        by="what",
        names=columns,
        mode="lines",
        styles=["blue", "vermillion dash", "orange dot", "grey"],
        y_axis="squared gradient (loss² per weight²)",
        log="y",
        title="Error of the cache in the gradient",
        caption=caption,
        dark=dark,
        height=420,
    )
    return FigureData(figure, found)
