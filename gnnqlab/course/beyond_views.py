"""Scaling beyond one machine: the cost of a cut, predicted and measured epochs, and the parts of an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines, panels, scatter
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.lab.figures.theme import Style, style_of
from gnnqlab.train.link import parse_link
from gnnqlab.tune.timing import read_epoch_time

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.launch import Run

__all__ = [
    "compare_with_measured",
    "extrapolate_epochs",
    "draw_cut_costs",
    "draw_epochs",
    "draw_gain",
    "draw_parts",
    "gains",
]
__getattr__ = former_functions(
    __name__,
    {
        "beside_measured": "compare_with_measured",
        "beyond_counted": "extrapolate_epochs",
        "draw_counted": "draw_cut_costs",
    },
)

QUARTILE = 0.25
"""Quantile of the epochs' seconds: other load on a machine lengthens epochs and never shortens them."""
# Column -> factor from the column's unit to the axis, title of the axis, settings of the axis.
_PANELS: dict[str, tuple[float, str, dict[str, Any]]] = {
    "halo_share": (1.0, "halo rows per node", {"zero": "y"}),
    "central_share": (100.0, "edges of central nodes (%)", {"zero": "y"}),
    "held_rows": (1.0, "rows of the largest worker", {"log": "y"}),
}
# Column of `at_scale` in seconds -> name in the legend and its style.
_PARTS = {
    "computing_s": ("computing", "green"),
    "coding_s": ("encode and decode", "purple x"),
    "wire_s": ("exposed communication", "vermillion"),
    "uneven_s": ("wait for the largest part", "sky ."),
    "reduce_s": ("gradient all-reduce", "orange"),
}
# One style per number of workers.
_LINKS = ("grey solid circle", "sky dash square", "blue dot diamond", "vermillion dashdot triangle-up")


def draw_cut_costs(tables: Mapping[str, DataFrame], *, dark: bool = False) -> FigureData:
    """Draw halo rows per node, edges of central nodes, and rows of the largest worker, over the number of workers.

    Args:
        tables: graph -> result of :func:`gnnqlab.tune.cut_counts.count_by_workers`, two at most.

    Raises:
        ValueError: if there is no graph, or more than two.
    """
    import pandas as pd

    if not 1 <= len(tables) <= 2:
        raise ValueError(f"one or 2 graphs can be drawn, got {len(tables)}")
    table = pd.concat(tables, names=["graph", "workers"])  # index (graph, workers), one column per quantity
    rows = table.reset_index()
    ticks = {"title_text": "workers P", **value_ticks(rows["workers"], most=6)}
    charts = [
        lines(
            # column in the unit of the axis
            rows.assign(**{name: times * rows[name]}), x="workers", y=name, by="graph", x_axis=ticks, y_axis=title,
            **axes,
        )
        for name, (times, title, axes) in _PANELS.items()
    ]  # fmt: skip
    words = "; ".join(
        f"{graph} at {table.index[-1]}: {table['halo_share'].iloc[-1]:.2f} halo rows per node, "
        f"{100 * table['central_share'].iloc[-1]:.1f} % of the edges end at central nodes"
        for graph, table in tables.items()
    )
    title = "Cost of a cut into P parts, counted"
    return FigureData(panels(charts, gap=0.09, title=title, caption=f"{words}.", dark=dark, height=380), table)


def compare_with_measured(found: DataFrame, runs: Mapping[tuple[str, int], Run]) -> DataFrame:
    """Compare predicted epochs and bytes with those of finished runs.

    Args:
        found: result of :func:`gnnqlab.tune.at_scale.at_scale`.
        runs: ``(system, workers)`` -> its run.

    Returns:
        One row per run: ``predicted_ms, measured_ms`` (lower quartile of the epochs), ``error_percent`` (predicted over
        measured, less 1), ``predicted_bytes, sent_bytes`` (last epoch, sum over workers).
    """
    import pandas as pd

    # Predictions by (system, workers), the keys of the runs.
    predictions, rows = found.set_index(["system", "workers"]), {}
    for key, run in runs.items():
        # Records of the last epoch, one row per worker.
        last_records = run.records[run.records["epoch"] == run.records["epoch"].max()]
        # seconds -> ms
        predicted_ms, measured_ms = (
            1e3 * predictions.loc[key, "epoch_s"],
            1e3 * read_epoch_time(run, quantile=QUARTILE).epoch_s,
        )
        rows[key] = {
            "predicted_ms": predicted_ms,
            "measured_ms": measured_ms,
            "error_percent": 100 * (predicted_ms / measured_ms - 1),
            "predicted_bytes": round(predictions.loc[key, "bytes"]),
            "sent_bytes": int((last_records["bytes_payload"] + last_records["bytes_params"]).sum()),  # sum over workers
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["system", "workers"])


