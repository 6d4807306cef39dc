"""Products in codes: trainings by precision, seconds of products, and saved activations (TANGO section 3.2, EXACT)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from gnnqlab.compute import Int8Products
from gnnqlab.compute.products import Compute
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.codec.quantize import quantize
from gnnqlab.kernels.sparse.int8_edges import int8_sddmm_dot, int8_weighted_sum
from gnnqlab.kernels.sparse.sddmm import sddmm_dot, weighted_sum
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.theory.intervals import interval
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = [
    "compare_precisions", "draw_kept", "draw_losses", "draw_times", "kept_table", "time_products", "train_rounded",
]  # fmt: skip


def train_rounded(
    graph: Graph,
    computes: Mapping[str, Compute],
    *,
    seeds: Sequence[int] = (0,),
    epochs: int = 60,
    model: ModelSettings | None = None,
    every: int = 5,
) -> DataFrame:
    """Train once a seed with each precision; scores are those of the weights in that precision.

    Args:
        graph: the whole graph.
        computes: parts of the axis ``compute``, by name.
        seeds: of weights and noise.
        epochs: of each training.
        model: by default a GCN of two layers, 32 wide; without dropout in any case.
        every: epochs between two looks at the score.

    Returns:
        One row a look: ``compute, seed, epoch, loss`` (before the step), ``score`` (on the test nodes, in [0, 1]).

    Raises:
        ValueError: if an epoch never comes.

    Example:
        >>> from gnnqlab.compute import Float32Products, Int8Products
        >>> from gnnqlab.graph import load
        >>> found = train_rounded(load("sbm:60,3,6"), {"float32": Float32Products(), "int8": Int8Products()}, epochs=10)
        >>> found["epoch"].tolist()
        [4, 9, 4, 9]
    """
    import pandas as pd

    if epochs < 1 or every < 1:
        raise ValueError(f"epochs and every must be at least 1, got {epochs} and {every}")
    shape = replace(model or ModelSettings(layers=2, hidden=32), dropout=0.0, input_dropout=0.0)
    rows = []
    for seed in seeds:
        for name, compute in computes.items():
            network = build_model(shape, graph.num_features, graph.num_classes, seed=seed)
            local = LocalGraph(graph, seed=seed, products=compute.build())
            if not getattr(network, "takes_sparse_input", False):
                local.densify_features()
            trainer = Trainer(local, label_objective(graph), network, TrainSettings(seed=seed, lr=0.01))
            for epoch in range(epochs):
                loss = trainer.epoch(epoch)
                if epoch % every == every - 1 or epoch == epochs - 1:
                    score = trainer.evaluate(epoch).test
                    rows.append({"compute": name, "seed": seed, "epoch": epoch, "loss": loss, "score": score})
    return pd.DataFrame(rows)


_STYLES = (
    "grey solid circle", "blue solid square", "vermillion dash diamond", "green dot triangle-up", "purple dashdot x",
    "orange dash star",
)  # fmt: skip


def compare_precisions(found: DataFrame, *, beside: str = "float32") -> DataFrame:
    """Return each precision's last test score, and the difference to one of them by seed with a 95 % interval.

    Args:
        found: of :func:`gnnqlab.course.experiments.training_in_codes.train_rounded`.
        beside: the precision that the others are compared with.

    Raises:
        ValueError: if that one was not trained.

    Example:
        >>> import pandas as pd
        >>> facts = {"compute": ["float32", "int8"] * 2, "seed": [0, 0, 1, 1], "epoch": 9, "loss": 1.0}
        >>> table = compare_precisions(pd.DataFrame({**facts, "score": [0.9, 0.8, 0.9, 0.8]}))
        >>> table.loc["int8"].to_dict()
        {'score (%)': 80.0, 'beside float32 (points)': -10.0, '±': 0.0}
    """
    import pandas as pd

    last = found[found["epoch"] == found["epoch"].max()]
    scores = 100 * last.pivot(index="seed", columns="compute", values="score")
    if beside not in scores:
        raise ValueError(f"{beside!r} must be among the trainings to be compared with, got {sorted(scores)}")
    apart = scores.sub(scores[beside], axis=0)
    table = pd.DataFrame({"score (%)": scores.mean(), f"beside {beside} (points)": apart.mean()})
    table["±"] = [interval(apart[name].tolist())[1] for name in table.index]
    return table.loc[found["compute"].unique()].round(2)


def draw_losses(found: DataFrame, *, title: str = "The loss in several precisions", dark: bool = False) -> FigureData:
    """Draw the mean loss over epochs, a line for each precision.

    Args:
        found: one row an epoch and seed, with ``compute, epoch, loss``.
        title: of the figure.

    Raises:
        ValueError: if there is no row, or more precisions than lines that can be told apart.
    """
    names = list(found["compute"].unique())
    if not 1 <= len(names) <= len(_STYLES):
        raise ValueError(f"between 1 and {len(_STYLES)} precisions can be drawn, got {len(names)}")
    means = found.pivot_table(index="epoch", columns="compute", values="loss")[names]
    figure = lines(
        means,
        y=names,
        styles=_STYLES,
        x_axis="epoch",
        y_axis="training loss (nats)",
        log="y",
        title=title,
        dark=dark,
        height=380,
        legend_rows=1 if len(names) < 4 else 2,
    )
    return FigureData(figure, means)


_PARTS = {"float32": "float32", "codes": "product of codes", "quantize": "quantization"}
_PURPOSES = ("blue", "orange /", "green x", "purple .", "grey -")


def time_products(adjacency: Adjacency, *, heads: int = 4, features: int = 32, repeats: int = 15) -> DataFrame:
    """Return the median milliseconds of the three products of an attention layer, in float32 and from codes.

    Indicative: one short measurement beside whatever else runs; ``gnnqlab bench int8`` is the one to quote.

    Args:
        adjacency: of the edges; as many rows as columns.
        heads, features: K and F of a head; the dense product is of ``K F`` columns by as many.
        repeats: of each; the median counts.

    Returns:
        A row a product; columns ``float32``, ``codes`` (the product alone) and ``quantize`` (of its operands).

    Raises:
        ValueError: if nothing is to be measured.
    """
    import pandas as pd

    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    generator, width = torch.Generator().manual_seed(0), heads * features
    x = torch.randn(adjacency.num_columns, width, generator=generator)
    weight = torch.randn(width, width, generator=generator)
    attention = torch.rand(adjacency.num_edges, heads, generator=generator)
    by_head, rows = x.view(-1, heads, features), quantize(x)
    products = Int8Products().build()
    a, b = products.operand(x), products.weight(weight)
    edges = {"float32": lambda: sddmm_dot(adjacency, by_head, by_head), "quantize": lambda: quantize(x)}
    contests: dict[str, dict[str, Callable[[], object]]] = {
        "GEMM": {
            "float32": lambda: x @ weight,
            "codes": lambda: products.mm(a, b),
            "quantize": lambda: (quantize(x), quantize(weight, scale="tensor")),
        },
        "SDDMM dot": {**edges, "codes": lambda: int8_sddmm_dot(adjacency, rows, rows, heads=heads)},
        "SPMM, heads": {
            **edges,
            "float32": lambda: weighted_sum(adjacency, attention, by_head),
            "codes": lambda: int8_weighted_sum(adjacency, attention, rows, heads=heads),
        },
    }
    found = {
        product: {part: 1000 * _median_s(run, repeats) for part, run in parts.items()}
        for product, parts in contests.items()
    }
    return pd.DataFrame.from_dict(found, orient="index")[list(_PARTS)]


def draw_times(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`time_products`: float32 above, what codes cost with their quantization below."""
    shares = "; ".join(
        f"{name}: {row['quantize'] / (row['codes'] + row['quantize']):.0%}" for name, row in frame.iterrows()
    )
    figure = bars(
        frame,
        y=_PARTS,
        styles=["grey", "blue", "orange /"],
        horizontal=True,
        zero="x",
        x_axis="median time (ms)",
        y_axis="product",
        title="Where the time goes",
        caption=f"Share of quantization in what codes cost: {shares}. Indicative, measured in this notebook.",
        dark=dark,
        height=380,
    )
    for trace, group in zip(figure.data, ("float32", "codes", "codes")):
        trace.offsetgroup = group
    figure.data[2].base = frame["codes"].tolist()
    return FigureData(figure, frame.round(3))


