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
from gnnqlab.former_names import former_functions
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
    "compare_precisions", "draw_saved_bytes", "draw_losses", "draw_times", "saved_bytes_table", "time_products",
    "train_rounded",
]  # fmt: skip
__getattr__ = former_functions(__name__, {"kept_table": "saved_bytes_table", "draw_kept": "draw_saved_bytes"})


def train_rounded(
    graph: Graph,
    computes: Mapping[str, Compute],
    *,
    seeds: Sequence[int] = (0,),
    epochs: int = 60,
    model: ModelSettings | None = None,
    every: int = 5,
) -> DataFrame:
    """Train once per seed and precision, and evaluate with products of that precision.

    Args:
        graph: the whole graph.
        computes: name -> part of the axis ``compute``.
        seeds: seeds of weights and noise.
        epochs: epochs of each training.
        model: by default a GCN of two layers with 32 columns; always without dropout.
        every: epochs between evaluations.

    Returns:
        One row per evaluation: ``compute, seed, epoch, loss`` (before the step), ``score`` (on test nodes, in [0, 1]).

    Raises:
        ValueError: if ``epochs`` or ``every`` is below 1.

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
    # no dropout: trainings differ in precision only
    shape = replace(model or ModelSettings(layers=2, hidden=32), dropout=0.0, input_dropout=0.0)
    rows = []
    for seed in seeds:
        for name, compute in computes.items():
            network = build_model(shape, graph.num_features, graph.num_classes, seed=seed)
            local_graph = LocalGraph(graph, seed=seed, products=compute.build())
            # sparse features stay sparse only for models that support them
            if not getattr(network, "takes_sparse_input", False):
                local_graph.densify_features()
            trainer = Trainer(local_graph, label_objective(graph), network, TrainSettings(seed=seed, lr=0.01))
            for epoch in range(epochs):
                loss = trainer.epoch(epoch)
                if epoch % every == every - 1 or epoch == epochs - 1:  # after every k-th epoch, and after the last
                    score = trainer.evaluate(epoch).test
                    rows.append({"compute": name, "seed": seed, "epoch": epoch, "loss": loss, "score": score})
    return pd.DataFrame(rows)


# One style per precision, in the order of the table.
_STYLES = (
    "grey solid circle", "blue solid square", "vermillion dash diamond", "green dot triangle-up", "purple dashdot x",
    "orange dash star",
)  # fmt: skip


def compare_precisions(found: DataFrame, *, beside: str = "float32") -> DataFrame:
    """Return each precision's last test score, and its paired difference from a baseline with a 95 % interval.

    Args:
        found: result of :func:`gnnqlab.course.experiments.training_in_codes.train_rounded`.
        beside: the baseline precision.

    Raises:
        ValueError: if the baseline was not trained.

    Example:
        >>> import pandas as pd
        >>> facts = {"compute": ["float32", "int8"] * 2, "seed": [0, 0, 1, 1], "epoch": 9, "loss": 1.0}
        >>> table = compare_precisions(pd.DataFrame({**facts, "score": [0.9, 0.8, 0.9, 0.8]}))
        >>> table.loc["int8"].to_dict()
        {'score (%)': 80.0, 'change from float32 (points)': -10.0, '±': 0.0}
    """
    import pandas as pd

    last_rows = found[found["epoch"] == found["epoch"].max()]
    scores = 100 * last_rows.pivot(index="seed", columns="compute", values="score")  # (seeds, precisions), percent
    if beside not in scores:
        raise ValueError(f"{beside!r} must be among the trainings to be compared with, got {sorted(scores)}")
    change = scores.sub(scores[beside], axis=0)  # paired by seed
    table = pd.DataFrame({"score (%)": scores.mean(), f"change from {beside} (points)": change.mean()})
    table["±"] = [interval(change[name].tolist())[1] for name in table.index]  # half of the 95 % interval
    return table.loc[found["compute"].unique()].round(2)


def draw_losses(found: DataFrame, *, title: str = "The loss in several precisions", dark: bool = False) -> FigureData:
    """Draw the mean loss over epochs, one line per precision.

    Args:
        found: one row per epoch and seed, with ``compute, epoch, loss``.
        title: title of the figure.

    Raises:
        ValueError: if there is no row, or more precisions than line styles.
    """
    names = list(found["compute"].unique())
    if not 1 <= len(names) <= len(_STYLES):
        raise ValueError(f"between 1 and {len(_STYLES)} precisions can be drawn, got {len(names)}")
    means = found.pivot_table(index="epoch", columns="compute", values="loss")[names]  # mean over seeds
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


# Column of `time_products` -> name in the legend.
_PARTS = {"float32": "float32", "codes": "product of codes", "quantize": "quantization"}
_PURPOSES = ("blue", "orange /", "green x", "purple .", "grey -")


def time_products(adjacency: Adjacency, *, heads: int = 4, features: int = 32, repeats: int = 15) -> DataFrame:
    """Return the median milliseconds of the three products of an attention layer, in float32 and from codes.

    Indicative: one short measurement, sensitive to other load; ``gnnqlab bench int8`` is the figure to quote.

    Args:
        adjacency: square adjacency matrix.
        heads, features: number of heads K, and features F per head; the dense product is ``(N, K F) x (K F, K F)``.
        repeats: repeats of each; the median counts.

    Returns:
        One row per product; columns ``float32``, ``codes`` (the product alone) and ``quantize`` (of its operands).

    Raises:
        ValueError: if ``repeats`` is below 1.
    """
    import pandas as pd

    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    generator, width = torch.Generator().manual_seed(0), heads * features  # width K F of the dense operands
    x = torch.randn(adjacency.num_columns, width, generator=generator)
    weight = torch.randn(width, width, generator=generator)
    attention = torch.rand(adjacency.num_edges, heads, generator=generator)  # one weight per edge and head, (E, K)
    head_rows, rows = x.view(-1, heads, features), quantize(x)  # (N, K F) -> (N, K, F)
    products = Int8Products().build()
    a, b = products.operand(x), products.weight(weight)  # codes of both factors, outside the timed product
    edges = {"float32": lambda: sddmm_dot(adjacency, head_rows, head_rows), "quantize": lambda: quantize(x)}
    contests: dict[str, dict[str, Callable[[], object]]] = {
        "GEMM": {
            "float32": lambda: x @ weight,
            "codes": lambda: products.mm(a, b),
            "quantize": lambda: (quantize(x), quantize(weight, scale="tensor")),
        },
        "SDDMM dot": {**edges, "codes": lambda: int8_sddmm_dot(adjacency, rows, rows, heads=heads)},
        "SPMM, heads": {
            **edges,
            "float32": lambda: weighted_sum(adjacency, attention, head_rows),
            "codes": lambda: int8_weighted_sum(adjacency, attention, rows, heads=heads),
        },
    }
    times_ms = {  # seconds -> ms
        product: {part: 1000 * _median_s(run, repeats) for part, run in parts.items()}
        for product, parts in contests.items()
    }
    return pd.DataFrame.from_dict(times_ms, orient="index")[list(_PARTS)]


def draw_times(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`time_products`: float32 above, products of codes with their quantization below."""
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
        title="Time of products in float32 and from codes",
        caption=f"Share of quantization in the time of codes: {shares}. Indicative, measured in this notebook.",
        dark=dark,
        height=380,
    )
    # Bars of the product and of its quantization share one group, so they are stacked next to the float32 bar.
    for trace, group in zip(figure.data, ("float32", "codes", "codes")):
        trace.offsetgroup = group
    figure.data[2].base = frame["codes"].tolist()  # quantization starts where the product ends
    return FigureData(figure, frame.round(3))


