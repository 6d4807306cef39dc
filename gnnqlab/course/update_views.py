"""The gradient of a weight from codes, averaged over epochs: what stochastic rounding leaves of it, and nearest.

``dW = X^T dY`` with both factors in codes (TANGO sections 3.2 and 3.4). Letters: N rows, D features, C classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines
from gnnqlab.lab.figures.log_ticks import value_ticks

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph import Graph

__all__ = ["draw_update_error", "update_error"]

_LOOKS = {"stochastic": "blue solid circle", "nearest": "vermillion dash square"}


def update_error(graph: Graph, *, bits: int = 4, draws: int = 64, scale: str = "tensor", seed: int = 0) -> DataFrame:
    """Return how far the mean of some weight gradients made of codes is from float32's, relative to its length.

    The weight is that of a linear classifier on the features, at zero; its gradient is ``X^T (softmax - onehot) / N``.

    Args:
        graph: with features and labels, one class a node.
        bits: of the codes of X and dY.
        draws: epochs, each with noise of its own.
        scale: as for :class:`gnnqlab.compute.Int8Products`.
        seed: of the noise.

    Returns:
        A row for 1, 2, 4, … draws, a column for each way to round.

    Raises:
        ValueError: if there is nothing to draw.

    Example:
        >>> from gnnqlab.graph import load
        >>> found = update_error(load("sbm:60,3,6"), draws=4)
        >>> found.index.tolist(), found["nearest"].nunique()
        ([1, 2, 4], 1)
    """
    import pandas as pd
    import torch
    from torch import Tensor
    from torch.nn import functional

    from gnnqlab.compute import Int8Products
    from gnnqlab.compute.products import PassRows

    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    x = graph.features if isinstance(graph.features, Tensor) else graph.features.to_dense()
    classes = functional.one_hot(graph.labels, graph.num_classes).float()
    gradient = (1 / graph.num_classes - classes) / graph.num_nodes
    exact = x.t().double() @ gradient.double()
    counts = [2**power for power in range(20) if 2**power <= draws]
    ids, table = torch.arange(graph.num_nodes), {}
    for rounding in _LOOKS:
        products = Int8Products(bits=bits, scale=scale, rounding=rounding).build()
        total, errors = torch.zeros_like(exact), []
        for epoch in range(counts[-1]):
            products.begin(PassRows(ids, seed, epoch))
            total += products.mm(products.operand(x), products.operand(gradient), transposed="a")
            if epoch + 1 in counts:
                errors.append(float((total / (epoch + 1) - exact).norm() / exact.norm()))
        table[rounding] = errors
    return pd.DataFrame(table, index=pd.Index(counts, name="epochs averaged"))


def draw_update_error(frame: DataFrame, *, bits: int, dark: bool = False) -> Bundle:
    """Draw :func:`update_error`, a line for each way to round.

    Raises:
        ValueError: if there is no row.
    """
    if frame.empty:
        raise ValueError("errors of at least one draw are needed, got none; see update_error")
    first, last = frame.iloc[0] * 100, frame.iloc[-1] * 100
    caption = (
        f"Error of the mean weight gradient in {human_bits(bits)}, after 1 epoch and after {frame.index[-1]}: "
        + ", ".join(f"{name} {first[name]:.3g} → {last[name]:.3g} %" for name in _LOOKS)
        + "."
    )
    figure = lines(
        100 * frame,
        y=list(_LOOKS),
        styles=_LOOKS,
        size=9,
        log="y",
        x_axis={"title_text": "epochs averaged", **value_ticks(frame.index)},
        y_axis="error of the mean update (% of its length)",
        caption=caption,
        dark=dark,
        height=370,
        title=f"The mean of the weight update, {human_bits(bits)}",
    )
    return Bundle(figure, frame)
