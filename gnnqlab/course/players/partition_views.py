"""Costs of a partition in tables and figures: kinds of nodes, remote neighbours by number of parts, rows by pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from gnnqlab.partition.parts import Parts

__all__ = ["draw_pairs", "draw_sharing", "draw_shares", "pair_table", "share_table", "worker_table"]

_LOOKS = ((OKABE_ITO["green"], ""), (OKABE_ITO["orange"], "/"), (OKABE_ITO["sky"], "."))
"""Colour and pattern of a worker's rows by kind, in the order of ``rows_by_kind``; copies are last."""
_NUMBERED = 10
"""Largest number of workers for which a full-width heat map shows numbers in its cells."""
_PANEL, _DIGIT = 290, 6.5
"""Width in pixels of a heat map next to bars on a page of 720, and of a digit in 10-pixel text."""


def pair_table(parts: Parts) -> DataFrame:
    """Return the number of rows from each sender (line) to each receiver (column) in one exchange (AdaQP Fig. 2)."""
    import pandas as pd

    names = [f"worker {rank}" for rank in range(parts.workers)]
    # (P, P), sender x receiver
    return pd.DataFrame(parts.quality.halo_rows.tolist(), index=pd.Index(names, name="sender"), columns=names)


def worker_table(parts: Parts) -> DataFrame:
    """Return the number of rows of each kind on every worker.

    Under an edge-cut ``central, marginal, halo``; under a vertex-cut ``central`` (nodes without copies), ``marginal``
    (masters of copied nodes), ``mirrors``.
    """
    import pandas as pd

    names = pd.Index([f"worker {rank}" for rank in range(parts.workers)], name="worker")
    # one column per kind
    return pd.DataFrame({kind: rows.tolist() for kind, rows in parts.quality.rows_by_kind.items()}, index=names)


def share_table(several: Iterable[Parts]) -> DataFrame:
    """Return the costs of partitions of one graph, one line each, by number of parts.

    Columns: ``central`` and ``marginal``, shares of all nodes; ``remote ratio``, halo rows per owned node (AdaQP
    Table 1); ``edge cut``, share of all edges; ``imbalance``, most nodes of a worker over the mean. Under a vertex-cut,
    nodes with copies are marginal, and the ratio counts the rows sent in both rounds of a synchronization.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> halves = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> share_table([halves]).round(2).iloc[0].to_dict()
        {'central': 0.6, 'marginal': 0.4, 'remote ratio': 0.4, 'edge cut': 0.14, 'imbalance': 1.0}
    """
    import pandas as pd

    lines = {}
    for parts in several:
        quality = parts.quality
        lines[parts.workers] = {
            "central": 1 - quality.marginal_share,  # share of nodes without remote neighbours
            "marginal": quality.marginal_share,
            "remote ratio": quality.remote_ratio,
            "edge cut": quality.edge_cut_share,
            "imbalance": quality.node_imbalance,
        }
    table = pd.DataFrame.from_dict(lines, orient="index").sort_index()
    table.index.name = "parts"
    return table


def draw_pairs(parts: Parts, *, largest: float | None = None, dark: bool = False) -> FigureData:
    """Draw the number of rows from each sender to each receiver in one exchange, as a heat map.

    Args:
        parts: the partition.
        largest: upper end of the colour scale, to compare several maps; by default the largest number of rows.
        dark: colours for a dark page.
    """
    import plotly.graph_objects as go

    table = pair_table(parts)
    figure = go.Figure()
    _add_pairs(figure, parts, largest, colorbar={"title": {"text": "rows"}, "thickness": 12})  # a scale of its own
    figure.update_xaxes(title_text="receiver", constrain="domain", showgrid=False)
    figure.update_yaxes(title_text="sender", autorange="reversed", showgrid=False)
    caption = _say_pairs(parts)
    height = 240 + min(40 * parts.workers, 400)
    finish(figure, title="Rows from worker to worker", caption=caption, dark=dark, height=height, legend_rows=0)
    return FigureData(figure, table)


def draw_shares(tables: Mapping[str, DataFrame], *, parts: int | None = None, dark: bool = False) -> FigureData:
    """Draw the share of marginal nodes and the remote-neighbour ratio over the number of parts.

    Args:
        tables: partitioner -> `share_table`.
        parts: number of parts to mark.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no table.
    """
    import pandas as pd

    if not tables:
        raise ValueError(
            "a figure needs the table of at least one partitioner, got none; pass {'METIS': share_table(…)}"
        )
    shares = pd.concat(dict(tables), names=["partitioner", "parts"])
    rows = shares.assign(marginal=100 * shares["marginal"]).reset_index()  # share -> percent
    ticks = {"title_text": "number of parts", **value_ticks(rows["parts"])}
    charts = [
        lines(rows, x="parts", y=column, by="partitioner", x_axis=ticks, y_axis=axis, zero="y")
        for column, axis in (
            ("marginal", {"title_text": "marginal nodes (%)", "range": [0, 103]}),
            ("remote ratio", "halo rows per owned node"),
        )
    ]
    last_costs = ", ".join(
        f"{name} with {table.index[-1]} parts {100 * table['marginal'].iloc[-1]:.0f} % marginal and "
        f"{table['remote ratio'].iloc[-1]:.2f} halo rows per node"
        for name, table in tables.items()
    )
    caption = f"Costs of the largest number of parts: {last_costs}."
    figure = panels(charts, gap=0.12, title="More parts, more messages", caption=caption, dark=dark, height=340)
    if parts is not None:
        figure.add_vline(x=parts, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1.5})
    return FigureData(figure, shares.reset_index("partitioner"))


