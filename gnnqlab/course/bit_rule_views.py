"""TANGO's bit rule on a first layer's output: the relative error of codes by width, for any ε (Eq. 4, Fig. 2b)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.chart_parts import STYLES
from gnnqlab.lab.figures.charts import add_slider, lines

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.graph import Graph

__all__ = ["draw_bit_rule", "error_by_width", "first_layer_output"]


def first_layer_output(graph: Graph, *, hidden: int = 32, seed: int = 0) -> Tensor:
    """Return what the first layer of an untrained GCN puts out, ``A X W``, float32 ``(N, hidden)``."""
    import torch
    from torch import Tensor, nn

    from gnnqlab.nn import LocalGraph

    local = LocalGraph(graph)
    local.densify_features()
    assert isinstance(local.features, Tensor)
    weight = torch.empty(graph.num_features, hidden)
    nn.init.xavier_uniform_(weight, generator=torch.Generator().manual_seed(seed))
    local_pass = local.at(0, training=False)
    return local_pass.aggregate(local.features @ weight).detach()


def error_by_width(
    x: Tensor, *, epsilons: Sequence[float] = (0.0, 0.0005, 0.005, 0.05, 0.5), bits: Sequence[int] = range(2, 9)
) -> DataFrame:
    """Return the relative error of a matrix's codes, one scale a tensor, rounded by noise.

    Args:
        x: float32 ``(N, D)``.
        epsilons: ε of Eq. 4.
        bits: widths of codes.

    Returns:
        A row a width, a column an ε.

    Example:
        >>> import torch
        >>> float(error_by_width(torch.tensor([[1.0, -1.0]]), epsilons=(0.0,), bits=(2,)).iloc[0, 0])
        0.0
    """
    import pandas as pd
    import torch

    from gnnqlab.compute.bit_rule import relative_error
    from gnnqlab.kernels.codec.quantize import Noise, quantize
    from gnnqlab.kernels.noise import stream

    noise = Noise(torch.arange(x.shape[0]), 0, 0, stream("operand", 0))
    table: dict[float, list[float]] = {epsilon: [] for epsilon in epsilons}
    for width in bits:
        rows = quantize(x, bits=width, scale="tensor", noise=noise)
        rounded = rows.codes * rows.scales.unsqueeze(1)
        for epsilon in epsilons:
            table[epsilon].append(relative_error(x, rounded, epsilon=epsilon))
    return pd.DataFrame(table, index=pd.Index(list(bits), name="bits"))


def draw_bit_rule(frame: DataFrame, *, start: float | None = None, target: float = 0.3, dark: bool = False) -> Bundle:
    """Draw the error by width beside the target, with a slider over ε.

    Args:
        frame: of :func:`error_by_width`.
        start: the ε that is drawn first; by default the paper's, or the first there is.
        target: the error that is allowed.

    Raises:
        ValueError: if ``start`` is not among the ε.
    """
    from gnnqlab.compute.bit_rule import EPSILON

    known = frame.columns.tolist()
    start = (EPSILON if EPSILON in known else known[0]) if start is None else start
    if start not in known:
        raise ValueError(f"start must be one of the ε in the frame, {known}, got {start}")
    needed = {each: [width for width in frame.index if frame.loc[width, each] <= target] for each in known}
    words = "; ".join(f"ε = {each:g}: {human_bits(min(w)) if w else 'no width'}" for each, w in needed.items())
    limit, error = f"target, {target:g}", "relative error, Eq. 4 (no unit)"
    figure = lines(frame, y={start: "first layer's output"}, y_axis={"title_text": error, "range": [0, 1]})
    figure = lines(
        frame.assign(**{limit: target}),
        y=limit,
        mode="lines",
        styles=STYLES[1:],
        figure=figure,
        x_axis={"title_text": "bits of a code", "dtick": 1},
        title="How many bits the first layer needs",
        caption=f"Fewest bits whose error is at most {target:g}: {words}.",
        dark=dark,
        height=440,
    )
    steps = {f"{each:g}": {"y": [frame[each].tolist()]} for each in known}
    return Bundle(add_slider(figure, steps, start=f"{start:g}", prefix="ε = ", traces=[0]), frame.round(4))
