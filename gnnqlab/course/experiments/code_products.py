"""TANGO's products of codes: its bit rule (Eq. 4, Fig. 2b), the error of weight updates, and the toy graph of Fig. 1.

``dW = X^T dY`` with both factors in codes (TANGO sections 3.2 and 3.4). The text of the paper lists five edges of the
toy graph, numbered by target, and rows of some nodes; H' of v1 and v3 and the gradient at v3 are only in the figure,
so they are not used here. Letters: N rows, D features, C classes, E edges, K heads, F features per head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnnqlab.bits.in_words import human_bits
from gnnqlab.compute import Int8Products
from gnnqlab.compute.bit_rule import EPSILON, relative_error
from gnnqlab.compute.products import PassRows
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.attention import sddmm_add, segment_softmax, weighted_sum
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.chart_parts import STYLES
from gnnqlab.lab.figures.charts import add_slider, lines
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.nn import LocalGraph

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.compute.edge_products import EdgeProducts
    from gnnqlab.graph import Graph

__all__ = [
    "PAPER", "draw_bit_rule", "draw_update_error", "error_by_width", "first_layer_output", "toy_edges", "toy_layer",
    "toy_table", "update_error",
]  # fmt: skip


def first_layer_output(graph: Graph, *, hidden: int = 32, seed: int = 0) -> Tensor:
    """Return the output of the first layer of an untrained GCN, ``A X W``, float32 ``(N, hidden)``."""
    local_graph = LocalGraph(graph)
    local_graph.densify_features()
    assert isinstance(local_graph.features, Tensor)
    weight = torch.empty(graph.num_features, hidden)
    # initial weights only: nothing is trained here
    nn.init.xavier_uniform_(weight, generator=torch.Generator().manual_seed(seed))
    local_pass = local_graph.open_pass(0, training=False)
    return local_pass.aggregate(local_graph.features @ weight).detach()  # (N, D) -> (N, hidden)


def error_by_width(
    x: Tensor, *, epsilons: Sequence[float] = (0.0, 0.0005, 0.005, 0.05, 0.5), bits: Sequence[int] = range(2, 9)
) -> DataFrame:
    """Return the relative error of a matrix's codes, with one scale per tensor and stochastic rounding.

    Args:
        x: float32 ``(N, D)``.
        epsilons: ε of Eq. 4.
        bits: bit-widths of the codes.

    Returns:
        One row per bit-width, one column per ε.

    Example:
        >>> import torch
        >>> float(error_by_width(torch.tensor([[1.0, -1.0]]), epsilons=(0.0,), bits=(2,)).iloc[0, 0])
        0.0
    """
    import pandas as pd

    noise = NoiseCounter(
        torch.arange(x.shape[0]), 0, 0, stream("operand", 0)
    )  # a noise key of its own for quantized operands
    table: dict[float, list[float]] = {epsilon: [] for epsilon in epsilons}
    for width in bits:
        rows = quantize(x, bits=width, scale="tensor", noise=noise)
        decoded_rows = rows.codes * rows.scales.unsqueeze(1)  # (N, D) of integers x (N, 1)
        for epsilon in epsilons:
            table[epsilon].append(relative_error(x, decoded_rows, epsilon=epsilon))
    return pd.DataFrame(table, index=pd.Index(list(bits), name="bits"))


def draw_bit_rule(
    frame: DataFrame, *, start: float | None = None, target: float = 0.3, dark: bool = False
) -> FigureData:
    """Draw the error by bit-width together with the target, with a slider over ε.

    Args:
        frame: result of :func:`error_by_width`.
        start: ε drawn first; by default the paper's, or the first of the frame.
        target: largest allowed error.

    Raises:
        ValueError: if ``start`` is no ε of the frame.
    """
    epsilons = frame.columns.tolist()
    start = (EPSILON if EPSILON in epsilons else epsilons[0]) if start is None else start
    if start not in epsilons:
        raise ValueError(f"start must be one of the ε in the frame, {epsilons}, got {start}")
    # bit-widths that meet the target, by ε
    needed_widths = {
        epsilon: [width for width in frame.index if frame.loc[width, epsilon] <= target] for epsilon in epsilons
    }
    words = "; ".join(
        f"ε = {epsilon:g}: {human_bits(min(w)) if w else 'no bit-width'}" for epsilon, w in needed_widths.items()
    )
    limit, error = f"target, {target:g}", "relative error, Eq. 4 (no unit)"
    figure = lines(frame, y={start: "first layer's output"}, y_axis={"title_text": error, "range": [0, 1]})
    figure = lines(
        frame.assign(**{limit: target}),
        y=limit,
        mode="lines",
        styles=STYLES[1:],
        figure=figure,
        x_axis={"title_text": "bits per element", "dtick": 1},
        title="Error of the first layer by bit-width",
        caption=f"Smallest bit-width with an error of at most {target:g}: {words}.",
        dark=dark,
        height=440,
    )
    # the slider swaps the curve of ε, trace 0; the target stays
    steps = {f"{epsilon:g}": {"y": [frame[epsilon].tolist()]} for epsilon in epsilons}
    return FigureData(add_slider(figure, steps, start=f"{start:g}", prefix="ε = ", traces=[0]), frame.round(4))


_LOOKS = {"stochastic": "blue solid circle", "nearest": "vermillion dash square"}


def update_error(graph: Graph, *, bits: int = 4, draws: int = 64, scale: str = "tensor", seed: int = 0) -> DataFrame:
    """Return the relative error of the mean of weight gradients from quantized factors, compared with float32.

    The weight is that of a linear classifier on the features, at zero; its gradient is ``X^T (softmax - onehot) / N``.

    Args:
        graph: graph with features and labels, one class per node.
        bits: bit-width of X and dY.
        draws: number of epochs, each with independent noise.
        scale: see :class:`gnnqlab.compute.Int8Products`.
        seed: seed of the noise.

    Returns:
        One row for 1, 2, 4, … draws, one column per rounding rule.

    Raises:
        ValueError: if there are no draws.

    Example:
        >>> from gnnqlab.graph import load
        >>> found = update_error(load("sbm:60,3,6"), draws=4)
        >>> found.index.tolist(), found["nearest"].nunique()
        ([1, 2, 4], 1)
    """
    import pandas as pd

    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    # sparse features -> dense (N, D)
    x = graph.features if isinstance(graph.features, Tensor) else graph.features.to_dense()
    classes = functional.one_hot(graph.labels, graph.num_classes).float()
    gradient = (1 / graph.num_classes - classes) / graph.num_nodes  # at zero weights softmax is 1 / C
    exact_gradient = x.t().double() @ gradient.double()  # (D, N) x (N, C) -> (D, C)
    counts = [2**power for power in range(20) if 2**power <= draws]  # averages are recorded at powers of two
    ids, table = torch.arange(graph.num_nodes), {}
    for rounding in _LOOKS:
        products = Int8Products(bits=bits, scale=scale, rounding=rounding).build()
        total, errors = torch.zeros_like(exact_gradient), []
        for epoch in range(counts[-1]):
            products.begin(PassRows(ids, seed, epoch))
            # Both factors have independent noise in every epoch, through the pass's seed and epoch.
            total += products.mm(products.operand(x), products.operand(gradient), transposed="a")
            if epoch + 1 in counts:
                # relative error of the mean so far
                errors.append(float((total / (epoch + 1) - exact_gradient).norm() / exact_gradient.norm()))
        table[rounding] = errors
    return pd.DataFrame(table, index=pd.Index(counts, name="epochs averaged"))


def draw_update_error(frame: DataFrame, *, bits: int, dark: bool = False) -> FigureData:
    """Draw :func:`update_error`, one line per rounding rule.

    Raises:
        ValueError: if there is no row.
    """
    if frame.empty:
        raise ValueError("errors of at least one draw are needed, got none; see update_error")
    figure = lines(
        100 * frame,
        y=list(_LOOKS),
        styles=_LOOKS,
        size=9,
        log="y",
        x_axis={"title_text": "epochs averaged", **value_ticks(frame.index)},
        y_axis="error of the mean update (% of its norm)",
        dark=dark,
        height=370,  # errors of the mean span decades
        title=f"Error (%) of the mean weight update, {human_bits(bits)}",
    )
    return FigureData(figure, frame)


PROJECTED = {0: (0.59, 0.73, 0.51, -0.65), 2: (0.32, 0.41, 0.99, -0.52)}
"""H' of v0, as printed, and of v2, solved from the printed H(l) of v3: two heads with two features each."""
A_SOURCE = ((0.91, 0.90), (0.42, 0.62))
D_OF_3 = (0.20, 0.05)
"""Contribution of the target v3 to the logits of its edges."""
GRADIENT = {0: (0.54, 0.51, -0.26, -0.07), 2: (1.02, 1.06, 0.07, 0.56)}
"""Gradient of the output, at v0 and v2."""