def saved_bytes_table(kept: Mapping[str, Mapping[str, int]]) -> DataFrame:
    """Return MiB saved for backward: one row per setting, one column per purpose, the total, and the ratio to float32.

    Args:
        kept: setting -> bytes by purpose; the first setting is float32.

    Example:
        >>> saved_bytes_table({"float32": {"rows": 2**21}, "2 bits": {"rows": 2**17}})["times less"].tolist()
        [1.0, 16.0]
    """
    import pandas as pd

    frame = pd.DataFrame.from_dict(kept, orient="index") / 2**20  # bytes -> MiB
    frame = frame.loc[:, (frame > 0).any()]  # drop purposes of zero bytes
    total = frame.sum(axis=1)
    return frame.assign(total=total, **{"times less": total.iloc[0] / total})


def draw_saved_bytes(table: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`saved_bytes_table` as stacked bars, one colour per purpose.

    Raises:
        ValueError: if there are more purposes than bar styles.
    """
    purposes = [name for name in table if name not in ("total", "times less")]
    if len(purposes) > len(_PURPOSES):
        raise ValueError(f"at most {len(_PURPOSES)} purposes can be drawn, got {len(purposes)}")
    words = "; ".join(f"{name}: {row['total']:.3g} MiB" for name, row in table.iterrows())
    figure = bars(
        table,
        y=purposes,
        styles=_PURPOSES,
        stacked=True,
        x_axis="precision of saved activations",
        y_axis="saved for backward (MiB)",
        zero="y",
        title="Activations saved by EXACT",
        caption=f"Saved for backward by one training pass: {words}.",
        dark=dark,
        height=380,
    )
    return FigureData(figure, table.round(3))


def _median_s(run: Callable[[], object], repeats: int) -> float:
    run()  # warm-up
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
