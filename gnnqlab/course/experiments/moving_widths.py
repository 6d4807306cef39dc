"""Bit-widths of SYLVIE's Quant Orchestrator: replayed from losses, by importance, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from gnnqlab.bits.assigner.descent import Descent
from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths, by_importance
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines, panels, scatter
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.figures.graph_drawing import draw_bits, message_widths

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.partition.parts import Parts
    from gnnqlab.run.run import Run

__all__ = [
    "draw_decisions", "draw_importance", "draw_signs", "importance_table", "replay",
    "rows_by_width",
]  # fmt: skip


def replay(
    losses: Sequence[float],
    seconds: Sequence[float],
    *,
    settings: Orchestrated | None = None,
    as_printed: bool = False,
) -> DataFrame:
    """Replay the decisions of the Quant Orchestrator on given losses (SYLVIE Eq. 5, Fig. 11 by δ).

    Differs: by default the rate is ``(F_(t-1) - F_t) / et_t``, positive while the loss falls; see ``as_printed``.

    Args:
        losses: loss of each epoch.
        seconds: duration of each epoch.
        settings: δ, λ and the bit-widths; the paper's by default.
        as_printed: use the rate as printed in the paper, ``(F_t - F_(t-1)) / et_t``, instead of the settings'.

    Returns:
        By ``epoch``: ``loss``, ``F``, ``rate``, ``earlier`` (the rate δ epochs before) and ``base``, the base bit-width
        of that epoch.

    Raises:
        ValueError: if the numbers of seconds and losses differ.

    Example:
        >>> losses = [0.9**epoch for epoch in range(40)]  # levels off
        >>> int(replay(losses, [1.0] * 40)["base"].iloc[-1])
        8
        >>> int(replay(losses, [1.0] * 40, as_printed=True)["base"].max())  # in the first epochs F still speeds up
        8
    """
    import pandas as pd

    if len(losses) != len(seconds):
        raise ValueError(f"every loss needs the seconds of its epoch, got {len(losses)} losses and {len(seconds)}")
    settings = settings or Orchestrated()
    settings = replace(settings, formula="printed") if as_printed else settings
    no_nodes = torch.zeros(0, dtype=torch.int64)  # the base does not depend on nodes
    widths, descent = OrchestratedWidths(settings, no_nodes, no_nodes), Descent(settings.momentum, settings.delta)
    sign = -1 if settings.formula == "printed" else 1
    lines = []
    # As in training, the loss of an epoch comes with the seconds of the epoch before; those of the first are not used.
    previous_s = [*seconds[:2], *seconds[1:-1]]
    for epoch, (loss, epoch_s) in enumerate(zip(losses, previous_s)):
        base, rates = widths.base, descent.add(loss, epoch_s)
        earlier_rate, rate = rates or (float("nan"), descent.rates[-1] if descent.rates else float("nan"))
        lines.append((epoch, loss, descent.loss, sign * rate, sign * earlier_rate, base))
        if rates is not None:  # None until δ epochs have passed
            widths.move(wider=settings.widens(*rates))
    return pd.DataFrame(lines, columns=["epoch", "loss", "F", "rate", "earlier", "base"]).set_index("epoch")


_GAP = 0.085
"""Gap between panels as a share of the height, with space for a legend above each."""

# Most bars to draw; of a longer run, only every k-th epoch is read.
_MAX_BARS = 400
# Bit-width -> colour, ordered by lightness: light for few bits, dark for many.
_WIDTH_COLORS = {1: "#fee838", 2: "#c9b869", 3: "#a69d75", 4: "#848279", 8: "#2f4a6e", 16: "#1b3660", 32: "#00204d"}


def importance_table(parts: Parts) -> DataFrame:
    """Return every boundary node's in-degree, importance p, and bit-width by base (SYLVIE sections IV-A and V-A).

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> table = importance_table(partition(course.ten_nodes(), course.Halves(), workers=2))
        >>> table.index.tolist(), table["base 8"].tolist()
        ([3, 4, 5, 7], [8, 8, 8, 8])
    """
    import pandas as pd

    ids, p = _boundary(parts)
    # Boundary nodes only, because only their rows are sent.
    table = pd.DataFrame(
        {"in-degree": parts.graph.in_degrees[ids].tolist(), "p": p.tolist()},
        index=pd.Index(ids.tolist(), name="node"),
    )
    bit_widths = Orchestrated().bit_widths
    for base in bit_widths:  # one column per base bit-width
        table[f"base {base}"] = by_importance(p, base, bit_widths).tolist()
    return table


def draw_importance(parts: Parts, *, base: int = 1, dark: bool = False) -> FigureData:
    """Draw the bit-width of every row, by base and importance."""
    ids, p = _boundary(parts)
    widths = OrchestratedWidths(Orchestrated(), ids, p)
    widths.base = base
    row_widths = message_widths(parts, widths, layer=0)
    return draw_bits(parts, row_widths, what=f"base {base}", dark=dark)


def _boundary(parts: Parts) -> tuple[Any, Any]:
    ids = torch.cat([shard.halo for shard in parts.shards]).unique()
    # Importance is stored per worker, for owned and halo rows; gather it by global id.
    importance = torch.zeros(parts.graph.num_nodes)
    for shard in parts.shards:
        importance[torch.cat([shard.owned, shard.halo])] = shard.importance  # (owned + halo,) -> global ids
    return ids, importance[ids]


def _replayed(run: Run, *, as_printed: bool = False) -> DataFrame:
    # seconds of the slowest worker
    table, seconds = by_epoch(run.records), run.records.groupby("epoch")["epoch_s"].max().tolist()
    return replay(table["loss"].tolist(), seconds, settings=_settings(run), as_printed=as_printed)


def _settings(run: Run) -> Orchestrated:
    settings = run.config.system.bits
    if not isinstance(settings, Orchestrated):
        raise ValueError(f"bits must be Orchestrated for the base to change, got {settings!r}; launch system sylvie")
    return settings


def rows_by_width(run: Run) -> DataFrame:
    """Return the share of rows by bit-width and epoch (SYLVIE Fig. 7), without epochs that recorded no messages.

    For a run of more than 400 epochs only every second, third ... epoch is read, which bounds the time.
    """
    epochs = int(run.records["epoch"].max()) + 1
    traffic = run.read_traffic(epochs=range(0, epochs, -(-epochs // _MAX_BARS)))  # every k-th epoch, with k rounded up
    counts = traffic.groupby(["epoch", "bits"])["rows"].sum().unstack(fill_value=0)  # (epoch, bits) -> rows
    return counts.div(counts.sum(axis=1), axis=0)  # share of the rows of an epoch


def base_by_epoch(run: Run) -> Series:
    """Return the base bit-width of every epoch, from the run's decisions."""
    import pandas as pd

    base = pd.Series(  # the smallest bit-width, until the first decision
        _settings(run).bit_widths[0], index=pd.RangeIndex(int(run.records["epoch"].max()) + 1, name="epoch")
    )
    for epoch, decision in zip(run.decisions["epoch"], run.decisions["what"]):
        if decision.startswith("base width "):
            base.loc[int(epoch) :] = int(decision.rpartition(" ")[2])  # the decision holds from this epoch on
    return base


