"""Products of integer codes (TANGO) compared with float32 products of PyTorch, DGL and our own: single, and in epochs.

Quantization of rows is measured first: with Philox noise, with PyTorch's generator, and to nearest without noise,
compared with a copy of the rows. Philox noise is a function of (seed, epoch, stream, node, column), so workers agree on
the codes of a row. TANGO (section 3.2) draws its noise from a generator in registers, 20 times as fast as cuRAND's;
such a generator's numbers depend on how many it has drawn before.

All times include quantization, except in lines with "codes kept". Dense products have the shapes of TANGO's Fig. 12;
products along edges run on one power-law graph. Epochs have dense features for all contestants, in random order; for
whole trainings of the same models see :mod:`benchmarks.studies.tango`.

Bound of "SPMM incidence": an edge's row is float32 and used by one sum, so it must be read once in float32, which is
all that a float32 sum does ("float32, one reading"). Existing codes are read in a quarter of the bytes ("codes kept");
codes computed for this sum only cannot be faster than that reading.

TANGO's Fig. 16 compares four bits with eight in dense products and in those along edges, on hardware with 4-bit
products. Here aggregations read two codes per byte; each line has the bytes of its rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import require_among
from benchmarks.kernels.pinned import Pair, by_threads, compare, next_epochs
from benchmarks.studies.tango import CODES, EPOCHS, GRAPH, MODELS, SHAPE, make_dgl, make_trainer, tango

if TYPE_CHECKING:
    from gnnqlab.graph import Graph
    from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["int8", "measure_dense", "measure_edges", "measure_rounding"]

ROUNDED_SHAPE = (34_493, 256)
"""Rows and columns, larger than a CPU cache."""
COUNTER, FRAMEWORK = "counter noise", "torch.rand"
NEAREST, NUMBERS, COPY = "nearest", "torch.rand, its numbers alone", "memcpy of the float32 rows"
ROWS, WIDTHS = 34_493, (256, 512)
GEMM_GOALS = {256: 2.2, 512: 2.5}
EDGES_GRAPH, COLUMNS, HEADS = (100_000, 2_000_000), 64, 4


def int8(
    repeats: int = 5,
    *,
    graph: str | None = None,
    models: tuple[str, ...] = MODELS,
    epochs: int = EPOCHS,
    seeds: int = 5,
    first_seed: int = 0,
    trainings: str = "runs/bench-tango",
) -> list[dict[str, Any]]:
    """Measure products, epochs and, as in ``bench tango``, trainings.

    Args:
        repeats: interleaved products and epochs of each contestant.
        graph: name or path; by default ``amazon_computers``, or ``digits`` if it is missing.
        models: some of ``gcn`` and ``gat``.
        epochs, seeds, first_seed, trainings: options of ``bench tango``; 0 seeds skip the trainings.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if a model is unknown, or there is nothing to measure.
    """
    from gnnqlab.graph import load

    require_among("models", models, sorted(SHAPE), least=1)
    if repeats < 1 or epochs < 1 or seeds < 0:
        raise ValueError(f"repeats and epochs must be at least 1, seeds 0, got {repeats}, {epochs} and {seeds}")
    rows = [each for measure in (measure_rounding, measure_dense, measure_edges) for each in measure(repeats=repeats)]
    source = graph_or_digits(graph, GRAPH)
    loaded_graph = load(source)
    for model in models:
        rows += _epoch_rows(loaded_graph, f"{Path(source).stem}, {model}", model, repeats)
    if not seeds:
        return rows
    options: dict[str, Any] = {"epochs": epochs, "seeds": seeds, "first_seed": first_seed, "trainings": trainings}
    return rows + tango(graph=source, models=models, **options)


@by_threads()
def measure_rounding(repeats: int) -> list[dict[str, Any]]:
    """Measure quantization of a matrix with one scale per row, with the threads of this process."""
    import torch

    from gnnqlab.kernels import native
    from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
    from gnnqlab.kernels.noise import stream
    from gnnqlab.kernels.sparse.aggregate import QuantizedRows

    x = torch.randn(ROUNDED_SHAPE, generator=torch.Generator().manual_seed(0))
    copy, numbers = torch.empty_like(x), torch.empty_like(x)
    out = QuantizedRows(torch.empty(ROUNDED_SHAPE, dtype=torch.int8), torch.empty(ROUNDED_SHAPE[0]))
    noise = NoiseCounter(torch.arange(ROUNDED_SHAPE[0]), seed=1, epoch=0, stream=stream("operand", 0))
    generator = torch.Generator().manual_seed(1)

    def in_torch() -> None:
        torch.div(torch.linalg.vector_norm(x, ord=float("inf"), dim=1), 127.0, out=out.scales)
        torch.rand(ROUNDED_SHAPE, generator=generator, out=numbers)
        out.codes.copy_(numbers.addcdiv_(x, out.scales.unsqueeze(1)).floor_())

    contestants: dict[str, Callable[[], object]] = {
        COUNTER: lambda: quantize(x, noise=noise, out=out),
        FRAMEWORK: in_torch,
        NEAREST: lambda: quantize(x, out=out),
        NUMBERS: lambda: torch.rand(ROUNDED_SHAPE, generator=generator, out=numbers),
        COPY: lambda: copy.copy_(x),
    }
    kernels = native.isa() if native.active(x.device) else "plain PyTorch"
    case = f"quantize {ROUNDED_SHAPE[0]} x {ROUNDED_SHAPE[1]}, {torch.get_num_threads()} thread(s), {kernels}"
    pairs = [Pair(name, name, COPY) for name in contestants if name != COPY]
    return compare(case, contestants, [*pairs, Pair(COUNTER, COUNTER, FRAMEWORK)], repeats)


@by_threads()
def measure_dense(repeats: int) -> list[dict[str, Any]]:
    """Measure dense products forward and backward, with and without reused codes, with the threads of this process."""
    return [each for width in WIDTHS for each in _dense_rows(width, repeats)]


@by_threads()
def measure_edges(repeats: int) -> list[dict[str, Any]]:
    """Measure products along edges, with the threads of this process."""
    import torch

    from benchmarks.kernels.spmm import power_law
    from gnnqlab.kernels.codec.quantize import quantize
    from gnnqlab.kernels.dense.code_rows import pack_pairs
    from gnnqlab.kernels.sparse.aggregate import spmm
    from gnnqlab.kernels.sparse.head_sums import head_sums
    from gnnqlab.kernels.sparse.int8_edges import incidence, int8_sddmm_add, int8_sddmm_dot, quantized_sum

    adj = power_law(*EDGES_GRAPH)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(adj.num_rows, COLUMNS * HEADS, generator=generator)
    edge_rows = torch.randn(adj.num_edges, COLUMNS, generator=generator)
    weights = torch.rand(adj.num_edges, HEADS, generator=generator)
    row_incidence, edge_codes, codes = incidence(adj), quantize(edge_rows), quantize(x)
    four_bit_codes = quantize(x, bits=4)
    packed_rows = pack_pairs(four_bit_codes)
    narrow_rows = x[:, :COLUMNS].contiguous()
    ones = torch.ones(adj.num_edges)
    matrices = {
        "CSR sum": _csr(adj, adj.weights if adj.weights is not None else ones, adj.num_columns),
        "CSR incidence": _csr(row_incidence, ones, adj.num_edges),
    }
    contestants: dict[str, Callable[[], object]] = {
        "sum": lambda: spmm(adj, quantize(x)),
        "CSR sum": lambda: matrices["CSR sum"] @ x,
        "float32 sum": lambda: spmm(adj, x),
        "sum, codes kept": lambda: spmm(adj, four_bit_codes),
        "sum, packed": lambda: spmm(adj, packed_rows),
        "sum, packed for it": lambda: spmm(adj, pack_pairs(four_bit_codes)),
        "incidence": lambda: quantized_sum(row_incidence, edge_rows),
        "incidence, codes written": lambda: spmm(row_incidence, quantize(edge_rows)),
        "incidence, float32": lambda: spmm(row_incidence, edge_rows),
        "incidence, codes kept": lambda: spmm(row_incidence, edge_codes),
        "CSR incidence": lambda: matrices["CSR incidence"] @ edge_rows,
        "heads": lambda: head_sums(adj, weights, quantize(x), heads=HEADS),
        "heads together": lambda: head_sums(adj, weights, codes, heads=HEADS, way="together"),
        "heads apart": lambda: head_sums(adj, weights, codes, heads=HEADS, way="apart"),
        "add": lambda: int8_sddmm_add(adj, *(quantize(narrow_rows),) * 2),
        "dot": lambda: int8_sddmm_dot(adj, *(quantize(x),) * 2, heads=HEADS),
    }
    pair_label = f"SPMM of packed int4 rows, {_megabytes(packed_rows.codes)}"
    int8_label, float_label = (
        f"{name} rows, {_megabytes(rows)}" for name, rows in (("int8", four_bit_codes.codes), ("float32", x))
    )
    pairs = [
        Pair(f"{pair_label}, codes kept", "sum, packed", "sum, codes kept", int8_label),
        Pair(f"{pair_label}, codes kept", "sum, packed", "float32 sum", float_label),
        Pair(f"{pair_label}, packed for this sum", "sum, packed for it", "sum, codes kept", int8_label),
        Pair(f"SPMM of {int8_label}, codes kept", "sum, codes kept", "float32 sum", float_label),
        Pair("SPMM of int8 rows", "sum", "CSR sum", "torch.sparse CSR", 2.0),
        Pair("SPMM incidence", "incidence", "CSR incidence", "torch.sparse CSR", 2.0),
        Pair("SPMM incidence", "incidence", "incidence, codes written", "quantized, then summed"),
        Pair("SPMM incidence", "incidence", "incidence, float32", "float32, one reading"),
        Pair("SPMM incidence, codes kept", "incidence, codes kept", "CSR incidence", "torch.sparse CSR", 2.0),
        Pair("SPMM multi-head, one pass, codes kept", "heads together", "heads apart", "a pass for each head"),
    ]
    try:
        contestants |= _dgl_sums(adj, x, narrow_rows, edge_rows, weights)
    except ImportError as error:
        print(f"bench int8: DGL does not import ({error}), so its rows are omitted", flush=True)
    else:
        pairs += [
            Pair("SPMM of int8 rows", "sum", "DGL sum", "DGL copy_u/sum, no weights", 2.0),
            Pair("SPMM incidence", "incidence", "DGL incidence", "DGL copy_e/sum", 2.0),
            Pair("SPMM multi-head", "heads", "DGL heads", "DGL u_mul_e/sum", 2.0),
            Pair("SDDMM add", "add", "DGL add", "DGL u_add_v", 1.9),
            Pair("SDDMM dot", "dot", "DGL dot", "DGL u_dot_v", 1.6),
        ]
    case = f"power law, {adj.num_rows} nodes, {adj.num_edges} edges, {HEADS} heads x {COLUMNS} "
    case += f"(incidence and add: {COLUMNS} columns), {torch.get_num_threads()} thread(s)"
    return compare(case, contestants, pairs, repeats)


def _dense_rows(width: int, repeats: int) -> list[dict[str, Any]]:
    import torch

    from benchmarks.studies.compute import instructions
    from gnnqlab.compute import Int8Products
    from gnnqlab.kernels.dense.dense import bfloat16_mm
    from gnnqlab.kernels.dense.int8_mm import int8_instructions

    generator = torch.Generator().manual_seed(0)
    x, gradient = (torch.randn(ROWS, width, generator=generator) for _ in range(2))
    weight = torch.randn(width, width, generator=generator)
    y, dw = torch.empty(ROWS, width), torch.empty(width, width)
    contestants: dict[str, Callable[[], object]] = {
        "float32 X W": lambda: torch.mm(x, weight, out=y),
        "float32 dY W.T": lambda: torch.mm(gradient, weight.t(), out=y),
        "float32 X.T dY": lambda: torch.mm(x.t(), gradient, out=dw),
        "bfloat16 X W": lambda: bfloat16_mm(x.bfloat16(), weight.bfloat16(), out=y),
    }
    pairs = []
    for scale in ("row", "tensor"):
        products = Int8Products(scale=scale).build()
        x_codes, w_codes = products.operand(x), products.weight(weight)
        dy_codes = products.operand(gradient)
        floats = {"X W": (x, weight), "dY W.T": (gradient, weight), "X.T dY": (x, gradient)}
        codes = {"X W": (x_codes, w_codes), "dY W.T": (dy_codes, w_codes), "X.T dY": (x_codes, dy_codes)}
        for name, transposed_factor, out in (("X W", "", y), ("dY W.T", "b", y), ("X.T dY", "a", dw)):
            metric, reused_metric = f"{name}, scale by {scale}", f"{name}, scale by {scale}, codes kept"
            contestants[metric] = _product(products, floats[name], transposed_factor, out)
            contestants[reused_metric] = _product(products, codes[name], transposed_factor, out)
            goal = GEMM_GOALS[width] if name == "X W" else None
            pairs.append(Pair(metric, metric, f"float32 {name}", "torch float32", goal))
            if name == "X W":
                pairs.append(Pair(metric, metric, "bfloat16 X W", "bfloat16, float32 sums"))
            pairs.append(Pair(reused_metric, reused_metric, metric, "quantized again", 1.6 if name == "X W" else None))
    case = f"{ROWS} x {width} by {width} x {width}, {torch.get_num_threads()} thread(s), {int8_instructions()}, "
    return compare(case + instructions(), contestants, pairs, repeats)


def _product(products: Any, factors: tuple[Any, Any], transposed_factor: str, out: Any) -> Callable[[], object]:
    """Return a product that quantizes float32 factors first: weights with one scale, rows by the products' settings."""

    def run() -> object:
        products.begin()
        a, b = products.operand(factors[0]), factors[1]
        b = products.operand(b) if transposed_factor == "a" else products.weight(b)
        return products.mm(a, b, transposed=transposed_factor, out=out)

    return run


