"""Trainings with caches beside each other, a fixed threshold's sweep, and Theorem 1's bound (CDFGNN)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish
from gnnqlab.lab.training.cache_view import draw_cache, sent_by_layer

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["compare_caches", "draw_bound", "draw_cache", "draw_sweep", "sent_by_layer"]

_INKS = {"kept": OKABE_ITO["green"], "score": OKABE_ITO["sky"]}
"""Blue and vermillion are the first layers' in ``draw_cache``, whose line of the score is sky too."""

_ROUNDING = 1e-12
"""Share of the gradient's square below which an error is that of float32: where nothing is held yet."""


def compare_caches(found: DataFrame) -> DataFrame:
    """Return each cache's kept rows and its test score beside ``none``, with 95 % intervals over seeds.

    Args:
        found: as :func:`gnnqlab.simulation.cached_training.train_cached` returns it, ``none`` among the caches.

    Example:
        >>> import pandas as pd
        >>> scores, kept = [0.5, 0.6] * 2, [0, 0.5] * 2
        >>> rows = {"cache": ["none", "a"] * 2, "seed": [0, 0, 1, 1], "score": scores, "kept": kept}
        >>> compare_caches(pd.DataFrame(rows)).loc["a"].to_dict()
        {'rows kept (%)': 50.0, 'score (%)': 60.0, 'beside none (points)': 10.0, '±': 0.0}
    """
    import pandas as pd

    from gnnqlab.theory.intervals import interval

    scores = 100 * found.pivot(index="seed", columns="cache", values="score")
    kept = 100 * found.groupby("cache", sort=False)["kept"].mean()
    beside = scores.sub(scores["none"], axis=0)
    table = pd.DataFrame({"rows kept (%)": kept, "score (%)": scores.mean(), "beside none (points)": beside.mean()})
    table["±"] = [interval(beside[name].tolist())[1] for name in table.index]
    return table.loc[kept.index].round(2)


def draw_sweep(found: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw kept rows and test score against a fixed ε, with a slider that reads one ε off.

    Args:
        found: as :func:`gnnqlab.simulation.cached_training.train_cached` returns it, caches of rule ``fixed``.
    """
    from plotly.subplots import make_subplots

    means = found.groupby("epsilon")[["kept", "score"]].mean() * 100
    figure = make_subplots(rows=1, cols=2, subplot_titles=["rows kept home", "test score"], horizontal_spacing=0.12)
    for column, name in enumerate(means, 1):
        ink = _INKS[name]
        figure.add_scatter(
            x=means.index.tolist(), y=means[name].tolist(), mode="lines+markers", line={"color": ink},
            showlegend=False, hovertemplate="ε = %{x}: %{y:.1f} %<extra></extra>", row=1, col=column,
        )  # fmt: skip
    for column, name in enumerate(means, 1):
        figure.add_scatter(
            x=[means.index[0]], y=[means[name].iloc[0]], mode="markers", showlegend=False,
            marker={"size": 16, "symbol": "circle-open", "color": OKABE_ITO["purple"], "line": {"width": 3}},
            hoverinfo="skip", row=1, col=column,
        )  # fmt: skip
    steps = [
        {
            "label": f"{epsilon:g}",
            "method": "restyle",
            "args": [{"x": [[epsilon], [epsilon]], "y": [[line["kept"]], [line["score"]]]}, [2, 3]],
        }
        for epsilon, line in means.iterrows()
    ]
    figure.update_layout(sliders=[{"steps": steps, "currentvalue": {"prefix": "ε = "}, "pad": {"t": 50}}])
    figure.update_xaxes(title_text="ε (no unit)")
    figure.update_yaxes(title_text="%", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="%", row=1, col=2)
    most, least = means["kept"].max(), means["kept"].min()
    caption = f"From ε = {means.index[0]:g} to {means.index[-1]:g} rows kept go from {least:.0f} to {most:.0f} %."
    finish(figure, title="A fixed threshold", caption=caption, dark=dark, height=420)
    figure.update_layout(margin={"b": 110})
    return Bundle(figure, means.round(1))


def draw_bound(found: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw the mean of ``||∇L||²`` and both readings of its bound (CDFGNN Theorem 1).

    Args:
        found: the ``frame`` of :func:`gnnqlab.theory.cache_error`.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for column, name, ink in (
        ("mean_square", "mean of ||∇L||²", OKABE_ITO["blue"]),
        ("bound", "bound, every term", OKABE_ITO["vermillion"]),
        ("printed", "bound as printed", OKABE_ITO["orange"]),
        ("error_square", "||Δ||² of the epoch", OKABE_ITO["grey"]),
    ):
        known = found[found[column] > _ROUNDING * found["mean_square"]]
        figure.add_scatter(
            x=known["epoch"].tolist(),
            y=known[column].tolist(),
            name=name,
            mode="lines",
            line={"color": ink, "width": 2},
        )
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="squared gradient (loss² a weight²)", type="log")
    held = bool((found["mean_square"] <= found["bound"]).all())
    caption = f"The bound with every term {'holds' if held else 'does not hold'} in all {len(found)} epochs."
    finish(figure, title="What the cache leaves in the gradient", caption=caption, dark=dark, height=420)
    return Bundle(figure, found)
