"""Widths that change while a run trains: when, why, and what the formula as printed would have done instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.course.experiments.moving_widths import replay
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.figures.graph_drawing import draw_bits, message_widths
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from plotly.graph_objects import Figure

    from gnnqlab.launch.run import Run
    from gnnqlab.partition.parts import Parts

_GAP = 0.085
"""Between panels, as a share of the height: room for a legend above each."""
__all__ = ["draw_decisions", "draw_importance", "draw_signs", "importance_table", "rows_by_width"]

_MOST_BARS = 400
_WIDTH_COLORS = {1: "#fee838", 2: "#c9b869", 3: "#a69d75", 4: "#848279", 8: "#2f4a6e", 16: "#1b3660", 32: "#00204d"}


def importance_table(parts: Parts) -> DataFrame:
    """Return every boundary node's in-degree, importance p, and width by base (SYLVIE sections IV-A and V-A).

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> table = importance_table(partition(course.ten_nodes(), course.Halves(), workers=2))
        >>> table.index.tolist(), table["base 8"].tolist()
        ([3, 4, 5, 7], [8, 8, 8, 8])
    """
    import pandas as pd

    from gnnqlab.bits.orchestrator import by_importance

    ids, p = _boundary(parts)
    table = pd.DataFrame(
        {"in-degree": parts.graph.in_degrees[ids].tolist(), "p": p.tolist()},
        index=pd.Index(ids.tolist(), name="node"),
    )
    among = Orchestrated().among
    for base in among:
        table[f"base {base}"] = by_importance(p, base, among).tolist()
    return table


def draw_importance(parts: Parts, *, base: int = 1, dark: bool = False) -> Bundle:
    """Draw the width of every message as base and importance give it."""
    ids, p = _boundary(parts)
    widths = OrchestratedWidths(Orchestrated(), ids, p)
    widths.base = base
    found = message_widths(parts, widths, layer=0)
    return draw_bits(parts, found, what=f"base {base}", dark=dark)


def _boundary(parts: Parts) -> tuple[Any, Any]:
    import torch

    ids = torch.cat([shard.halo for shard in parts.shards]).unique()
    known = torch.zeros(parts.graph.num_nodes)
    for shard in parts.shards:
        known[torch.cat([shard.owned, shard.halo])] = shard.importance
    return ids, known[ids]


def _replayed(run: Run, *, as_printed: bool = False) -> DataFrame:
    table, seconds = by_epoch(run.records), run.records.groupby("epoch")["epoch_s"].max().tolist()
    return replay(table["loss"].tolist(), seconds, settings=_settings(run), as_printed=as_printed)


def _settings(run: Run) -> Orchestrated:
    settings = run.config.system.bits
    if not isinstance(settings, Orchestrated):
        raise ValueError(f"bits must be Orchestrated for a width to move, got {settings!r}; launch system sylvie")
    return settings


def rows_by_width(run: Run) -> DataFrame:
    """Return the share of rows in each width, by epoch (SYLVIE Fig. 7); an epoch whose messages nobody read has none.

    Of a run of more than 400 epochs, every second, third ... one, so that a long run is read and drawn as fast.
    """
    epochs = int(run.records["epoch"].max()) + 1
    traffic = run.read_traffic(epochs=range(0, epochs, -(-epochs // _MOST_BARS)))
    counts = traffic.groupby(["epoch", "bits"])["rows"].sum().unstack(fill_value=0)
    return counts.div(counts.sum(axis=1), axis=0)


def base_by_epoch(run: Run) -> Series:
    """Return the base width in force in every epoch, from the run's decisions."""
    import pandas as pd

    base = pd.Series(_settings(run).among[0], index=pd.RangeIndex(int(run.records["epoch"].max()) + 1, name="epoch"))
    for epoch, what in zip(run.decisions["epoch"], run.decisions["what"]):
        if what.startswith("base width "):
            base.loc[int(epoch) :] = int(what.rpartition(" ")[2])
    return base


