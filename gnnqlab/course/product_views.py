"""What products of codes cost and keep: seconds of each with its quantization, and bytes for the backward pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import bars

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["draw_kept", "draw_times", "kept_table", "time_products"]

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
    import torch

    from gnnqlab.compute import Int8Products
    from gnnqlab.kernels.codec.quantize import quantize
    from gnnqlab.kernels.sparse.int8_edges import int8_sddmm_dot, int8_weighted_sum
    from gnnqlab.kernels.sparse.sddmm import sddmm_dot, weighted_sum

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


def draw_times(frame: DataFrame, *, dark: bool = False) -> Bundle:
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
    return Bundle(figure, frame.round(3))


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


def draw_kept(table: DataFrame, *, dark: bool = False) -> Bundle:
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
    return Bundle(figure, table.round(3))


def _median_s(run: Callable[[], object], repeats: int) -> float:
    import statistics

    run()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
