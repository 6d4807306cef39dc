"""Attention over edges, compared with the operators of DGL's ``GATConv``.

Logit (``u_add_v``), leaky ReLU, softmax over each row's edges and weighted sum (``u_mul_e``), forward only, and with
the gradients of values and both logits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.kernels.pinned import Pair, by_threads, compare
from benchmarks.kernels.spmm import dgl_graph, power_law

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["sddmm"]

HEADS, FEATURES = 4, 64  # heads K and features F per head
GRAPH = (50_000, 2_300_000)  # nodes and edges
GOAL = 2.0
SLOPE = 0.2
ATTENTION = "DGL u_add_v, edge_softmax, u_mul_e"

Inputs = tuple["Tensor", "Tensor", "Tensor"]


@by_threads()
def sddmm(repeats: int = 5) -> list[dict[str, Any]]:
    """Measure attention with one thread and with two pinned ones (if there are two cores).

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.
    """
    import torch

    from gnnqlab.kernels.sparse.attention import attend, sddmm_dot

    adj = power_law(*GRAPH)
    generator = torch.Generator().manual_seed(0)
    # values (N, K, F), logits of source and target (N, K)
    shapes = ((adj.num_rows, HEADS, FEATURES), (adj.num_rows, HEADS), (adj.num_rows, HEADS))
    inputs = tuple(torch.randn(shape, generator=generator).requires_grad_() for shape in shapes)
    grad = torch.randn(shapes[0], generator=generator)
    values = inputs[0].detach()
    assert adj.transposed_edges.numel() == adj.num_edges  # builds the transpose before the measurement

    contenders: dict[str, Callable[[], object]] = {"ours dot": lambda: sddmm_dot(adj, values, grad)}
    ways = {"ours": lambda values, source, target: attend(adj, values, source, target, slope=SLOPE)}
    try:
        graph = dgl_graph(adj)
        ways["DGL"] = lambda values, source, target: _dgl_attend(graph, values, source, target)
        contenders["DGL dot"] = lambda: _dgl_dot(graph, values, grad)
    except ImportError as error:
        print(f"bench sddmm: DGL does not import ({error}); rows have no rival", flush=True)
    for name, way in ways.items():
        contenders[f"{name} forward"] = _forward(way, inputs)
        contenders[f"{name} forward and backward"] = _forward_backward(way, inputs, grad)
    case = f"power law, {adj.num_rows} nodes, {adj.num_edges} edges, {HEADS} heads x {FEATURES}, "
    case += f"{torch.get_num_threads()} thread(s)"
    passes = "forward and backward"
    pairs = [
        Pair("attention forward", "ours forward", "DGL forward", ATTENTION, GOAL),
        Pair(f"attention {passes}", f"ours {passes}", f"DGL {passes}", ATTENTION, GOAL),
        Pair("SDDMM dot", "ours dot", "DGL dot", "DGL u_dot_v"),
    ]
    return compare(case, contenders, pairs, repeats)


def _forward(way: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Callable[[], object]:
    plain_inputs = [tensor.detach() for tensor in inputs]
    return lambda: way(*plain_inputs)


def _forward_backward(way: Callable[..., Tensor], inputs: tuple[Tensor, ...], grad: Tensor) -> Callable[[], object]:
    import torch

    return lambda: torch.autograd.grad(way(*inputs), inputs, grad)


def _dgl_attend(graph: Any, values: Tensor, source: Tensor, target: Tensor) -> Tensor:
    import dgl.function as fn
    from dgl.nn.functional import edge_softmax
    from torch.nn import functional

    with graph.local_scope():
        graph.srcdata.update({"values": values, "source": source.unsqueeze(-1)})  # (N, K) -> (N, K, 1), as in GATConv
        graph.dstdata.update({"target": target.unsqueeze(-1)})
        graph.apply_edges(fn.u_add_v("source", "target", "logits"))  # one logit per edge and head
        logits = functional.leaky_relu(graph.edata.pop("logits"), SLOPE)
        graph.edata["attention"] = edge_softmax(graph, logits)
        graph.update_all(fn.u_mul_e("values", "attention", "m"), fn.sum("m", "out"))  # weighted sum over in-edges
        output: Tensor = graph.dstdata["out"]
        return output


def _dgl_dot(graph: Any, x: Tensor, y: Tensor) -> Tensor:
    import dgl.function as fn

    with graph.local_scope():
        graph.srcdata["x"], graph.dstdata["y"] = x, y
        graph.apply_edges(fn.u_dot_v("x", "y", "dot"))
        dots: Tensor = graph.edata["dot"]
        return dots