def _megabytes(rows: Any) -> str:
    return f"{rows.nbytes / 1e6:.4g} MB"


def _csr(matrix: Adjacency, weights: Any, columns: int) -> Any:
    import torch

    shape = (matrix.num_rows, columns)
    with warnings.catch_warnings():  # PyTorch warns that CSR is a beta feature
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(matrix.indptr, matrix.indices.long(), weights, shape, check_invariants=True)


def _dgl_sums(
    adj: Adjacency, x: Any, narrow_rows: Any, edge_rows: Any, weights: Any
) -> dict[str, Callable[[], object]]:
    """Return DGL's own products; its edges are numbered by destination, like ours."""
    import dgl.function as fn
    from dgl import ops

    from benchmarks.kernels.spmm import dgl_graph

    graph = dgl_graph(adj)
    heads = x.view(len(x), HEADS, COLUMNS)
    graph.ndata["x"] = x

    def sums() -> object:
        graph.update_all(fn.copy_u("x", "m"), fn.sum("m", "h"))
        return graph.ndata.pop("h")

    return {
        "DGL sum": sums,
        "DGL incidence": lambda: ops.copy_e_sum(graph, edge_rows),
        "DGL heads": lambda: ops.u_mul_e_sum(graph, heads, weights.unsqueeze(-1)),
        "DGL add": lambda: ops.u_add_v(graph, narrow_rows, narrow_rows),
        "DGL dot": lambda: ops.u_dot_v(graph, heads, heads),
    }


def _epoch_rows(graph: Graph, case: str, model: str, repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.dense.int8_mm import int8_instructions

    trainers = {name: make_trainer(graph, model, settings, 0) for name, settings in {**CODES, "float32": None}.items()}
    try:
        trainers["DGL"] = make_dgl(graph, model, 0)
    except ImportError as error:
        print(f"bench int8: DGL does not import ({error}), so its rows are omitted", flush=True)
    shape = f"{case} {SHAPE[model]['layers']} x 256, dense features, {torch.get_num_threads()} thread(s), "
    goals = {"float32": 1.1, "DGL": {"gcn": 1.5, "gat": 2.0}[model]}
    pairs = [
        Pair(f"epoch, {name}", name, rival, f"{rival} epoch", goal)
        for name in CODES
        for rival, goal in goals.items()
        if rival in trainers
    ]
    return compare(shape + int8_instructions(), next_epochs(trainers), pairs, repeats)
