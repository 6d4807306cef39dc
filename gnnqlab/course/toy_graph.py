"""The toy graph of TANGO's Fig. 1 as far as the paper's text tells it: what goes in, and what should come out.

The text names five edges and numbers them by target, and says rows of some nodes; H' of v1 and v3 and the gradient at
v3 stand in the figure alone, so nothing here needs them. Letters: E edges, K heads, F features of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.compute.edge_products import EdgeProducts
    from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["PAPER", "toy_edges", "toy_layer", "toy_table"]

PROJECTED = {0: (0.59, 0.73, 0.51, -0.65), 2: (0.32, 0.41, 0.99, -0.52)}
"""H' of v0, as printed, and of v2, solved from the printed H(l) of v3: two heads of two features."""
A_SOURCE = ((0.91, 0.90), (0.42, 0.62))
D_OF_3 = (0.20, 0.05)
"""What the target v3 adds to the logits of its edges."""
GRADIENT = {0: (0.54, 0.51, -0.26, -0.07), 2: (1.02, 1.06, 0.07, 0.56)}
"""Of the output, at v0 and v2."""

PAPER: dict[str, tuple[str, tuple[float, ...]]] = {
    "S of v0": ("GEMM", (1.20, -0.19)),
    "E of e3": ("SDDMM", (1.40, -0.14)),
    "E of e4": ("SDDMM", (0.86, 0.14)),
    "α of e3": ("softmax", (0.63, 0.46)),
    "α of e4": ("softmax", (0.37, 0.54)),
    "H of v3": ("SPMM", (0.49, 0.61, 0.77, -0.58)),
    "∂H' of v1": ("SPMM, backward", (1.56, 1.57, -0.19, 0.49)),
}
"""Quantity -> the product that makes it, and its elements as section 2.1 prints them."""


def toy_edges() -> Adjacency:
    """The five edges e0 to e4 in the paper's order: v1 to v0, v3 to v1, v1 to v2, v0 and v2 to v3.

    Example:
        >>> toy_edges().indices.tolist()
        [1, 3, 1, 0, 2]
    """
    import torch

    from gnnqlab.kernels.sparse.adjacency import Adjacency

    sources = torch.tensor([1, 3, 1, 0, 2], dtype=torch.int32)
    return Adjacency(torch.tensor([0, 1, 2, 3, 5]), sources, num_columns=4)


def toy_layer(products: EdgeProducts | None = None) -> dict[str, Tensor]:
    """Return the quantities of :data:`PAPER`, made by products of codes, or in float32; the softmax is float32's.

    A negative logit counts as zero after the rectifier, as the paper writes it. Rows that the text does not tell are
    zeros, and none of the quantities looks at them.
    """
    import torch

    from gnnqlab.compute.edge_gradients import EdgeAdd, WeightedSum
    from gnnqlab.kernels.sparse.attention import sddmm_add, segment_softmax, weighted_sum

    edges, heads = toy_edges(), torch.block_diag(*(torch.tensor(a).view(2, 1) for a in A_SOURCE))
    projected, gradient = _rows(PROJECTED), _rows(GRADIENT)
    source = projected @ heads if products is None else products.linear(projected, heads)
    target = torch.zeros(4, 2)
    target[3] = torch.tensor(D_OF_3)
    if products is None:
        logits = sddmm_add(edges, source, target)
    else:
        logits = EdgeAdd.apply(source, target, edges, products)
    attention = segment_softmax(edges, logits.relu())
    rows = projected.view(4, 2, 2).clone().requires_grad_()
    if products is None:
        output = weighted_sum(edges, attention, rows)
    else:
        output = WeightedSum.apply(attention, rows, edges, products)
    (back,) = torch.autograd.grad(output, rows, gradient.view(4, 2, 2))
    found = (source[0], logits[3], logits[4], attention[3], attention[4], output[3].flatten(), back[1].flatten())
    return dict(zip(PAPER, (each.detach() for each in found), strict=True))


def toy_table(**settings: object) -> DataFrame:
    """Return each quantity as the paper prints it, in float32, and in codes, and the most that codes are off.

    Args:
        **settings: of :class:`gnnqlab.compute.Int8Products`; by default one scale a tensor, rounded to nearest, since a
            single draw of noise is no figure.
    """
    import pandas as pd

    from gnnqlab.compute import Int8Products

    chosen: dict[str, object] = {"scale": "tensor", "rounding": "nearest", **settings}
    exact = toy_layer()
    codes = toy_layer(Int8Products(**chosen).build())  # type: ignore[arg-type]
    rows = {
        name: {
            "product": product,
            "paper": _told(printed),
            "float32 here": _told(exact[name].tolist()),
            "codes here": _told(codes[name].tolist()),
            "codes off by": round(float((codes[name] - exact[name]).abs().max()), 4),
        }
        for name, (product, printed) in PAPER.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def _rows(known: Mapping[int, tuple[float, ...]]) -> Tensor:
    import torch

    return torch.tensor([known.get(node, (0.0,) * 4) for node in range(4)])


def _told(elements: object) -> str:
    return ", ".join(f"{each:.2f}" for each in elements)  # type: ignore[attr-defined]