PAPER: dict[str, tuple[str, tuple[float, ...]]] = {
    "S of v0": ("GEMM", (1.20, -0.19)),
    "E of e3": ("SDDMM", (1.40, -0.14)),
    "E of e4": ("SDDMM", (0.86, 0.14)),
    "α of e3": ("softmax", (0.63, 0.46)),
    "α of e4": ("softmax", (0.37, 0.54)),
    "H of v3": ("SPMM", (0.49, 0.61, 0.77, -0.58)),
    "∂H' of v1": ("SPMM, backward", (1.56, 1.57, -0.19, 0.49)),
}
"""Quantity -> the product that computes it, and its elements as printed in section 2.1."""


def toy_edges() -> Adjacency:
    """Return the five edges e0 to e4 in the paper's order: v1 to v0, v3 to v1, v1 to v2, v0 and v2 to v3.

    Example:
        >>> toy_edges().indices.tolist()
        [1, 3, 1, 0, 2]
    """
    sources = torch.tensor([1, 3, 1, 0, 2], dtype=torch.int32)  # CSR by target: edges of v0, v1, v2 and two of v3
    return Adjacency(torch.tensor([0, 1, 2, 3, 5]), sources, num_columns=4)


def toy_layer(products: EdgeProducts | None = None) -> dict[str, Tensor]:
    """Compute the quantities of :data:`PAPER` by products of codes, or in float32; the softmax is always float32.

    A negative logit becomes zero in the rectifier, as in the paper. Rows missing from the text are zeros; none of the
    quantities uses them.
    """
    import torch

    from gnnqlab.compute.edge_products import EdgeAdd, WeightedSum

    # (4, 2): block-diagonal, so each head sees its own two features
    edges, heads = toy_edges(), torch.block_diag(*(torch.tensor(a).view(2, 1) for a in A_SOURCE))
    projected_rows, gradient = _rows(PROJECTED), _rows(GRADIENT)
    # (4, 4) x (4, 2) -> (4, 2)
    source = projected_rows @ heads if products is None else products.linear(projected_rows, heads)
    # Only v3 has a printed target term; the logits of other targets are not compared.
    target = torch.zeros(4, 2)
    target[3] = torch.tensor(D_OF_3)
    if products is None:
        logits = sddmm_add(edges, source, target)
    else:
        logits = EdgeAdd.apply(source, target, edges, products)
    attention = segment_softmax(edges, logits.relu())  # softmax over the edges of each target, (E, K)
    rows = projected_rows.view(4, 2, 2).clone().requires_grad_()  # (4, 4) -> (4 nodes, 2 heads, 2 features)
    if products is None:
        output = weighted_sum(edges, attention, rows)
    else:
        output = WeightedSum.apply(attention, rows, edges, products)
    (back,) = torch.autograd.grad(output, rows, gradient.view(4, 2, 2))  # gradient of H', (4, 2, 2)
    # in the order of PAPER
    quantities = (source[0], logits[3], logits[4], attention[3], attention[4], output[3].flatten(), back[1].flatten())
    return dict(zip(PAPER, (each.detach() for each in quantities), strict=True))


