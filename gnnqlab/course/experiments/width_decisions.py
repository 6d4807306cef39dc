"""Effect of decisions about bit-widths: importance at equal bytes, and planned bit-widths.

Seconds of a run are shown by purpose, as in SYLVIE Figs. 12 and 13.

The effect of importance is measured by permuting the bit-widths among the rows of a message, so that its bytes do not
change. SYLVIE has no such ablation. Notebook 26 has the figures of three graphs: importance by in-degree (section IV-A)
helps on two of them and not on ``cora``; Σα² at the receiver is better on all three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.bits.assigner.groups import use_of_halo
from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.orchestrator import HALVES, Orchestrated, by_importance
from gnnqlab.bits.policy import BitPolicy, Rows
from gnnqlab.former_names import former_functions
from gnnqlab.graph.graph import Graph
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines, panels, scatter
from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.cut import cut_name
from gnnqlab.partition.parts import cut_graph
from gnnqlab.partition.shard import Shard
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.run.run import Run

__all__ = [
    "MASKS", "PURPOSES", "PermutedWidths", "draw_importance_ablation", "draw_overhead", "draw_plan",
    "importance_ablation", "mean_width", "overhead", "plan_table",
]  # fmt: skip
__getattr__ = former_functions(__name__, {"MovedWidths": "PermutedWidths"})

MASKS = ("importance", "shuffled", "reversed", "Σα²")
"""Rule that gives a message's larger bit-widths to its rows: high in-degree (SYLVIE); random; low in-degree; high Σα²
at the receiver."""
_ALPHA = {"gcn": "symmetric", "graphsage": "mean"}
"""Model -> its α."""


@dataclass(frozen=True, eq=False)
class PermutedWidths(BitPolicy):
    """Bit policy with the bit-widths of importance, permuted among the rows of the same message.

    Args:
        shards: shards of all workers.
        alpha: kind of α, for Σα².
        mask: one of :data:`MASKS`.
        base: smallest bit-width.
        thresholds: thresholds of importance.
        seed: seed of the random order, also among rows that a mask ranks equally.
    """

    shards: Sequence[Shard]
    alpha: str
    mask: str = "importance"
    base: int = 1
    thresholds: tuple[float, ...] = HALVES
    seed: int = 0
    _widths_of_pair: dict[tuple[str, int, int], Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.mask not in MASKS:
            raise ValueError(f"mask must be one of {MASKS}, got {self.mask!r}")

    @property
    def choices(self) -> tuple[int, ...]:
        return Orchestrated().bit_widths

    def version(self, epoch: int) -> int:
        return 0  # constant: the bit-widths never change

    def widths(self, rows: Rows, epoch: int) -> Tensor:
        """Return the bit-width of every row of a message; the same in all layers."""
        key = rows.direction, rows.sender, rows.receiver  # layers share the rows of a message
        if key not in self._widths_of_pair:
            self._widths_of_pair[key] = self._permute(rows)
        return self._widths_of_pair[key]

    def _permute(self, rows: Rows) -> Tensor:
        # Importance is stored by the worker that holds the copy: the receiver forward, the sender backward.
        holder, owner = (rows.receiver, rows.sender) if rows.direction == "forward" else (rows.sender, rows.receiver)
        shard = self.shards[holder]
        place = shard.plan("forward").from_peer(owner).rows  # positions of the rows in the holder's halo
        p = shard.importance[shard.num_owned + place]  # (n,), the order of the message
        assert torch.equal(shard.halo[place], rows.ids.cpu())
        widths = by_importance(p, self.base, self.choices, self.thresholds)
        if self.mask == "importance":
            return widths
        # One seed per (sender, receiver, direction), so that messages are shuffled independently.
        generator = torch.Generator().manual_seed(
            self.seed * 1_000_003 + 2 * (rows.sender * len(self.shards) + rows.receiver) + (rows.direction == "forward")
        )
        shuffle = torch.randperm(widths.numel(), generator=generator)
        if self.mask == "shuffled":
            return widths[shuffle]
        # rank of a row: high for a low in-degree, or for a high Σα²
        rank = -p if self.mask == "reversed" else use_of_halo(shard, shard.alpha(self.alpha))[place]
        permuted_widths = torch.empty_like(widths)
        # Sort the shuffled rows by rank, so that ties are in random order; the largest bit-widths go to the top ranks.
        permuted_widths[shuffle[rank[shuffle].argsort(stable=True)]] = widths.sort().values
        return permuted_widths


def importance_ablation(
    graph: Graph,
    model: ModelSettings,
    *,
    workers: int = 8,
    base: int = 1,
    thresholds: tuple[float, ...] = HALVES,
    epochs: int = 20,
    repeats: int = 12,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    system: System | None = None,
    hosts: int = 1,
) -> DataFrame:
    """Measure the gradient's variance at trained weights for each mask; every mask sends the same bytes.

    Args:
        graph: the whole graph.
        model: ``gcn`` or ``graphsage``; its dropout is switched off.
        workers: number of partitions, threads of this process, at least 2.
        base: smallest bit-width; it must be below the largest, or all rows have the same.
        thresholds: thresholds of importance.
        epochs: epochs trained before with float32 messages.
        repeats: passes with independent noise, for each seed and mask.
        seeds: seeds of weights, noise and shuffling.
        system: system whose partitioner is used; METIS by default.
        hosts: number of hosts for partitioner and exchange, with equally many workers each.

    Returns:
        By ``mask``: ``variance``, the mean over seeds of the variance over the squared gradient; ``ratio``, the mean of
        its ratio to that of importance with the same seed, above 1 if importance is better, and ``±``, half its 95 %
        interval; ``bits``, the mean bit-width of a row, the same in all lines.

    Raises:
        ValueError: if the model is another, the partition is no edge-cut, or all rows have the same bit-width.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> recipe, shape = replace(make_system("vanilla"), partition=Random()), ModelSettings(layers=2, hidden=8)
        >>> settings = {"workers": 2, "epochs": 1, "repeats": 3, "seeds": (0, 1), "system": recipe}
        >>> found = importance_ablation(load("sbm:60,3,6"), shape, **settings)
        >>> found.index.tolist(), float(found.loc["importance", "ratio"])
        (['importance', 'shuffled', 'reversed', 'Σα²'], 1.0)
    """
    import pandas as pd

    if model.name not in _ALPHA:
        raise ValueError(f"model must be one of {tuple(_ALPHA)}, whose α are known, got {model.name!r}")
    if base >= Orchestrated().bit_widths[-1]:
        raise ValueError(
            f"base must be below {Orchestrated().bit_widths[-1]} for rows to differ in bit-width, got {base}"
        )
    shape = replace(model, dropout=0.0, input_dropout=0.0)  # dropout would add variance of its own
    recipe = (system or make_system("vanilla")).on_hosts(hosts)
    if (cuts := recipe.partition.cuts) != "nodes":
        raise ValueError(
            f"importance is that of halo rows, which need an edge-cut, got {cut_name(cuts)}; choose METIS() or Random()"
        )
    cut = cut_graph(graph, recipe.partition, workers)
    shards = list(cut.build_shards(graph))
    variances_by_mask: dict[str, list[float]] = {mask: [] for mask in MASKS}
    for seed in seeds:
        weights = trained_weights(graph, shape, epochs, seed=seed)  # the same weights for all masks of a seed
        for mask in MASKS:
            policy = PermutedWidths(shards, _ALPHA[model.name], mask, base, thresholds, seed)
            noise = gradient_noise(
                graph, policy, shape, workers=workers, repeats=repeats, weights=weights, system=recipe, seed=seed
            )
            variances_by_mask[mask].append(noise.relative)
    lines = {}
    for mask, variances in variances_by_mask.items():
        # paired by seed: the ratio to importance
        ratio, half = interval(
            [variance / base_variance for variance, base_variance in zip(variances, variances_by_mask["importance"])]
        )
        lines[mask] = {"variance": sum(variances) / len(variances), "ratio": ratio, "±": half}
    table = pd.DataFrame(lines).T.rename_axis("mask")  # one row per mask
    return table.assign(bits=_mean_bits(shards, base, thresholds))


def _mean_bits(shards: Sequence[Shard], base: int, thresholds: tuple[float, ...]) -> float:
    p = torch.cat([shard.importance[shard.num_owned :] for shard in shards])  # importance of all halo rows
    return float(by_importance(p, base, Orchestrated().bit_widths, thresholds).double().mean())


_STYLES = dict(zip(MASKS[1:], ("blue circle", "vermillion square", "green diamond"), strict=True))


def draw_importance_ablation(tables: Mapping[str, DataFrame], *, dark: bool = False) -> FigureData:
    """Draw the variance of each mask over that of importance, with intervals; above 1 importance is better.

    Args:
        tables: label -> result of :func:`gnnqlab.course.experiments.width_decisions.importance_ablation`.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no table.
    """
    import pandas as pd

    if not tables:
        raise ValueError("a table of importance_ablation is needed, got none")
    words = "; ".join(
        f"{name} "
        + ", ".join(f"{mask} {table.loc[mask, 'ratio']:.2f} ± {table.loc[mask, '±']:.2f}" for mask in _STYLES)
        for name, table in tables.items()
    )
    ratios = pd.concat(tables, names=["measured", "mask"])
    rows = ratios.reset_index()
    figure = scatter(
        rows[rows["mask"].isin(list(_STYLES))],
        x="measured",
        y="ratio",
        by="mask",
        styles=_STYLES,
        size=9,
        error="±",
        details="±",
        hover="%{x}: %{y:.2f} ± %{customdata:.2f}",
        # Only the other masks are drawn; importance is the level 1.
        levels={"": 1.0},
        log="y",
        x_axis="graph and model",
        y_axis="gradient variance / that with importance",
        title="The same bit-widths on other rows",
        caption=f"Gradient variance at equal bytes over that with importance (95 % intervals): {words}.",
        dark=dark,
        height=400,
    )
    return FigureData(figure.update_layout(scattermode="group"), ratios)


# ratios, symmetric around 1
PURPOSES = {
    "computation": ("central_s", "marginal_s", "dense_s", "optimizer_s", "other_s"),
    "communication": ("wait_s", "reduce_s"),
    "encode, decode": ("encode_s", "decode_s"),
    "coordination": ("assign_s",),
}
"""Purpose -> phases of an epoch.

