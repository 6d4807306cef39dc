"""More workers than one machine has: what cuts cost, predicted epochs beside measured ones, and where they go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.log_ticks import log_ticks, power_texts
from gnnqlab.lab.figures.theme import OKABE_ITO, finish, hatched, style_of
from gnnqlab.tune.timing import spent

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.launch import Run

__all__ = ["beside_measured", "beyond_counted", "draw_counted", "draw_epochs", "draw_gain", "draw_parts", "gains"]

QUARTILE = 0.25
"""Of the epochs: what else runs on a machine lengthens epochs and shortens none."""
_GRAPHS = ((OKABE_ITO["blue"], "solid", "circle"), (OKABE_ITO["vermillion"], "dash", "square"))
_PARTS = (
    ("computing_s", "computing", OKABE_ITO["green"], ""),
    ("coding_s", "encode and decode", OKABE_ITO["purple"], "x"),
    ("wire_s", "rows on the wire, not hidden", OKABE_ITO["vermillion"], ""),
    ("uneven_s", "waiting for the largest part", OKABE_ITO["sky"], "."),
    ("reduce_s", "sum of gradients", OKABE_ITO["orange"], ""),
)
_LINKS = (
    (OKABE_ITO["grey"], "solid", "circle"),
    (OKABE_ITO["sky"], "dash", "square"),
    (OKABE_ITO["blue"], "dot", "diamond"),
    (OKABE_ITO["vermillion"], "dashdot", "triangle-up"),
)


def draw_counted(tables: Mapping[str, DataFrame], *, dark: bool = False) -> Bundle:
    """Draw halo rows a node, edges that need no other worker, and rows that a worker holds, against workers.

    Args:
        tables: graph -> of :func:`gnnqlab.tune.cut_counts.counted_by_workers`, two at most.

    Raises:
        ValueError: if there is no graph, or more than lines that can be told apart.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    if not 1 <= len(tables) <= len(_GRAPHS):
        raise ValueError(f"one or {len(_GRAPHS)} graphs can be drawn, got {len(tables)}")
    figure = make_subplots(cols=3, horizontal_spacing=0.09)
    panels = (
        ("halo_share", 1.0, "halo rows a node", "%{y:.2f} a node"),
        ("central_share", 100.0, "edges that wait for none (%)", "%{y:.1f} %"),
        ("held_rows", 1.0, "rows held by the largest", "%{y:,} rows"),
    )
    for column, (name, times, title, words) in enumerate(panels, start=1):
        for (graph, table), (color, dash, symbol) in zip(tables.items(), _GRAPHS):
            figure.add_scatter(
                x=table.index.tolist(),
                y=(times * table[name]).tolist(),
                name=graph,
                legendgroup=graph,
                showlegend=column == 1,
                mode="lines+markers",
                line={"color": color, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": 8},
                hovertemplate=f"{graph}, %{{x}} workers: {words}<extra></extra>",
                row=1,
                col=column,
            )
        figure.update_yaxes(title_text=title, col=column)
    figure.update_yaxes(rangemode="tozero", col=1)
    figure.update_yaxes(rangemode="tozero", col=2)
    figure.update_yaxes(type="log", col=3)
    figure.update_xaxes(title_text="workers P", **_counts(table.index for table in tables.values()))
    told = "; ".join(
        f"{graph} at {table.index[-1]}: {table['halo_share'].iloc[-1]:.2f} halo rows a node, "
        f"{100 * table['central_share'].iloc[-1]:.1f} % of the edges wait for nobody"
        for graph, table in tables.items()
    )
    finish(figure, title="What a cut into P parts costs, counted", caption=f"{told}.", dark=dark, height=380)
    return Bundle(figure, pd.concat(tables, names=["graph"]))


def beside_measured(found: DataFrame, runs: Mapping[tuple[str, int], Run]) -> DataFrame:
    """Return predicted epochs and bytes beside those of finished runs.

    Args:
        found: of :func:`gnnqlab.tune.at_scale.at_scale`.
        runs: ``(system, workers)`` -> its run.

    Returns:
        A row a run: ``predicted_ms, measured_ms`` (lower quartile of the epochs), ``error_percent`` (predicted over
        measured, less 1), ``predicted_bytes, sent_bytes`` (last epoch, by all workers).
    """
    import pandas as pd

    said, rows = found.set_index(["system", "workers"]), {}
    for place, run in runs.items():
        last = run.records[run.records["epoch"] == run.records["epoch"].max()]
        predicted, measured = 1e3 * said.loc[place, "epoch_s"], 1e3 * spent(run, quantile=QUARTILE).epoch_s
        rows[place] = {
            "predicted_ms": predicted,
            "measured_ms": measured,
            "error_percent": 100 * (predicted / measured - 1),
            "predicted_bytes": round(said.loc[place, "bytes"]),
            "sent_bytes": int((last["bytes_payload"] + last["bytes_params"]).sum()),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["system", "workers"])


def draw_epochs(
    found: DataFrame, measured: DataFrame | None = None, *, title: str, per: str = "", dark: bool = False
) -> Bundle:
    """Draw predicted epochs against the number of workers, both axes logarithmic, measured ones as open marks.

    Args:
        found: of :func:`gnnqlab.tune.at_scale.at_scale`.
        measured: of :func:`beside_measured`.
        title: of the figure.
        per: what is said of the axis of workers.

    Raises:
        ValueError: if there is no row.
    """
    import plotly.graph_objects as go

    if found.empty:
        raise ValueError("an epoch at least is needed, got none; see gnnqlab.tune.at_scale")
    figure = go.Figure()
    for name, line in found.groupby("system", sort=False):
        style = style_of(str(name))
        figure.add_scatter(
            x=line["workers"].tolist(),
            y=(1e3 * line["epoch_s"]).tolist(),
            name=str(name),
            legendgroup=str(name),
            mode="lines+markers",
            line={"color": style.color, "dash": style.dash, "width": 2},
            marker={"symbol": style.symbol, "size": 8},
            hovertemplate=f"{name}, %{{x}} workers: %{{y:.3g}} ms predicted<extra></extra>",
        )
        if measured is not None and name in measured.index.get_level_values("system"):
            seen = measured.xs(name, level="system")
            figure.add_scatter(
                x=seen.index.tolist(),
                y=seen["measured_ms"].tolist(),
                name=f"{name}, measured",
                legendgroup=str(name),
                mode="markers",
                marker={
                    "symbol": f"{style.symbol}-open",
                    "size": 15,
                    "color": style.color,
                    "line": {"width": 2},
                },
                hovertemplate=f"{name}, %{{x}} workers: %{{y:.3g}} ms measured<extra></extra>",
            )
    figure.update_xaxes(title_text=f"workers P{per}", **_counts([found["workers"]]))
    drawn = [value for trace in figure.data for value in trace.y]
    ticks = log_ticks(min(drawn), max(drawn))
    texts = {"tickvals": ticks, "ticktext": power_texts(ticks)}
    figure.update_yaxes(title_text="an epoch (ms)", type="log", **texts)
    most = found[found["workers"] == found["workers"].max()]
    told = ", ".join(f"{name} {1e3 * took:.3g} ms" for name, took in zip(most["system"], most["epoch_s"]))
    caption = f"Predicted at {found['workers'].max()} workers: {told}."
    if measured is not None:
        sizes = measured["error_percent"].abs()
        caption += (
            f" Open marks are measured; predictions are off by {sizes.median():.0f} % (median), {sizes.max():.0f} % "
            "(worst)."
        )
    rows = 1 if measured is None else 2
    finish(figure, title=title, caption=caption, dark=dark, height=420, legend_rows=rows)
    return Bundle(figure, found if measured is None else measured)


def draw_parts(found: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw what an epoch goes to, in percent, against the number of workers: a panel a system.

    Raises:
        ValueError: if there is no system, or more than four.
    """
    from plotly.subplots import make_subplots

    names = list(found["system"].unique())
    if not 1 <= len(names) <= 4:
        raise ValueError(f"between 1 and 4 systems can be drawn, got {len(names)}")
    figure = make_subplots(cols=len(names), shared_yaxes=True, horizontal_spacing=0.04, subplot_titles=names)
    table = found.set_index(["system", "workers"])[[part for part, *_ in _PARTS]]
    shares = 100 * table.div(table.sum(axis=1), axis=0)
    for column, name in enumerate(names, start=1):
        mine = shares.xs(name, level="system")
        for part, label, color, shape in _PARTS:
            figure.add_bar(
                x=[str(count) for count in mine.index],
                y=mine[part].tolist(),
                name=label,
                legendgroup=label,
                showlegend=column == 1,
                marker=hatched(color, shape),
                hovertemplate=f"{name}, %{{x}} workers, {label}: %{{y:.1f}} %<extra></extra>",
                row=1,
                col=column,
            )
    figure.update_layout(barmode="stack", bargap=0.15)
    figure.update_xaxes(title_text="workers P", type="category")
    figure.update_yaxes(range=[0, 100])
    figure.update_yaxes(title_text="of an epoch (%)", col=1)
    most = shares.index.get_level_values("workers").max()
    told = "; ".join(
        f"{name} {shares.loc[(name, most), 'wire_s']:.0f} % wire, {shares.loc[(name, most), 'reduce_s']:.0f} % sum "
        "of gradients"
        for name in names
    )
    caption = f"At {most} workers: {told}."
    finish(figure, title="What an epoch goes to", caption=caption, dark=dark, height=430, legend_rows=3)
    figure.update_annotations(font={"size": 13})
    figure.update_layout(legend={"y": 1.08})
    return Bundle(figure, shares.round(2))


def gains(by_link: Mapping[str, DataFrame], *, over: str = "vanilla") -> DataFrame:
    """Return by what factor each system's epoch is shorter than another's, over link and workers.

    Args:
        by_link: a link's name -> of :func:`gnnqlab.tune.at_scale.at_scale` over it.
        over: the system that the others are held against.

    Returns:
        ``bits_per_s, link, system, workers, gain``.

    Raises:
        ValueError: if the system to be held against is not there.
    """
    import pandas as pd

    from gnnqlab.train.link import parse_link

    rows = []
    for link, found in by_link.items():
        if over not in set(found["system"]):
            raise ValueError(f"over must be one of {sorted(found['system'].unique())}, got {over!r}")
        whole: Series[Any] = found[found["system"] == over].set_index("workers")["epoch_s"]
        for one in found[found["system"] != over].to_dict("records"):
            gain = whole[one["workers"]] / one["epoch_s"]
            facts = {name: one[name] for name in ("system", "workers")}
            rows.append({"bits_per_s": parse_link(link), "link": link, **facts, "gain": gain})
    return pd.DataFrame(rows)


def draw_gain(table: DataFrame, *, system: str, dark: bool = False) -> Bundle:
    """Draw the gain of a system against the rate of the links, a line a number of workers.

    Args:
        table: of :func:`gains`.
        system: whose.

    Raises:
        ValueError: if the table has nothing of it, or more numbers of workers than can be told apart.
    """
    import plotly.graph_objects as go

    mine = table[table["system"] == system]
    counts = sorted(mine["workers"].unique())
    if not 1 <= len(counts) <= len(_LINKS):
        raise ValueError(f"{system} must have 1 to {len(_LINKS)} numbers of workers to be drawn, got {len(counts)}")
    figure, told = go.Figure(), []
    for count, (color, dash, symbol) in zip(counts, _LINKS):
        line = mine[mine["workers"] == count].sort_values("bits_per_s")
        figure.add_scatter(
            x=line["bits_per_s"].tolist(),
            y=line["gain"].tolist(),
            name=f"{count} workers",
            mode="lines+markers",
            line={"color": color, "dash": dash, "width": 2},
            marker={"symbol": symbol, "size": 8},
            text=line["link"].tolist(),
            hovertemplate=f"{count} workers over %{{text}}: %{{y:.2f}} ×<extra></extra>",
        )
        first, last = line.iloc[0], line.iloc[-1]
        told.append(
            f"{count} workers {first['gain']:.2f} × over {first['link']}, {last['gain']:.2f} × over {last['link']}"
        )
    figure.add_hline(y=1.0, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1})
    links = mine.drop_duplicates("bits_per_s").sort_values("bits_per_s")
    ticks = {"tickvals": links["bits_per_s"].tolist(), "ticktext": links["link"].tolist()}
    figure.update_xaxes(title_text="link of a host (bits per second)", type="log", **ticks)
    figure.update_yaxes(title_text="epoch of Vanilla over epoch (×)", type="log", **_factors(mine["gain"]))
    caption = f"{system}: {'; '.join(told)}."
    finish(figure, title=f"Where {system} stops helping", caption=caption, dark=dark, height=420)
    return Bundle(figure, mine)


def beyond_counted(
    found: DataFrame, *, workers: int, gradient_bytes: float, bytes_per_s: float, latency_s: float
) -> DataFrame:
    """Return epochs at more workers than were counted, if each has as much to do as at the most that were.

    Only the sum of gradients grows, ``2 (P - 1) / P · G / B + 2 (P - 1) · latency`` in a ring.

    Args:
        found: of :func:`gnnqlab.tune.at_scale.at_scale`, the graph growing with P.
        workers: P.
        gradient_bytes: G.
        bytes_per_s: B of a host's link.
        latency_s: of a message.

    Example:
        >>> import pandas as pd
        >>> seen = pd.DataFrame({"system": ["any"], "workers": 64, "epoch_s": 1.0, "reduce_s": 0.25})
        >>> more = {"gradient_bytes": 1e6, "bytes_per_s": 1e9, "latency_s": 1e-5}
        >>> told = beyond_counted(seen, workers=10_000, **more)
        >>> told.loc["any"].round(3).tolist()
        [0.75, 0.202, 0.952, 21.2]
    """
    most = found[found["workers"] == found["workers"].max()].set_index("system")
    reduce = 2 * (workers - 1) * (gradient_bytes / workers / bytes_per_s + latency_s)
    table = (most["epoch_s"] - most["reduce_s"]).rename("all_but_reduce_s").to_frame()
    table["reduce_s"] = reduce
    table["epoch_s"] = table["all_but_reduce_s"] + reduce
    table["reduce_percent"] = (100 * reduce / table["epoch_s"]).round(1)
    return table


def _counts(columns: Any) -> dict[str, Any]:
    counts = sorted({int(count) for column in columns for count in column})
    named = counts if len(counts) < 7 else counts[::2]
    return {"type": "log", "tickvals": named, "ticktext": [str(count) for count in named], "tickangle": 0}


def _factors(values: Series[Any]) -> dict[str, Any]:
    most = [
        number for number in (0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15) if values.min() / 1.6 < number < values.max() * 1.6
    ]
    return {"tickvals": most, "ticktext": [f"{number:g}" for number in most]}