def draw_epochs(
    found: DataFrame, measured: DataFrame | None = None, *, title: str, per: str = "", dark: bool = False
) -> FigureData:
    """Draw predicted epochs over the number of workers, both axes logarithmic, measured ones as open markers.

    Args:
        found: result of :func:`gnnqlab.tune.at_scale.at_scale`.
        measured: result of :func:`compare_with_measured`.
        title: title of the figure.
        per: text appended to the label of the workers' axis.

    Raises:
        ValueError: if there is no row.
    """
    if found.empty:
        raise ValueError("an epoch at least is needed, got none; see gnnqlab.tune.at_scale")
    # The caption names the largest cluster only, where systems differ most.
    largest_cluster = found[found["workers"] == found["workers"].max()]
    words = ", ".join(
        f"{name} {1e3 * seconds:.3g} ms" for name, seconds in zip(largest_cluster["system"], largest_cluster["epoch_s"])
    )
    caption, figure = f"Predicted at {found['workers'].max()} workers: {words}.", None
    if measured is not None:
        sizes = measured["error_percent"].abs()
        caption += (
            f" Open markers are measured; predictions are off by {sizes.median():.0f} % (median), {sizes.max():.0f} % "
            "(worst)."
        )
        # Open markers of measured epochs are drawn first; the predicted lines are added to the same figure.
        measured_rows = measured.reset_index()
        figure = scatter(
            measured_rows[measured_rows["system"].isin(found["system"])],
            x="workers",
            y="measured_ms",
            by="system",
            names="{}, measured",
            styles=_open,
            size=15,
            log="y",  # values that span decades, and the axis is shared with the lines
        )
    figure = lines(
        found.assign(ms=1e3 * found["epoch_s"]),
        x="workers",
        y="ms",
        by="system",
        styles=style_of,
        figure=figure,
        x_axis={"title_text": f"workers P{per}", **value_ticks(found["workers"], most=6)},
        y_axis="epoch (ms)",
        log="y",
        title=title,
        caption=caption,
        dark=dark,
        height=420,
        legend_rows=1 if measured is None else 2,
    )
    return FigureData(figure, found if measured is None else measured)


def _open(name: str) -> Style:
    # A measured series has the style of its system, with an open marker.
    style = style_of(name.removesuffix(", measured"))
    return replace(style, symbol=f"{style.symbol}-open")