def kept_table(kept: Mapping[str, Mapping[str, int]]) -> DataFrame:
    """Return MiB kept for the backward pass: a row a setting, a column a purpose, the total, and float32 over it.

    Args:
        kept: setting -> bytes by purpose, the first being float32's.

    Example:
        >>> kept_table({"float32": {"rows": 2**21}, "2 bits": {"rows": 2**17}})["times less"].tolist()
        [1.0, 16.0]
    """
    import pandas as pd

    frame = pd.DataFrame.from_dict(kept, orient="index") / 2**20
    frame = frame.loc[:, (frame > 0).any()]
    total = frame.sum(axis=1)
    return frame.assign(total=total, **{"times less": total.iloc[0] / total})


def draw_kept(table: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`kept_table` as bars on each other, a colour a purpose.

    Raises:
        ValueError: if there are more purposes than bars that can be told apart.
    """
    purposes = [name for name in table if name not in ("total", "times less")]
    if len(purposes) > len(_PURPOSES):
        raise ValueError(f"at most {len(_PURPOSES)} purposes can be drawn, got {len(purposes)}")
    told = "; ".join(f"{name}: {row['total']:.3g} MiB" for name, row in table.iterrows())
    figure = bars(
        table,
        y=purposes,
        styles=_PURPOSES,
        stacked=True,
        x_axis="activations kept in",
        y_axis="kept for the backward pass (MiB)",
        zero="y",
        title="What EXACT keeps",
        caption=f"Kept by one training pass: {told}.",
        dark=dark,
        height=380,
    )
    return FigureData(figure, table.round(3))


def _median_s(run: Callable[[], object], repeats: int) -> float:
    run()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
