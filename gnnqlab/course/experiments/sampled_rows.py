"""Boundary sampling: rows omitted in an epoch, aggregations and their variance, and trainings by sampling rate.

Letters: V owned rows of a worker, H its halo rows, D columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels, scatter
from gnnqlab.launch.start import launch
from gnnqlab.message.samplers import BoundarySampling

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts
    from gnnqlab.partition.shard import Shard
    from gnnqlab.systems.system import System

__all__ = ["compare_shares", "draw_shares", "draw_sums", "unsampled_nodes", "sampled_sums", "variance_by_share"]
__getattr__ = former_functions(__name__, {"left_out": "unsampled_nodes"})


def unsampled_nodes(parts: Parts, sampler: BoundarySampling, *, epoch: int, seed: int = 0) -> dict[int, list[int]]:
    """Return the halo nodes of each worker whose rows are not sampled in an epoch, as training draws them.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> small = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> unsampled_nodes(small, BoundarySampling(p=0.0), epoch=0)
        {0: [5, 7], 1: [3, 4]}
    """
    nodes_by_rank = {}
    for rank, shard in enumerate(parts.shards):
        # the same draw as in training: by worker, seed and epoch
        sampled_nodes = set(
            shard.halo[sampler.sampled_positions(shard.halo, holder=rank, seed=seed, epoch=epoch)].tolist()
        )
        nodes_by_rank[rank] = [node for node in shard.halo.tolist() if node not in sampled_nodes]
    return nodes_by_rank


def sampled_sums(
    parts: Parts, node: int, sampler: BoundarySampling, *, rows: Tensor, epochs: int, seed: int = 0
) -> DataFrame:
    """Return the aggregation of a node in every epoch, with a sample of its halo neighbours.

    ``z = sum_(own u) a_vu h_u + sum_(sampled u) a_vu h_u / p`` with GCN's ``a`` from the degrees of the whole graph, as
    a worker with this sampler computes it.

    Args:
        parts: the partition.
        node: node v.
        sampler: sampler of halo rows, with the factor 1 / p.
        rows: one number per node, ``(N,)``.
        epochs: number of epochs.
        seed: seed of the samples.

    Returns:
        By ``epoch``: ``kept`` (sampled nodes as text), ``sum``, ``mean so far``, and ``all rows``, without sampling.
    """
    import pandas as pd

    rank = int(parts.owner[node])
    shard = parts.shards[rank]
    matrix = _matrix(shard)[int((shard.owned == node).nonzero())]  # one row of the aggregation matrix, (V + H,)
    owned_weights, halo_weights = matrix[: shard.num_owned], matrix[shard.num_owned :]
    owned_sum = float(owned_weights @ rows[shard.owned])  # owned neighbours are never sampled
    lines, total = [], 0.0
    for epoch in range(epochs):
        sampled_positions = sampler.sampled_positions(shard.halo, holder=rank, seed=seed, epoch=epoch)
        # sampled halo rows that are neighbours of the node
        neighbours = sampled_positions[halo_weights[sampled_positions] != 0]
        # factor 1 / p makes the estimate unbiased
        value = owned_sum + sampler.rescale * float(halo_weights[neighbours] @ rows[shard.halo[neighbours]])
        total += value
        names = ", ".join(str(int(u)) for u in shard.halo[neighbours]) or "none"
        lines.append((epoch, names, value, total / (epoch + 1)))
    frame = pd.DataFrame(lines, columns=["epoch", "kept", "sum", "mean so far"]).set_index("epoch")
    frame["all rows"] = owned_sum + float(halo_weights @ rows[shard.halo])
    return frame


def variance_by_share(
    parts: Parts, rows: Tensor, shares: Sequence[float], *, epochs: int = 400, seed: int = 0
) -> DataFrame:
    """Return the variance of sampled aggregations, measured and by formula.

    ``Var z_v = (1 - p) / p  sum_(u in halo) a_vu^2 |h_u|^2``, summed over all owned nodes of all workers.

    Args:
        parts: the partition.
        rows: rows of all nodes, ``(N, D)``.
        shares: values of p above 0.
        epochs: number of samples to average.
        seed: seed of the samples.

    Returns:
        By ``p``: ``measured`` and ``formula`` (squared unit of a row), ``relative (%)``: the root of the measured
        variance over the norm of the aggregations without sampling.

    Raises:
        ValueError: if a share is 0: without any row no estimate is unbiased.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> small = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> variance_by_share(small, small.graph.features, [1.0])["measured"].tolist()
        [0.0]
    """
    import pandas as pd

    if min(shares) <= 0:
        raise ValueError(f"shares must be above 0 for a variance to exist, got {min(shares)}")
    lines = []
    for share in shares:
        sampler = BoundarySampling(p=share)
        # p after rounding to a number of rows, as in training
        p, measured_variance, formula, length = 1 / sampler.rescale, 0.0, 0.0, 0.0
        for rank, shard in enumerate(parts.shards):
            matrix, halo = _matrix(shard), rows[shard.halo]
            halo_weights = matrix[:, shard.num_owned :]
            # squared norm of the exact aggregation
            length += float((matrix[:, : shard.num_owned] @ rows[shard.owned] + halo_weights @ halo).square().sum())
            # Σ_v a_vu² |h_u|², summed over halo nodes u
            formula += (1 - p) / p * float(halo_weights.square().sum(0) @ halo.square().sum(1))
            for epoch in range(epochs):
                factor = halo.new_full((shard.num_halo, 1), -1.0)  # factor of a row minus 1, that of the full sum
                factor[sampler.sampled_positions(shard.halo, holder=rank, seed=seed, epoch=epoch)] += sampler.rescale
                # squared deviation from the full sum, mean over epochs
                measured_variance += float((halo_weights @ (factor * halo)).square().sum()) / epochs
        lines.append((share, measured_variance, formula, 100 * (measured_variance / length) ** 0.5))
    return pd.DataFrame(lines, columns=["p", "measured", "formula", "relative (%)"]).set_index("p")


def _matrix(shard: Shard) -> Tensor:
    """Return GCN's aggregation matrix of a worker, dense ``(V, V + H)``."""
    counts = shard.indptr.diff()  # edges per owned row
    matrix = torch.zeros(shard.num_owned, shard.num_owned + shard.num_halo)
    # (row, column) of every edge
    places = (torch.arange(shard.num_owned).repeat_interleave(counts), shard.indices.long())
    return matrix.index_put_(places, shard.alpha("symmetric"), accumulate=True)  # parallel edges add up


