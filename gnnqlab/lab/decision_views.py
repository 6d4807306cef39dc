"""Widths that change while a run trains: when, why, and what the formula as printed would have done instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.lab.bundle import Bundle
from gnnqlab.lab.frames import by_epoch
from gnnqlab.lab.graph_drawing import draw_bits, message_widths
from gnnqlab.lab.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from plotly.graph_objects import Figure

    from gnnqlab.graph.graph import Graph
    from gnnqlab.launch.run import Run
    from gnnqlab.partition.parts import Parts

__all__ = [
    "compare_widths", "draw_decisions", "draw_importance", "draw_signs", "importance_table", "replay", "rows_by_width",
]  # fmt: skip

_MOST_BARS = 400
_WIDTH_COLORS = {1: "#fee838", 2: "#c9b869", 4: "#848279", 8: "#2f4a6e", 16: "#1b3660", 32: "#00204d"}


def importance_table(parts: Parts) -> DataFrame:
    """Return every boundary node's in-degree, importance p, and width by base (SYLVIE sections IV-A and V-A).

    Example:
        >>> from gnnqlab.lab import course
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


def replay(
    losses: Sequence[float],
    seconds: Sequence[float],
    *,
    settings: Orchestrated | None = None,
    as_printed: bool = False,
) -> DataFrame:
    """Return what the Quant Orchestrator decides when it is shown these losses (SYLVIE Eq. 5, Fig. 11 by δ).

    Differs: by default the rate is ``(F_(t-1) - F_t) / et_t``, positive while the loss falls; see ``as_printed``.

    Args:
        losses: by epoch.
        seconds: of every epoch.
        settings: δ, λ and the widths; the paper's by default.
        as_printed: the rate as the paper prints it, ``(F_t - F_(t-1)) / et_t``, whatever the settings say.

    Returns:
        By ``epoch``: ``loss``, ``F``, ``rate``, ``earlier`` (the rate δ epochs before) and ``base``, the width of that
        epoch.

    Raises:
        ValueError: if there are not as many seconds as losses.

    Example:
        >>> losses = [0.9**epoch for epoch in range(40)]  # levels off
        >>> int(replay(losses, [1.0] * 40)["base"].iloc[-1])
        8
        >>> int(replay(losses, [1.0] * 40, as_printed=True)["base"].max())  # in the first epochs F still speeds up
        8
    """
    import pandas as pd
    import torch

    from gnnqlab.train.coordinator import Descent

    if len(losses) != len(seconds):
        raise ValueError(f"every loss needs the seconds of its epoch, got {len(losses)} losses and {len(seconds)}")
    settings = settings or Orchestrated()
    settings = replace(settings, formula="printed") if as_printed else settings
    nobody = torch.zeros(0, dtype=torch.int64)
    widths, descent = OrchestratedWidths(settings, nobody, nobody), Descent(settings.momentum, settings.delta)
    sign = -1 if settings.formula == "printed" else 1
    lines = []
    # A loss is told with the seconds of the epoch before it, those of the first epoch are not.
    led_there = [*seconds[:2], *seconds[1:-1]]
    for epoch, (loss, epoch_s) in enumerate(zip(losses, led_there)):
        now, rates = widths.base, descent.add(loss, epoch_s)
        earlier, rate = rates or (float("nan"), descent.rates[-1] if descent.rates else float("nan"))
        lines.append((epoch, loss, descent.loss, sign * rate, sign * earlier, now))
        if rates is not None:
            widths.move(wider=settings.widens(*rates))
    return pd.DataFrame(lines, columns=["epoch", "loss", "F", "rate", "earlier", "base"]).set_index("epoch")


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
        rows=4, cols=1, shared_xaxes=True, row_heights=[0.22, 0.27, 0.24, 0.27], vertical_spacing=0.05
    )
    ink = "#e6e8ea" if dark else "#1f2328"
    _line(figure, table["loss"], "loss", OKABE_ITO["grey"], "dot", row=1)
    _line(figure, table["F"], "running loss F", ink, "solid", row=1)
    _line(figure, table["rate"], "descent rate", OKABE_ITO["blue"], "solid", row=2)
    _line(figure, table["earlier"], f"the rate {delta} epochs before", OKABE_ITO["orange"], "dash", row=2)
    _line(figure, base, "base width", OKABE_ITO["vermillion"], "solid", row=3, shape="hv")
    moves = run.decisions[run.decisions["what"].str.startswith("base width")]
    moves = moves[moves["epoch"] < len(base)]
    figure.add_scatter(
        x=moves["epoch"].tolist(),
        y=[int(base[epoch]) for epoch in moves["epoch"]],
        mode="markers",
        name="decision (its reason on hover)",
        marker={"symbol": "diamond", "size": 8, "color": OKABE_ITO["vermillion"]},
        customdata=moves["why"].tolist(),
        hovertemplate="epoch %{x}: %{y} bits<br>%{customdata}<extra></extra>",
        row=3,
        col=1,
    )
    for width in shares:
        figure.add_bar(
            x=shares.index.tolist(),
            y=(100 * shares[width]).tolist(),
            name=f"{width} bit{'s' if width > 1 else ''}",
            marker={"color": _WIDTH_COLORS[int(width)], "line": {"width": 0}},
            hovertemplate=f"{width} bits: %{{y:.0f}} % of the rows of epoch %{{x}}<extra></extra>",
            row=4,
            col=1,
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
    finish(figure, title="When the width changed", caption=caption, dark=dark, height=640)
    figure.update_layout(legend={"y": -0.09, "yanchor": "top"}, margin={"t": 50, "b": 110})
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
    legend: bool = True,
) -> None:  # fmt: skip
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
    )