def draw_decisions(run: Run, *, dark: bool = False) -> Bundle:
    """Draw what the Coordinator saw and did: loss, descent rates, base width, and the rows in every width.

    Raises:
        ValueError: if the run's widths do not move.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    base = base_by_epoch(run)
    table, shares = _replayed(run), rows_by_width(run)
    delta = _settings(run).delta
    figure = make_subplots(
        rows=4, cols=1, shared_xaxes=True, row_heights=[0.22, 0.27, 0.24, 0.27], vertical_spacing=_GAP
    )
    ink = "#e6e8ea" if dark else "#1f2328"
    _line(figure, table["loss"], "loss", OKABE_ITO["grey"], "dot", row=1)
    _line(figure, table["F"], "running loss F", ink, "solid", row=1)
    _line(figure, table["rate"], "descent rate", OKABE_ITO["blue"], "solid", row=2, apart=True)
    _line(figure, table["earlier"], f"the rate {delta} epochs before", OKABE_ITO["orange"], "dash", row=2, apart=True)
    _line(figure, base, "base width", OKABE_ITO["vermillion"], "solid", row=3, shape="hv", apart=True)
    moves = run.decisions[run.decisions["what"].str.startswith("base width")]
    moves = moves[moves["epoch"] < len(base)]
    figure.add_scatter(
        x=moves["epoch"].tolist(),
        y=[int(base[epoch]) for epoch in moves["epoch"]],
        mode="markers",
        name="decision (its reason on hover)",
        marker={"symbol": "diamond", "size": 8, "color": OKABE_ITO["vermillion"]},
        customdata=[[human_bits(base[epoch]), why] for epoch, why in zip(moves["epoch"], moves["why"])],
        hovertemplate="epoch %{x}: %{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        row=3,
        col=1,
        legend="legend3",
    )
    for width in shares:
        figure.add_bar(
            x=shares.index.tolist(),
            y=(100 * shares[width]).tolist(),
            name=human_bits(width),
            marker={"color": _WIDTH_COLORS[int(width)], "line": {"width": 0}},
            hovertemplate=f"{human_bits(width)}: %{{y:.0f}} % of the rows of epoch %{{x}}<extra></extra>",
            row=4,
            col=1,
            legend="legend4",
        )
    figure.update_yaxes(title_text="loss", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="loss a second", row=2, col=1)
    figure.update_yaxes(title_text="base (bits)", type="log", tickvals=[1, 2, 4, 8], range=[-0.1, 1.0], row=3, col=1)
    figure.update_yaxes(title_text="rows (%)", range=[0, 100], row=4, col=1)
    figure.update_xaxes(title_text="epoch", row=4, col=1)
    figure.update_layout(barmode="stack", bargap=0)
    held = base.value_counts(normalize=True).sort_index()
    words = ", ".join(f"{width} in {100 * share:.0f} % of epochs" for width, share in held.items())
    caption = f"{len(moves)} decisions about the base width: {words}."
    finish(figure, title="When the width changed", caption=caption, dark=dark, height=720)
    tops = [axis.domain[1] for axis in figure.select_yaxes()]
    above = {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"}
    for name, top in zip(("legend", "legend2", "legend3", "legend4"), tops, strict=True):
        figure.update_layout({name: {**above, "y": top}})
    frame = pd.concat([table.drop(columns="base"), base.rename("base")], axis=1)
    return Bundle(figure, frame)


def draw_signs(run: Run, *, dark: bool = False) -> Bundle:
    """Draw the base width for this run's losses and times with the rate of the text, and with the rate as printed."""
    import pandas as pd
    from plotly.subplots import make_subplots

    tables = {"descent rate (the text)": _replayed(run), "as printed": _replayed(run, as_printed=True)}
    looks = {"descent rate (the text)": (OKABE_ITO["blue"], "solid"), "as printed": (OKABE_ITO["vermillion"], "dash")}
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    for name, table in tables.items():
        _line(figure, table["rate"], name, *looks[name], row=1)
        _line(figure, table["base"], name, *looks[name], row=2, shape="hv", legend=False)
    figure.update_yaxes(title_text="rate (loss a second)", row=1, col=1)
    figure.update_yaxes(title_text="base (bits)", type="log", tickvals=[1, 2, 4, 8], range=[-0.1, 1.0], row=2, col=1)
    figure.update_xaxes(title_text="epoch", row=2, col=1)
    means = {name: table["base"].mean() for name, table in tables.items()}
    differ = float((tables["as printed"]["base"] != tables["descent rate (the text)"]["base"]).mean())
    caption = (
        f"Base width for the same losses: mean {means['descent rate (the text)']:.1f} bits by the text, "
        f"{means['as printed']:.1f} as printed; they differ in {100 * differ:.0f} % of epochs."
    )
    finish(figure, title="The same losses, either sign", caption=caption, dark=dark, height=430)
    return Bundle(figure, pd.DataFrame({name: table["base"] for name, table in tables.items()}))


def _line(
    figure: Figure, values: Series, name: str, color: str, dash: str, *, row: int, shape: str = "linear",
    legend: bool = True, apart: bool = False,
) -> None:  # fmt: skip
    """A line; ``apart``: with its name in a legend of its panel."""
    figure.add_scatter(
        x=values.index.tolist(),
        y=values.tolist(),
        mode="lines",
        name=name,
        legendgroup=name,
        showlegend=legend,
        line={"color": color, "dash": dash, "width": 2, "shape": shape},
        hovertemplate=f"{name}: %{{y:.4g}} · epoch %{{x}}<extra></extra>",
        row=row,
        col=1,
        legend=f"legend{row}" if apart and row > 1 else "legend",
    )
