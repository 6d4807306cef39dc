"""Effect of rounding by exchange point: rows before and after, the cost of each point, one point sent in float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.experiments.rounding_cost import EVERYTHING, NOTHING, spread
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels, scatter
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.course.experiments.rounded_rows import RoundedRows
    from gnnqlab.run.run import Run

__all__ = ["draw_gains", "draw_rows", "draw_since", "draw_variance", "price_table", "shares"]

_BLUE_TO_RED = [[0.0, OKABE_ITO["blue"]], [0.5, "#f7f7f7"], [1.0, OKABE_ITO["vermillion"]]]
"""Colours from negative to positive; zero is white, on dark pages too."""
# One style per epoch, and one per run.
_EPOCHS = ("blue circle", "orange square", "vermillion diamond", "green triangle-up")
_RUNS = ("blue dash", "vermillion solid", "grey dot", "green dashdot")


def draw_rows(message: RoundedRows, *, rows: int = 12, columns: int = 32, dark: bool = False) -> FigureData:
    """Draw the first rows of a message at a point: as sent, as decoded, and the error.

    Args:
        message: result of :func:`gnnqlab.course.experiments.rounded_rows.rounded_rows`.
        rows, columns: largest number to draw.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    block = slice(0, rows), slice(0, columns)
    # root mean square, the unit of all three heat maps; 1 for a row of zeros
    scale = float(message.before.square().mean().sqrt()) or 1.0
    panels = {"as sent": message.before, "as decoded": message.after, "error": message.error}
    # one shared colour scale, so that the error is comparable with the values
    figure = make_subplots(rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.03, subplot_titles=list(panels))
    names = [str(node) for node in message.nodes[block[0]].tolist()]
    for column, tensor in enumerate(panels.values(), start=1):
        figure.add_heatmap(
            z=_short(tensor[block] / scale),
            y=names,
            coloraxis="coloraxis",
            hovertemplate="node %{y}, column %{x}: %{z:.2f}<extra></extra>",
            row=1,
            col=column,
        )
    limit = min(3.0, float(message.before[block].abs().max()) / scale) or 1.0  # clipped at three root mean squares
    bar = {"title": {"text": "root mean<br>squares"}, "thickness": 12}
    figure.update_layout(coloraxis={"colorscale": _BLUE_TO_RED, "cmin": -limit, "cmax": limit, "colorbar": bar})
    figure.update_xaxes(title_text="column", title_standoff=4, nticks=5)
    figure.update_yaxes(type="category", autorange="reversed")
    figure.update_yaxes(title_text="node", col=1)
    error_percent, bits = 100 * message.squared**0.5, message.bits.unique().tolist()
    widths = " and ".join(human_bits(width) for width in sorted(bits))
    caption = (
        f"{message.point}, epoch {message.epoch}, worker {message.sender} to worker {message.receiver}: "
        f"{len(message.nodes)} rows in {widths} arrive with a relative error of {error_percent:.3g} %."
    )
    finish(figure, title=f"Rows at {message.point} in epoch {message.epoch}", caption=caption, dark=dark, height=380)
    lengths = {name: tensor[block[0]].norm(dim=1).tolist() for name, tensor in panels.items()}  # norm of each drawn row
    return FigureData(figure, pd.DataFrame(lengths, index=pd.Index(names, name="node")).round(5))


def shares(frame: DataFrame, epoch: int) -> DataFrame:
    """Return each point's percentage of the variance of all points: mean and half the 95 % interval over seeds.

    Args:
        frame: result of :func:`gnnqlab.course.experiments.rounding_cost.gradient_by_point`.
        epoch: an epoch of the frame.

    Example:
        >>> import pandas as pd
        >>> lines = [(5, 0, "forward 0", 0.3), (5, 0, "backward 0", 0.1), (5, 0, "everything", 0.4)]
        >>> shares(pd.DataFrame(lines, columns=["epoch", "seed", "point", "relative"]), 5)["mean"].round().tolist()
        [75.0, 25.0]
    """
    # points alone, without the row of all together
    singles = frame[(frame["epoch"] == epoch) & (frame["point"] != EVERYTHING)]
    total = singles.groupby("seed")["relative"].transform("sum")  # sum over the points of one seed
    return spread(singles.assign(share=100 * singles["relative"] / total), "point", "share")  # percent; paired by seed


