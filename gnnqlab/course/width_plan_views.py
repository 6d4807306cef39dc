"""Widths that follow a plan: what a row was sent in by epoch, what that sent in all, and what the loss did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, panels
from gnnqlab.lab.figures.frames import by_epoch

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.run.run import Run

__all__ = ["draw_plan", "mean_width", "plan_table"]

_STYLES = ("vermillion", "blue dash", "green dot", "grey dashdot", "purple longdash", "orange")


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

    if not records or set(records) != set(traffic):
        raise ValueError(f"records and traffic of the same runs are needed, got {list(records)} and {list(traffic)}")
    table, epochs = {}, {}
    for label, frame in records.items():
        width, loss = mean_width(traffic[label]), by_epoch(frame).set_index("epoch")["loss"]
        sent = frame.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1).cumsum() / 1e6
        table[label] = {"mean bits": width.mean(), "MB in all": sent.iloc[-1], "final loss": loss.iloc[-1]}
        epochs[label] = pd.DataFrame({"bits": width, "loss": loss, "sent": sent})
    rows = pd.concat(epochs, names=["run", "epoch"]).reset_index()
    widths = {"title_text": "mean bits of a row", "tickvals": [1, 2, 4, 8, 16, 32], "range": [-0.1, 1.6]}
    charts = [
        lines(
            rows.dropna(subset=[x, y]), x=x, y=y, by="run", styles=_STYLES, mode="lines", shape=shape, log="y",
            x_axis=along, y_axis=up,
        )
        for x, y, shape, along, up in (
            ("epoch", "bits", "hv", "epoch", widths),
            ("epoch", "loss", "linear", "epoch", "training loss"),
            ("sent", "loss", "linear", "sent so far (MB)", "training loss"),
        )
    ]  # fmt: skip
    words = "; ".join(
        f"{label}: {human_bits(line['mean bits'])}, {line['MB in all']:.3g} MB, loss {line['final loss']:.3g}"
        for label, line in table.items()
    )
    caption = f"Mean bits of a row, bytes in all and the loss at the end: {words}."
    figure = panels(charts, gap=0.13, title=title, caption=caption, dark=dark, height=370, legend_below=True)
    return Bundle(figure, pd.DataFrame.from_dict(table, orient="index").rename_axis("run"))