def compare_shares(
    graph: Graph,
    system: System,
    shares: Sequence[float],
    *,
    seeds: Sequence[int] = (0,),
    epochs: int = 60,
    **settings: Any,
) -> DataFrame:
    """Train with a share p of the boundary rows; p = 1 is Vanilla, p = 0 trains every worker on its own.

    Args:
        graph: the graph.
        system: system whose sampler is replaced.
        shares: values of p.
        seeds: seeds, with one run per share and seed.
        epochs: epochs of every run.
        **settings: settings of ``gq.launch``: ``workers``, ``hidden`` and so on.

    Returns:
        One line per run: ``p``, ``seed``, ``accuracy (%)``, ``final loss``, ``MB an epoch``.
    """
    import pandas as pd

    lines = []
    for seed in seeds:
        for share in shares:
            variant = replace(system, sampler=BoundarySampling(p=share))
            run = launch(graph, system=variant, epochs=epochs, seed=seed, **settings).wait()
            summary = run.summary  # multi-label graphs report micro-F1
            score = float(summary.get("test_accuracy", summary.get("test_f1_micro", float("nan"))))
            # bytes of an epoch in MB
            megabytes = float(run.records[["bytes_payload", "bytes_params"]].sum().sum()) / epochs / 1e6
            lines.append((share, seed, 100 * score, summary["final_loss"], megabytes))
    return pd.DataFrame(lines, columns=["p", "seed", "accuracy (%)", "final loss", "MB an epoch"])


def draw_sums(frame: DataFrame, *, node: int | None = None, dark: bool = False) -> FigureData:
    """Draw `sampled_sums`: one point per epoch, the mean so far, and the sum over all rows."""
    exact_sum, mean = float(frame["all rows"].iloc[-1]), float(frame["mean so far"].iloc[-1])
    node_text = "" if node is None else f" of node {node}"
    caption = (
        f"The sum{node_text} in {len(frame)} epochs lies between {frame['sum'].min():.3g} and "
        f"{frame['sum'].max():.3g}; its mean is {mean:.3g}; the sum over all rows is {exact_sum:.3g}."
    )
    figure = scatter(frame, y={"sum": "sum in an epoch"}, styles=["sky"], size=6, details="kept")
    lines(
        frame,
        y={"mean so far": "mean of the epochs so far", "all rows": "sum over all rows"},
        mode="lines",
        styles=["blue", "vermillion dash"],
        details="kept",
        figure=figure,
        x_axis="epoch",
        y_axis="sum over the neighbours (unit of a row)",
        title=f"Aggregation{node_text} of sampled rows",
        caption=caption,
        dark=dark,
        height=340,
    )
    return FigureData(figure, frame)


def draw_shares(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw `compare_shares`: accuracy, final loss and bytes over p, one point per run, and the means.

    Raises:
        ValueError: if there is no run.
    """
    if frame.empty:
        raise ValueError("a line for each run is needed, got none; see compare_shares")
    values = {
        "accuracy (%)": ("test accuracy (%)", "blue circle"),
        "final loss": ("training loss at the end", "vermillion diamond"),
        "MB an epoch": ("sent (MB per epoch)", "green square"),
    }
    means = frame.groupby("p")[list(values)].mean()
    names = [f"{share:g}" for share in means.index]
    charts = []
    for value, (label, style) in values.items():
        chart = scatter(
            frame.assign(p=[f"{share:g}" for share in frame["p"]]),
            x="p",
            y={value: "one run"},
            size=7,
            styles=[f"grey {style.split()[1]}-open"],
            y_axis=label,
            x_axis={"title_text": "share p of rows", "type": "category", "categoryarray": names},
        )
        # The axis of p is categorical, so a line between the means would have no meaning.
        charts.append(scatter(means.set_axis(names), y={value: "mean"}, styles=[style], size=11, figure=chart))
    words = "; ".join(
        f"p = {name}: {line['accuracy (%)']:.1f} %, loss {line['final loss']:.3g}, {line['MB an epoch']:.2g} MB"
        for name, (_, line) in zip(names, means.iterrows())
    )
    runs = int(frame.groupby("p").size().min())
    caption = f"Accuracy, loss and bytes by share of boundary rows, {runs} run{'s' if runs > 1 else ''} each: {words}."
    title = "Accuracy and bytes by share of boundary rows"
    return FigureData(panels(charts, gap=0.1, title=title, caption=caption, dark=dark, legend_below=True), means)