Encoding and decoding is copying if nothing is quantized. Looking up bit-widths and computing new message layouts is
coordination too."""
_PURPOSE_STYLES = ("green", "vermillion /", "purple x", "blue .", "orange \\")


def overhead(records: DataFrame, *, offline_s: float = 0.0) -> Series:
    """Return the seconds of a whole run by purpose, mean over workers, without evaluation.

    Args:
        records: ``run.records``.
        offline_s: seconds of the stage before training, SYLVIE's Graph Extractor: ``run.summary["extract_s"]``.

    Returns:
        Seconds by purpose of `PURPOSES`, and ``offline``.
    """
    import pandas as pd

    # seconds of the run per worker, then the mean over workers
    totals = records.groupby("rank").sum(numeric_only=True).mean()
    seconds = {name: float(totals[list(columns)].sum()) for name, columns in PURPOSES.items()}
    return pd.Series({**seconds, "offline": offline_s}, name="seconds").rename_axis("purpose")


def draw_overhead(seconds: DataFrame, *, link: str = "", dark: bool = False) -> FigureData:
    """Draw `overhead` of one or several runs as stacked bars of shares.

    Args:
        seconds: seconds by purpose, one column per run.
        link: link of the measurements, for the caption.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no run, or one without seconds.
    """
    if seconds.empty or not (seconds.sum() > 0).all():
        raise ValueError("seconds of at least one run are needed, got none; see overhead")
    shares = 100 * seconds / seconds.sum()  # percent of all seconds of a run
    words = "; ".join(
        f"{label} " + ", ".join(f"{purpose} {share:.2g} %" for purpose, share in shares[label].items() if share)
        for label in shares
    )
    figure = bars(
        shares.T,
        y=list(shares.index),
        styles=_PURPOSE_STYLES,
        stacked=True,
        horizontal=True,
        x_axis={"title_text": "share of all seconds (%)", "range": [0, 100]},
        y_axis="system",
        title="Time of a run by purpose",
        caption=f"Time of a run by purpose: {words}." + (f" Link: {link}." if link else ""),
        dark=dark,
        height=210 + 44 * len(shares.columns),
        legend_rows=2,
    )
    return FigureData(figure, seconds)


# bits weighted by rows, per epoch
_RUN_STYLES = ("vermillion", "blue dash", "green dot", "grey dashdot", "purple longdash", "orange")


def mean_width(traffic: DataFrame) -> Series:
    """Return the mean bit-width of rows by epoch, over all messages of ``run.traffic``."""
    bits = (traffic["bits"] * traffic["rows"]).groupby(traffic["epoch"]).sum()
    mean = bits / traffic.groupby("epoch")["rows"].sum()
    return mean.rename("bits")


def plan_table(runs: Mapping[str, Run]) -> DataFrame:
    """Return one line per run: ``mean bits``, ``MB in all``, ``final loss`` and ``accuracy (%)``."""
    import pandas as pd

    lines = {}
    for label, run in runs.items():
        # multi-label graphs report micro-F1
        score = run.summary.get("test_accuracy", run.summary.get("test_f1_micro", float("nan")))
        megabytes = float(run.records[["bytes_payload", "bytes_params"]].sum().sum()) / 1e6  # bytes -> MB
        lines[label] = (float(mean_width(run.traffic).mean()), megabytes, run.summary["final_loss"], 100 * float(score))
    columns = ["mean bits", "MB in all", "final loss", "accuracy (%)"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("run")


def draw_plan(
    records: Mapping[str, DataFrame],
    traffic: Mapping[str, DataFrame],
    *,
    title: str = "Planned and fixed bit-widths",
    dark: bool = False,
) -> FigureData:
    """Draw mean bit-width and loss by epoch, and the loss by bytes sent so far, one line per run.

    For runs with fixed bit-widths the last panel is SYLVIE Fig. 6(b), loss by bytes; Fig. 6(a), loss by time, is in
    ``gq.compare``.

    Args:
        records: label -> ``run.records``.
        traffic: label -> ``run.traffic``.
        title: title of the figure.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no run, or one without traffic.
    """
    import pandas as pd

    if not records or set(records) != set(traffic):
        raise ValueError(f"records and traffic of the same runs are needed, got {list(records)} and {list(traffic)}")
    table, epochs = {}, {}
    for label, frame in records.items():
        width, loss = mean_width(traffic[label]), by_epoch(frame).set_index("epoch")["loss"]  # per epoch
        # cumulative MB of all workers
        megabytes = frame.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1).cumsum() / 1e6
        table[label] = {"mean bits": width.mean(), "MB in all": megabytes.iloc[-1], "final loss": loss.iloc[-1]}
        epochs[label] = pd.DataFrame({"bits": width, "loss": loss, "sent": megabytes})
    rows = pd.concat(epochs, names=["run", "epoch"]).reset_index()
    widths = {"title_text": "mean bits per element", "tickvals": [1, 2, 4, 8, 16, 32], "range": [-0.1, 1.6]}
    charts = [
        lines(
            rows.dropna(subset=[x, y]), x=x, y=y, by="run", styles=_RUN_STYLES, mode="lines", shape=shape, log="y",
            x_axis=x_axis, y_axis=y_axis,
        )
        for x, y, shape, x_axis, y_axis in (
            ("epoch", "bits", "hv", "epoch", widths),
            ("epoch", "loss", "linear", "epoch", "training loss"),
            ("sent", "loss", "linear", "sent so far (MB)", "training loss"),
        )
    ]  # fmt: skip
    words = "; ".join(
        f"{label}: {human_bits(line['mean bits'])}, {line['MB in all']:.3g} MB, loss {line['final loss']:.3g}"
        for label, line in table.items()
    )
    caption = f"Mean bits per element, total bytes and final loss: {words}."
    figure = panels(charts, gap=0.13, title=title, caption=caption, dark=dark, height=370, legend_below=True)
    return FigureData(figure, pd.DataFrame.from_dict(table, orient="index").rename_axis("run"))
