"""Products of int8 codes on the GPU at hand, one by one: beside float32, bfloat16 and the framework's own of int8.

Dense products have the widths of TANGO's Fig. 12. Codes are kept where a line does not say that quantizing is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import Pair, compare, median, spread

if TYPE_CHECKING:
    from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["measure_dense", "measure_edges", "measure_quantizing"]

Timed = Callable[[Mapping[str, Callable[[], object]], int], dict[str, list[float]]]
"""Contestants and repeats -> seconds of each."""
GOALS = {256: 2.2, 512: 2.5}
"""Of a dense product with quantizing inside beside the framework's float32."""
HEADS = 4
SETTINGS: dict[str, Any] = {"seed": 1, "epoch": 0, "stream": 0}


def measure_quantizing(timed: Timed, repeats: int, *, rows: int, columns: int, device: str) -> list[dict[str, Any]]:
    """Bytes that quantizing must read and write, beside a copy on the device that moves as many."""
    import torch

    from gnnqlab.kernels.codec.quantize import Noise, quantize

    x, ids = torch.randn(rows, columns, device=device), torch.arange(rows, device=device)
    noise, out = Noise(ids, **SETTINGS), quantize(x)
    copied = torch.empty_like(x)
    contestants: dict[str, Callable[[], object]] = {
        "copy": lambda: copied.copy_(x),
        "a scale a row": lambda: quantize(x, noise=noise, out=out),
        "a scale a row, to nearest": lambda: quantize(x, out=out),
        "one scale": lambda: quantize(x, scale="tensor", noise=noise, out=out),
    }
    seconds = timed(contestants, repeats)
    ceiling = 2 * x.numel() * 4 / median(seconds["copy"]) / 1e9
    lines = []
    for name in list(contestants)[1:]:
        moved = x.numel() * (9 if name == "one scale" else 5) + rows * 4 + (0 if "nearest" in name else rows * 8)
        value = moved / median(seconds[name]) / 1e9
        case, metric = f"int8, D = {columns}, {rows} rows", f"quantize, {name}, bytes read and written"
        detail = f" ({spread(seconds[name])})"
        lines.append(row(case, metric, value, "GB/s", "device copy", ceiling, value / ceiling, detail=detail))
    return lines


def measure_dense(timed: Timed, repeats: int, *, rows: int, width: int, device: str) -> list[dict[str, Any]]:
    """``X W`` and ``X^T dY`` of codes of ``(rows, width)`` and ``(width, width)``."""
    import torch

    from gnnqlab.kernels.codec.quantize import Noise, quantize
    from gnnqlab.kernels.dense.int8_mm import int8_mm, int8_mm_scaled, int8_mm_transposed

    x, w = torch.randn(rows, width, device=device), torch.randn(width, width, device=device)
    ids = torch.arange(rows, device=device)
    noise, codes, weight = Noise(ids, **SETTINGS), quantize(x), quantize(w, scale="tensor")
    step, of_all = float(weight.scales[0]), quantize(x, scale="tensor")
    out, narrow, narrow_w = torch.empty_like(x), x.bfloat16(), w.bfloat16()
    turned, scales = weight.codes.t().contiguous().t(), codes.scales.unsqueeze(1) * step
    contestants: dict[str, Callable[[], object]] = {
        "float32": lambda: torch.mm(x, w, out=out),
        "bfloat16": lambda: torch.mm(narrow, narrow_w),
        "_int_mm": lambda: torch._int_mm(codes.codes, turned),
        "_int_mm scaled": lambda: torch._int_mm(codes.codes, turned) * scales,
        "codes": lambda: int8_mm(codes.codes, codes.scales, weight.codes, step, out=out),
        "rows": lambda: int8_mm(
            (made := quantize(x, noise=noise, out=codes)).codes, made.scales, weight.codes, step, out=out
        ),
        "float32 over": lambda: torch.mm(x.t(), x),
        "over": lambda: int8_mm_transposed(of_all.codes, of_all.codes, 1.0),
        "over scaled": lambda: int8_mm_scaled(codes.codes, codes.codes, codes.scales),
    }
    case, own = f"int8, D = {width}, {rows} x {width} x {width}", "torch float32 product"
    pairs = [
        Pair("X W of codes, quantizing inside", "rows", "float32", own, GOALS.get(width)),
        Pair("X W of codes", "codes", "float32", own),
        Pair("X W of codes", "codes", "bfloat16", "torch bfloat16 product"),
        Pair("X W of codes", "codes", "_int_mm", "torch._int_mm, integers"),
        Pair("X W of codes", "codes", "_int_mm scaled", "torch._int_mm, times scales"),
        Pair("X^T dY of codes, one scale", "over", "float32 over", own),
        Pair("X^T dY of codes, a scale a row", "over scaled", "float32 over", own),
    ]
    return compare(case, contestants, pairs, repeats, timed=timed)


def measure_edges(timed: Timed, repeats: int, *, adj: Adjacency, columns: int, device: str) -> list[dict[str, Any]]:
    """Products along edges of rows of codes beside our own of float32."""
    import torch

    from gnnqlab.kernels.codec.quantize import quantize
    from gnnqlab.kernels.sparse.adjacency import Adjacency
    from gnnqlab.kernels.sparse.aggregate import spmm
    from gnnqlab.kernels.sparse.int8_edges import (
        incidence,
        int8_sddmm_add,
        int8_sddmm_dot,
        int8_weighted_sum,
        quantized_sum,
    )
    from gnnqlab.kernels.sparse.sddmm import sddmm_dot, weighted_sum

    there = Adjacency.of_checked(adj.indptr, adj.indices, num_columns=adj.num_columns).to(device)
    x = torch.randn(adj.num_rows, columns, device=device)
    heads, codes, sources = x.view(adj.num_rows, HEADS, -1), quantize(x), there.indices.long()
    rows = torch.arange(adj.num_rows, device=device).repeat_interleave(there.indptr.diff())
    weights, of_edges = torch.rand(adj.num_edges, HEADS, device=device), torch.randn(adj.num_edges, 64, device=device)
    ends = incidence(there)
    narrow = quantize(x[:, :64].contiguous())
    contestants: dict[str, Callable[[], object]] = {
        "dot float32": lambda: sddmm_dot(there, heads, heads),
        "dot": lambda: int8_sddmm_dot(there, codes, codes, heads=HEADS),
        "add float32": lambda: x[sources, :64] + x[rows, :64],
        "add": lambda: int8_sddmm_add(there, narrow, narrow),
        "heads float32": lambda: weighted_sum(there, weights, heads),
        "heads": lambda: int8_weighted_sum(there, weights, codes, heads=HEADS),
        "incidence float32": lambda: spmm(ends, of_edges),
        "incidence in two": lambda: spmm(ends, quantize(of_edges)),
        "incidence": lambda: quantized_sum(ends, of_edges),
    }
    case = f"int8, edges: {adj.num_rows} nodes, {adj.num_edges} edges, D = {columns}"
    on_the_way = "rows of edges, D = 64, quantized on the way"
    pairs = [
        Pair(f"SDDMM dot of codes, {HEADS} heads", "dot", "dot float32", "float32 SDDMM", 1.6),
        Pair("SDDMM add of codes, D = 64", "add", "add float32", "torch, float32 rows picked and added", 1.9),
        Pair(f"weighted sums of codes, {HEADS} heads", "heads", "heads float32", "float32 weighted sums"),
        Pair(on_the_way, "incidence", "incidence float32", "float32 sums"),
        Pair(on_the_way, "incidence", "incidence in two", "codes written, summed"),
    ]
    return compare(case, contestants, pairs, repeats, timed=timed)
