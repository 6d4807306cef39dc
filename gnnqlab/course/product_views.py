"""What products of codes cost and keep: seconds of each with its quantization, and bytes for the backward pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["draw_kept", "draw_times", "kept_table", "time_products"]

_PARTS = {
    "float32": ("float32", OKABE_ITO["grey"], ""),
    "codes": ("product of codes", OKABE_ITO["blue"], ""),
    "quantize": ("quantization", OKABE_ITO["orange"], "/"),
}
_PURPOSES = (
    (OKABE_ITO["blue"], ""),
    (OKABE_ITO["orange"], "/"),
    (OKABE_ITO["green"], "x"),
    (OKABE_ITO["purple"], "."),
    (OKABE_ITO["grey"], "-"),
)


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
    import plotly.graph_objects as go

    figure = go.Figure()
    for part, (name, color, pattern) in _PARTS.items():
        figure.add_bar(
            y=frame.index.tolist(),
            x=frame[part].tolist(),
            name=name,
            orientation="h",
            offsetgroup="float32" if part == "float32" else "codes",
            base=frame["codes"].tolist() if part == "quantize" else None,
            marker={"color": color, "pattern": {"shape": pattern}},
            hovertemplate=f"%{{y}}, {name}: %{{customdata:.3g}} ms<extra></extra>",
            customdata=frame[part].tolist(),
        )
    figure.update_layout(barmode="group")
    figure.update_xaxes(title_text="median time (ms)", rangemode="tozero")
    figure.update_yaxes(title_text="product", autorange="reversed")
    shares = "; ".join(
        f"{name}: {row['quantize'] / (row['codes'] + row['quantize']):.0%}" for name, row in frame.iterrows()
    )
    caption = f"Share of quantization in what codes cost: {shares}. Indicative, measured in this notebook."
    finish(figure, title="Where the time goes", caption=caption, dark=dark, height=380)
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
    import plotly.graph_objects as go

    purposes = [name for name in table if name not in ("total", "times less")]
    if len(purposes) > len(_PURPOSES):
        raise ValueError(f"at most {len(_PURPOSES)} purposes can be drawn, got {len(purposes)}")
    figure = go.Figure()
    for purpose, (color, pattern) in zip(purposes, _PURPOSES):
        figure.add_bar(
            x=table.index.tolist(),
            y=table[purpose].tolist(),
            name=purpose,
            marker={"color": color, "pattern": {"shape": pattern}},
            hovertemplate=f"%{{x}}, {purpose}: %{{y:.3g}} MiB<extra></extra>",
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="activations kept in", type="category")
    figure.update_yaxes(title_text="kept for the backward pass (MiB)", rangemode="tozero")
    told = "; ".join(f"{name}: {row['total']:.3g} MiB" for name, row in table.iterrows())
    caption = f"Kept by one training pass: {told}."
    finish(figure, title="What EXACT keeps", caption=caption, dark=dark, height=380)
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