def draw_variance(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw the share of the gradient's variance caused by each point alone, by epoch, with intervals over seeds.

    Args:
        frame: result of :func:`gnnqlab.course.experiments.rounding_cost.gradient_by_point`.
    """
    import pandas as pd

    tables = {epoch: shares(frame, epoch) for epoch in frame["epoch"].unique().tolist()[: len(_EPOCHS)]}
    words = "; ".join(
        f"after {epoch} epochs {table['mean'].idxmax()} with {table['mean'].max():.0f} ± "
        f"{table.loc[table['mean'].idxmax(), 'half']:.0f} %"
        for epoch, table in tables.items()
    )
    share_table = pd.concat(tables, names=["epoch", "point"])
    figure = scatter(
        share_table.map(_rounded).reset_index(),
        x="point",
        y="mean",
        by="epoch",
        names="after {} epochs",
        styles=_EPOCHS,
        size=10,
        error="half",
        x_axis="the only quantized point",
        zero="y",
        dark=dark,
        height=400,
        y_axis="share of the gradient's variance (%)",
        title="Variance of the gradient by point",
        caption=f"The largest share of the variance: {words} (95 % intervals of {frame['seed'].nunique()} seeds).",
    )
    figure.update_layout(scattermode="group", scattergap=0.6)
    # variance over squared gradient, all points quantized
    relative_variance = frame[frame["point"] == EVERYTHING].groupby("epoch")["relative"].mean()
    lines = share_table.rename(columns={"mean": "share (%)", "half": "±"}).round(1)
    lines["variance / squared gradient"] = [relative_variance[epoch] for epoch, _ in lines.index]
    return FigureData(figure, lines)


def draw_gains(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw the decrease of the final loss when one point is sent in float32, with each seed's value and intervals.

    Args:
        frame: result of :func:`gnnqlab.course.experiments.rounding_cost.loss_by_point`.
    """
    point_rows = frame[frame["exact"] != NOTHING]  # one training per seed and point in float32
    table = spread(point_rows, "exact", "gained")
    rounded_loss = spread(frame, "exact", "loss")["mean"][NOTHING]  # mean final loss with every point quantized
    words = "; ".join(f"{name} {1e3 * line['mean']:.2f} ± {1e3 * line['half']:.2f}" for name, line in table.iterrows())
    figure = scatter(
        point_rows.assign(gained=(1e3 * point_rows["gained"]).map(_rounded)),  # thousandths of the loss
        x="exact",
        y={"gained": ("each seed", "sky x-thin-open")},
        size=9,
    )
    scatter(
        (1e3 * table).map(_rounded),
        y={"mean": ("mean, 95 % interval", "vermillion")},
        size=10,
        error="half",
        levels={"": 0.0},
        x_axis={"title_text": "point sent in float32", "range": [-0.5, len(table) - 0.5]},
        figure=figure,
        y_axis="decrease of the loss (thousandths)",
        title="Gain from one point in float32",
        dark=dark,
        height=400,
        caption=f"Decrease of the final loss ({rounded_loss:.4f} with every point quantized), in thousandths: {words}.",
    )
    gain_table = (1e3 * table).rename(columns={"mean": "gained (thousandths)", "half": "±"}).round(2)
    return FigureData(figure, gain_table)


def draw_since(runs: Mapping[str, Run], since: int, *, beside: str, dark: bool = False) -> FigureData:
    """Draw each run's loss relative to a baseline run, and the bytes that it sends, by epoch.

    Args:
        runs: label -> run, at most four.
        since: first epoch in which a point is sent in float32; it is marked.
        beside: label of the baseline run.

    Raises:
        ValueError: if no run has that label.
    """
    import pandas as pd

    if beside not in runs:
        raise ValueError(f"the baseline must be one of the runs, {list(runs)}, got {beside!r}")
    # (epochs, runs)
    losses = pd.DataFrame({label: by_epoch(run.records).set_index("epoch")["loss"] for label, run in runs.items()})
    excess = 100 * (losses.div(losses[beside], axis=0) - 1)  # percent above the baseline's loss of the same epoch
    sent_kilobytes = pd.DataFrame({
        # all workers, bytes -> kB
        label: run.records.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1) / 1e3
        for label, run in runs.items()
    })  # fmt: skip
    summary = {
        label: (excess.loc[excess.index < since, label].mean(), excess.loc[excess.index >= since, label].mean(),
                sent_kilobytes[label].iloc[0], sent_kilobytes[label].iloc[-1])
        for label in runs
    }  # fmt: skip
    words = "; ".join(
        f"{label} {f'{mean_before:.2g} % before, ' if since else ''}{mean_after:.2g} % after, {last_kilobytes:.4g} kB"
        for label, (mean_before, mean_after, _, last_kilobytes) in summary.items()
        if label != beside
    )
    caption = (
        f"Loss above that of {beside}, mean before and after epoch {since}; bytes sent in the last epoch: {words}."
    )
    styles = dict(zip(runs, _RUNS))
    left = lines(
        excess.map(_rounded),
        y=[label for label in runs if label != beside],
        styles=styles,
        mode="lines",
        levels={"": 0.0},
        x_axis="epoch",
        y_axis=f"loss above that of {beside} (%)",
    )
    right = lines(
        sent_kilobytes.map(_rounded),
        y=list(runs),
        styles=styles,
        mode="lines",
        x_axis="epoch",
        y_axis="sent per epoch (kB)",
        zero="y",
    )
    for chart in (left, right):
        chart.add_vline(x=since, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1})  # first epoch in float32
    figure = panels(
        [left, right],
        gap=0.13,
        title=f"Float32 from epoch {since} on",
        caption=caption,
        dark=dark,
        height=380,
        legend_below=True,
    )
    columns = ["above before (%)", "above after (%)", "kB at first", "kB at last"]
    return FigureData(
        figure, pd.DataFrame.from_dict(summary, orient="index", columns=columns).rename_axis("run").round(2)
    )


def price_table(gradient: DataFrame, sent: DataFrame, epoch: int) -> DataFrame:
    """Return the share of the variance that each point removes when sent in float32, and the bytes that this costs.

    Args:
        gradient: result of :func:`gnnqlab.course.experiments.rounding_cost.gradient_by_point`.
        sent: result of :func:`gnnqlab.course.experiments.rounding_cost.bytes_by_point`.
        epoch: epoch of the variance.
    """
    table = shares(gradient, epoch)
    extra = sent["kB exact"] - sent["kB in codes"]  # kB per epoch that float32 adds at this point
    prices = table.rename(columns={"mean": "variance (%)", "half": "±"}).join(extra.rename("kB more an epoch"))
    return prices.assign(**{"bytes of an epoch (times)": sent["times"]}).round(1)


def _short(tensor: Tensor) -> list[Any]:
    return [[float(f"{value:.3g}") for value in row] for row in tensor.tolist()]  # three digits keep the page small


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