def compare_widths(graph: Graph, *, seeds: Sequence[int] = (0,), epochs: int = 60, **settings: Any) -> DataFrame:
    """Train with fixed widths and with widths that move, all synchronous (SYLVIE's Table X).

    Args:
        graph: the graph.
        seeds: one run of every width for each, in turns.
        epochs: of every run.
        **settings: of ``gq.launch``, and ``partition``: a part.

    Returns:
        By ``bits``: median ``epoch (ms)``, ``MB an epoch`` (mean), ``final loss``, ``accuracy (%)`` and half its 95 %
        interval.
    """
    import pandas as pd

    from gnnqlab.exchange.schedule import Overlapped
    from gnnqlab.lab.sensitivity import interval
    from gnnqlab.launch.start import launch
    from gnnqlab.systems.system import make_system

    partition = settings.pop("partition", None)
    systems: Mapping[str, Any] = {
        "32": make_system("vanilla"),
        **{str(bits): make_system("fixed-bits", bits=bits) for bits in (8, 4, 2, 1)},
        "adaptive": make_system("sylvie"),
    }
    lines = []
    for seed in seeds:
        for bits, system in systems.items():
            made = replace(system, schedule=Overlapped())
            made = made if partition is None else replace(made, partition=partition)
            run = launch(graph, system=made, epochs=epochs, seed=seed, **settings).wait()
            summary = run.summary
            score = float(summary.get("test_accuracy", summary.get("test_f1_micro", float("nan"))))
            sent = run.records[["bytes_payload", "bytes_params"]].sum().sum() / epochs / 1e6
            lines.append((bits, 1e3 * summary["epoch_s"], sent, summary["final_loss"], 100 * score))
    columns = ["bits", "epoch (ms)", "MB an epoch", "final loss", "accuracy (%)"]
    groups = pd.DataFrame(lines, columns=columns).groupby("bits", sort=False)
    table = groups.mean()
    table["epoch (ms)"] = groups["epoch (ms)"].median()
    table["± (points)"] = [
        interval(group["accuracy (%)"].tolist())[1] if len(seeds) > 1 else float("nan") for _, group in groups
    ]
    return table