def draw_sharing(parts: Parts, *, dark: bool = False) -> FigureData:
    """Draw one partition: the rows of each worker by kind, and a heat map of the rows sent.

    Dashed lines separate the workers of different hosts.
    """
    from plotly.subplots import make_subplots

    table = worker_table(parts)
    figure = make_subplots(
        rows=1,
        cols=2,
        column_widths=[0.42, 0.58],
        horizontal_spacing=0.16,
        subplot_titles=["rows of each worker", "rows sent in an exchange"],
    )
    for kind, (color, pattern) in zip(table.columns, _LOOKS, strict=True):
        figure.add_bar(
            y=table.index.tolist(),
            x=table[kind].tolist(),
            orientation="h",
            name=kind,
            marker={"color": color, "pattern": {"shape": pattern, "fgcolor": "#ffffff"}},
            hovertemplate=f"%{{y}}: %{{x}} {kind}<extra></extra>",
            row=1,
            col=1,
        )
    # heat map in the second column
    _add_pairs(figure, parts, None, colorbar={"title": {"text": "rows"}, "thickness": 12}, panel=(1, 2))
    _part_hosts(figure, parts, row=1, col=2)
    figure.update_layout(barmode="stack", bargap=0.25)
    figure.update_xaxes(title_text="rows", row=1, col=1)
    figure.update_xaxes(title_text="receiver", showgrid=False, row=1, col=2)
    figure.update_yaxes(autorange="reversed", row=1, col=1)
    figure.update_yaxes(title_text="sender", autorange="reversed", showgrid=False, row=1, col=2)
    quality = parts.quality
    caption = (
        f"{parts.graph.num_nodes:,} nodes on {parts.workers} workers: {100 * (1 - quality.marginal_share):.0f} % "
        + _say_kinds(parts)
        + _say_pairs(parts)
    )
    height = 300 + min(22 * parts.workers, 240)
    host_text = f" of {parts.hosts} hosts" if parts.hosts > 1 else ""
    finish(figure, title=f"One graph on {parts.workers} workers{host_text}", caption=caption, dark=dark, height=height)
    legend = {"traceorder": "normal", "yref": "container", "y": 0.0, "yanchor": "bottom"}
    figure.update_layout(legend=legend, margin={"b": 76})
    return FigureData(figure, table)


def _add_pairs(
    figure: Figure, parts: Parts, largest: float | None, *, colorbar: dict[str, object],
    panel: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """Add the heat map; the diagonal has no cells, because a worker sends itself nothing."""
    rows = [[float(value) for value in line] for line in parts.quality.halo_rows.tolist()]
    top = largest or max(max(map(max, rows)), 1.0)  # an empty table would have no scale
    # no cell on the diagonal
    holes = [[None if i == j else value for j, value in enumerate(line)] for i, line in enumerate(rows)]
    names = (
        [f"worker {rank}" for rank in range(parts.workers)] if panel is None else [str(r) for r in range(parts.workers)]
    )
    # width in pixels of the numbers in a line of cells
    line_width = parts.workers * (_DIGIT * len(f"{max(map(max, rows)):.0f}") + 4)
    has_numbers = parts.workers <= _NUMBERED if panel is None else line_width <= _PANEL
    figure.add_heatmap(
        z=holes,
        x=names,
        y=names,
        zmin=0,
        zmax=top,
        colorscale="Cividis",
        xgap=2,
        ygap=2,
        hoverongaps=False,
        texttemplate="%{z:.0f}" if has_numbers else None,
        textfont={"size": 12 if parts.workers <= _NUMBERED else 10},
        hovertemplate="%{y} to %{x}: %{z:.0f} rows<extra></extra>",
        colorbar=colorbar,
        **({} if panel is None else {"row": panel[0], "col": panel[1]}),
    )


def _part_hosts(figure: Figure, parts: Parts, *, row: int, col: int) -> None:
    """Add lines between the hosts to a heat map with workers at integer coordinates."""
    # the first worker of every further host
    for first_rank in range(parts.per_host, parts.workers, parts.per_host) if parts.per_host > 1 else ():
        line = {"color": OKABE_ITO["vermillion"], "width": 2, "dash": "dash"}
        figure.add_vline(x=first_rank - 0.5, line=line, row=row, col=col)
        figure.add_hline(y=first_rank - 0.5, line=line, row=row, col=col)


def _say_kinds(parts: Parts) -> str:
    quality = parts.quality
    if "halo" in quality.rows_by_kind:
        return (
            f"central, {100 * quality.marginal_share:.0f} % marginal, {quality.remote_ratio:.2f} halo rows per owned "
            f"node. {f'{quality.advice[0].upper()}{quality.advice[1:]}. ' if quality.advice else ''}"
        )
    return (
        f"on a single worker, {100 * quality.marginal_share:.0f} % copied, {quality.replication:.2f} replicas per "
        "node. "
    )


def _say_pairs(parts: Parts) -> str:
    rows = parts.quality.halo_rows
    if parts.workers == 1:
        return "A single worker sends nothing."
    # all ordered pairs
    counts = [int(rows[i, j]) for i in range(parts.workers) for j in range(parts.workers) if i != j]
    host_text = f", {parts.quality.outer:,} of them between hosts" if parts.hosts > 1 else ""
    return (
        f"In an exchange {sum(counts):,} rows are sent{host_text}; per pair of workers, {min(counts):,} to "
        f"{max(counts):,}."
    )