def draw_decisions(run: Run, *, dark: bool = False) -> FigureData:
    """Draw inputs and decisions of the Quant Orchestrator: loss, descent rates, base bit-width, rows by bit-width.

    Raises:
        ValueError: if the run's bit policy is not Orchestrated.
    """
    import pandas as pd

    base = base_by_epoch(run).rename("base width")
    table, shares = _replayed(run), rows_by_width(run)
    earlier_label = f"the rate {_settings(run).delta} epochs before"
    ink = "#e6e8ea" if dark else "#1f2328"
    moves = run.decisions[run.decisions["what"].str.startswith("base width")]
    moves = moves[moves["epoch"] < len(base)]  # a decision after the last epoch has no effect
    decisions = pd.DataFrame({
        "epoch": moves["epoch"],
        "base": [int(base[epoch]) for epoch in moves["epoch"]],
        "why": [[human_bits(base[epoch]), reason] for epoch, reason in zip(moves["epoch"], moves["why"])],
    })  # fmt: skip
    losses = lines(
        table,
        y={"loss": "loss", "F": "running loss F"},
        styles=["grey dot", ink],
        mode="lines",
        y_axis="loss",
        zero="y",
    )
    rates = lines(
        table,
        y={"rate": ("descent rate", "blue"), "earlier": (earlier_label, "orange dash")},
        mode="lines",
        y_axis="loss per second",
    )
    widths = scatter(
        decisions,
        x="epoch",
        y={"base": ("decision (its reason on hover)", "vermillion diamond")},
        details="why",
        hover="epoch %{x}: %{customdata[0]}<br>%{customdata[1]}",
        figure=lines(base.to_frame(), y="base width", styles=["vermillion"], mode="lines", shape="hv"),
        **_BASE,
    )
    percent = (100 * shares).rename(columns=human_bits)  # share -> percent; legend "2 bits"
    rows = bars(
        percent,
        y=list(percent),
        styles=[_WIDTH_COLORS[int(width)] for width in shares],
        stacked=True,
        x_axis={"title_text": "epoch", "type": "linear"},
        y_axis={"title_text": "rows (%)", "range": [0, 100]},
    )
    share_by_base = base.value_counts(normalize=True).sort_index()
    words = ", ".join(f"{width} in {100 * share:.0f} % of epochs" for width, share in share_by_base.items())
    figure = panels(
        [losses, rates, widths, rows],
        rows=4,
        share_x=True,
        sizes=[0.22, 0.27, 0.24, 0.27],
        gap=_GAP,
        title="Decisions about the base bit-width",
        caption=f"{len(moves)} decisions about the base bit-width: {words}.",
        dark=dark,
        height=720,
    )
    figure.update_layout(bargap=0)  # bars touch: one per epoch
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"}
    for number, axis in enumerate(figure.select_yaxes(), start=1):  # one legend per panel
        name = f"legend{number if number > 1 else ''}"
        figure.update_layout({name: {**legend, "y": axis.domain[1]}})
        figure.update_traces(legend=name, selector={"yaxis": f"y{number if number > 1 else ''}"})
    return FigureData(figure, pd.concat([table.drop(columns="base"), base.rename("base")], axis=1))


