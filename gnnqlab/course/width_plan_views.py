"""Widths that follow a plan: what a row was sent in by epoch, what that sent in all, and what the loss did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.launch.run import Run

__all__ = ["draw_plan", "mean_width", "plan_table"]

_LOOKS = (
    (OKABE_ITO["vermillion"], "solid"), (OKABE_ITO["blue"], "dash"), (OKABE_ITO["green"], "dot"),
    (OKABE_ITO["grey"], "dashdot"), (OKABE_ITO["purple"], "longdash"), (OKABE_ITO["orange"], "solid"),
)  # fmt: skip


def mean_width(traffic: DataFrame) -> Series:
    """Return the mean bits of a row by epoch, over all messages of ``run.traffic``."""
    bits = (traffic["bits"] * traffic["rows"]).groupby(traffic["epoch"]).sum()
    mean = bits / traffic.groupby("epoch")["rows"].sum()
    return mean.rename("bits")


def plan_table(runs: Mapping[str, Run]) -> DataFrame:
    """Return a line a run: ``mean bits``, ``MB in all``, ``final loss`` and ``accuracy (%)``."""
    import pandas as pd

    lines = {}
    for label, run in runs.items():
        score = run.summary.get("test_accuracy", run.summary.get("test_f1_micro", float("nan")))
        sent = float(run.records[["bytes_payload", "bytes_params"]].sum().sum()) / 1e6
        lines[label] = (float(mean_width(run.traffic).mean()), sent, run.summary["final_loss"], 100 * float(score))
    columns = ["mean bits", "MB in all", "final loss", "accuracy (%)"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("run")


def draw_plan(
    records: Mapping[str, DataFrame],
    traffic: Mapping[str, DataFrame],
    *,
    title: str = "Widths by a plan, and fixed ones",
    dark: bool = False,
) -> Bundle:
    """Draw a line a run: mean width of a row and loss by epoch, and the loss by what has been sent so far.

    Of runs in fixed widths the last panel is SYLVIE Fig. 6(b), loss by bytes; 6(a), by time, is the convergence by time
    of ``gq.compare``.

    Args:
        records: ``run.records`` by label.
        traffic: ``run.traffic`` by label.
        title: of the figure.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no run, or one without traffic.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    if not records or set(records) != set(traffic):
        raise ValueError(f"records and traffic of the same runs are needed, got {list(records)} and {list(traffic)}")
    figure = make_subplots(rows=1, cols=3, horizontal_spacing=0.13)
    table = {}
    for (label, frame), (color, dash) in zip(records.items(), _LOOKS * len(records)):
        width, loss = mean_width(traffic[label]), by_epoch(frame).set_index("epoch")["loss"]
        sent = frame.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1).cumsum() / 1e6
        table[label] = {"mean bits": width.mean(), "MB in all": sent.iloc[-1], "final loss": loss.iloc[-1]}
        for column, (x, y, shape) in enumerate(
            ((width.index, width, "hv"), (loss.index, loss, "linear"), (sent, loss, "linear")), 1
        ):
            figure.add_scatter(
                x=x.tolist(),
                y=y.tolist(),
                mode="lines",
                name=label,
                legendgroup=label,
                showlegend=column == 1,
                line={"color": color, "dash": dash, "width": 2, "shape": shape},
                hovertemplate=f"{label}: %{{y:.3g}} at %{{x:.3g}}<extra></extra>",
                row=1,
                col=column,
            )
    widths = [1, 2, 4, 8, 16, 32]
    figure.update_yaxes(title_text="mean bits of a row", type="log", tickvals=widths, range=[-0.1, 1.6], row=1, col=1)
    figure.update_yaxes(title_text="training loss", type="log", row=1, col=2)
    figure.update_yaxes(type="log", row=1, col=3)
    for column, words in enumerate(("epoch", "epoch", "sent so far (MB)"), start=1):
        figure.update_xaxes(title_text=words, row=1, col=column)
    words = "; ".join(
        f"{label}: {human_bits(line['mean bits'])}, {line['MB in all']:.3g} MB, loss {line['final loss']:.3g}"
        for label, line in table.items()
    )
    caption = f"Mean bits of a row, bytes in all and the loss at the end: {words}."
    finish(figure, title=title, caption=caption, dark=dark, height=370)
    figure.update_layout(legend={"y": -0.22, "yanchor": "top"}, margin={"t": 50, "b": 90})
    return Bundle(figure, pd.DataFrame.from_dict(table, orient="index").rename_axis("run"))