def draw_parts(found: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw the parts of an epoch, in percent, over the number of workers: one panel per system.

    Raises:
        ValueError: if there is no system, or more than four.
    """
    names = list(found["system"].unique())
    if not 1 <= len(names) <= 4:
        raise ValueError(f"between 1 and 4 systems can be drawn, got {len(names)}")
    table = found.set_index(["system", "workers"])[list(_PARTS)]  # seconds, (system, workers) x parts
    shares = 100 * table.div(table.sum(axis=1), axis=0)  # seconds -> percent of their sum
    share_axis = {"title_text": "share of an epoch (%)", "range": [0, 100]}
    charts = {
        name: bars(
            shares.xs(name, level="system"), y=_PARTS, stacked=True, x_axis="workers P", y_axis=share_axis
        )  # one panel per system, one stacked bar per number of workers
        for name in names
    }  # fmt: skip
    max_workers = shares.index.get_level_values("workers").max()
    words = "; ".join(
        f"{name} {shares.loc[(name, max_workers), 'wire_s']:.0f} % exposed communication, "
        f"{shares.loc[(name, max_workers), 'reduce_s']:.0f} % gradient all-reduce"
        for name in names
    )
    figure = panels(
        charts,
        share_y=True,
        gap=0.04,
        title="Parts of an epoch",
        caption=f"At {max_workers} workers: {words}.",
        dark=dark,
        height=430,
        legend_rows=3,
    )
    return FigureData(figure, shares.round(2))


def gains(by_link: Mapping[str, DataFrame], *, over: str = "vanilla") -> DataFrame:
    """Return the speed-up of each system's epoch relative to a baseline, by link and number of workers.

    Args:
        by_link: name of a link -> result of :func:`gnnqlab.tune.at_scale.at_scale` over it.
        over: the baseline system.

    Returns:
        ``bits_per_s, link, system, workers, gain``.

    Raises:
        ValueError: if the baseline is missing from a table.
    """
    import pandas as pd

    rows = []
    for link, frame in by_link.items():
        if over not in set(frame["system"]):
            raise ValueError(f"over must be one of {sorted(frame['system'].unique())}, got {over!r}")
        # baseline epoch in seconds, by number of workers
        baseline_s: Series[Any] = frame[frame["system"] == over].set_index("workers")["epoch_s"]
        for row in frame[frame["system"] != over].to_dict("records"):
            # ratio of the epochs at the same number of workers and over the same link
            gain = baseline_s[row["workers"]] / row["epoch_s"]
            facts = {name: row[name] for name in ("system", "workers")}
            rows.append({"bits_per_s": parse_link(link), "link": link, **facts, "gain": gain})
    return pd.DataFrame(rows)


def draw_gain(table: DataFrame, *, system: str, dark: bool = False) -> FigureData:
    """Draw the speed-up of a system over the rate of the links, one line per number of workers.

    Args:
        table: result of :func:`gains`.
        system: name of the system.

    Raises:
        ValueError: if the table has no row of it, or more numbers of workers than line styles.
    """
    system_rows = table[table["system"] == system].sort_values(["workers", "bits_per_s"])
    counts = system_rows["workers"].unique()
    if not 1 <= len(counts) <= len(_LINKS):
        raise ValueError(f"{system} must have 1 to {len(_LINKS)} numbers of workers to be drawn, got {len(counts)}")
    links = system_rows.drop_duplicates("bits_per_s").sort_values("bits_per_s")  # one tick per link, at its rate
    ticks = {"tickvals": links["bits_per_s"].tolist(), "ticktext": links["link"].tolist()}
    figure = lines(
        system_rows,
        x="bits_per_s",
        y="gain",
        by="workers",
        names="{} workers",
        styles=_LINKS,
        details="link",
        levels={"": 1.0},
        x_axis={"title_text": "link of a host (bits per second)", **ticks},
        y_axis={"title_text": "speed-up over Vanilla (×)", **_factors(system_rows["gain"])},
        log="xy",
        title=f"Link rate at which {system} stops helping",
        dark=dark,
        height=420,
    )
    return FigureData(figure, system_rows)


def extrapolate_epochs(
    found: DataFrame, *, workers: int, gradient_bytes: float, bytes_per_s: float, latency_s: float
) -> DataFrame:
    """Extrapolate epochs to more workers than were counted (weak scaling: constant work per worker).

    Only the gradient all-reduce grows, ``2 (P - 1) / P · G / B + 2 (P - 1) · latency`` in a ring.

    Args:
        found: result of :func:`gnnqlab.tune.at_scale.at_scale`, with a graph that grows with P.
        workers: P.
        gradient_bytes: G.
        bytes_per_s: bandwidth B of a host's link.
        latency_s: latency of one message.

    Example:
        >>> import pandas as pd
        >>> seen = pd.DataFrame({"system": ["any"], "workers": 64, "epoch_s": 1.0, "reduce_s": 0.25})
        >>> more = {"gradient_bytes": 1e6, "bytes_per_s": 1e9, "latency_s": 1e-5}
        >>> table = extrapolate_epochs(seen, workers=10_000, **more)
        >>> table.loc["any"].round(3).tolist()
        [0.75, 0.202, 0.952, 21.2]
    """
    # largest counted cluster; its time per worker is assumed to stay
    largest_cluster = found[found["workers"] == found["workers"].max()].set_index("system")
    # Ring all-reduce: reduce-scatter and all-gather of P - 1 steps each; a step sends 1 / P of the gradient.
    reduce = 2 * (workers - 1) * (gradient_bytes / workers / bytes_per_s + latency_s)
    table = (largest_cluster["epoch_s"] - largest_cluster["reduce_s"]).rename("all_but_reduce_s").to_frame()
    table["reduce_s"] = reduce
    table["epoch_s"] = table["all_but_reduce_s"] + reduce
    table["reduce_percent"] = (100 * reduce / table["epoch_s"]).round(1)
    return table


def _factors(values: Series[Any]) -> dict[str, Any]:
    # Ticks slightly beyond the data, so that an axis of a narrow range has at least two of them.
    ticks = [
        number for number in (0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15) if values.min() / 1.6 < number < values.max() * 1.6
    ]
    return {"tickvals": ticks, "ticktext": [f"{number:g}" for number in ticks]}