def draw_signs(run: Run, *, dark: bool = False) -> FigureData:
    """Draw the base bit-width for this run's losses and times, with the rate of the text and with the printed one."""
    import pandas as pd

    text_label, printed_label = "descent rate (the text)", "as printed"
    # the same losses and seconds, with both formulas
    tables = {text_label: _replayed(run), printed_label: _replayed(run, as_printed=True)}
    rates, base = (pd.DataFrame({name: table[column] for name, table in tables.items()}) for column in ("rate", "base"))
    look: dict[str, Any] = {"y": [text_label, printed_label], "styles": ["blue", "vermillion dash"], "mode": "lines"}
    means, differing_share = base.mean(), float((base[printed_label] != base[text_label]).mean())
    caption = (
        f"Base bit-width for the same losses: mean {means[text_label]:.1f} bits by the text, "
        f"{means[printed_label]:.1f} as printed; they differ in {100 * differing_share:.0f} % of epochs."
    )
    charts = [
        lines(rates, y_axis="rate (loss per second)", **look),
        lines(base, shape="hv", x_axis="epoch", **_BASE, **look),
    ]
    figure = panels(
        charts,
        rows=2,
        share_x=True,
        gap=0.08,
        title="The same losses, either sign",
        caption=caption,
        dark=dark,
        height=430,
    )
    return FigureData(figure, base)


_BASE: dict[str, Any] = {
    "y_axis": {"title_text": "base (bits)", "tickvals": [1, 2, 4, 8], "range": [-0.1, 1.0]}, "log": "y",
}  # fmt: skip