def toy_table(**settings: object) -> DataFrame:
    """Return each quantity as printed in the paper, in float32 and in codes, and the largest error of the codes.

    Args:
        **settings: settings of :class:`gnnqlab.compute.Int8Products`; by default one scale per tensor and rounding to
            nearest, because a single draw of noise is not representative.
    """
    import pandas as pd

    product_settings: dict[str, object] = {"scale": "tensor", "rounding": "nearest", **settings}
    float32_values = toy_layer()
    codes = toy_layer(Int8Products(**product_settings).build())  # type: ignore[arg-type]
    rows = {
        name: {
            "product": product,
            "paper": _joined(printed_values),
            "float32 here": _joined(float32_values[name].tolist()),
            "codes here": _joined(codes[name].tolist()),
            "codes off by": round(float((codes[name] - float32_values[name]).abs().max()), 4),
        }
        for name, (product, printed_values) in PAPER.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def _rows(rows_by_node: Mapping[int, tuple[float, ...]]) -> Tensor:
    # (4, 4); zeros where the text gives no row
    return torch.tensor([rows_by_node.get(node, (0.0,) * 4) for node in range(4)])


def _joined(elements: object) -> str:
    return ", ".join(f"{each:.2f}" for each in elements)  # type: ignore[attr-defined]
