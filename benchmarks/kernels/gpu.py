"""CUDA kernels compared with their bounds, on the GPU of this machine.

The codec's compulsory bytes are compared with a device copy of the same size; aggregations with cuSPARSE as called by
`torch.sparse`, with the CSR matrix built once, 32-bit indices and a reused output. All seconds are measured by events
on the current stream, with contestants interleaved. Products of int8 codes are compared with float32, bfloat16 and
PyTorch's int8 products; dense ones have the dimensions of TANGO's Fig. 12. Codes are computed before the measurement
unless a line states that quantizing is inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import Pair, compare, median, pair_rows, spread
from benchmarks.kernels.spmm import power_law

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.kernels.sparse.aggregate import Adjacency

__all__ = ["gpu"]

DEVICE = "cuda"
COLUMNS = 256
FLOATS = 1 << 28
"""Elements of the codec's source matrix: 1 GiB, far beyond the cache of any GPU."""

# Name -> nodes and edges.
GRAPHS = {"200 k nodes": (200_000, 9_300_000), "ogbn-products' shape": (2_400_000, 62_000_000)}
ATTENTION_GRAPH = (50_000, 2_300_000)
COPY_GOAL, NOISE_GOAL = 0.8, 5.0  # shares of a device copy; speed-up of fused noise
SUM_GOALS = {"float32": 1.2, "int8": 1.8}  # least speed-up of aggregations over cuSPARSE
GEMM_GOALS = {256: 2.2, 512: 2.5}
"""Columns -> least speed-up of a dense product with quantizing inside, over PyTorch's float32."""
HEADS = 4
SETTINGS: dict[str, Any] = {"seed": 1, "epoch": 0, "stream": 0}


def gpu(repeats: int = 15) -> list[dict[str, Any]]:
    """Measure codec, noise, sums, attention and products of int8 codes on the first CUDA device.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; the device's name is in the case.

    Raises:
        RuntimeError: if there is no CUDA device or its kernels were not built.
    """
    import torch

    reason = _unavailable_reason()
    if reason is not None:
        raise RuntimeError(f"bench gpu must find a CUDA device and its kernels, got {reason}")
    with torch.cuda.device(0):
        rows = _codec_rows(repeats) + _noise_rows(repeats)
        for name, size in GRAPHS.items():
            rows += _sum_rows(name, power_law(*size), repeats)
        rows += _attention_rows(power_law(*ATTENTION_GRAPH), repeats)
        rows += _code_rows(power_law(*ATTENTION_GRAPH), repeats)
    device = torch.cuda.get_device_name(0)
    # results of different GPUs are different cases
    return [line | {"case": f"{device}, {line['case']}"} for line in rows]


def _unavailable_reason() -> str | None:
    import torch

    from gnnqlab.kernels import native

    if not torch.cuda.is_available():
        return "no CUDA device that PyTorch can use"
    reason: str | None = native.status()["cuda_reason"]
    return reason


def _add_labels(kernel: str, variant: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the columns ``kernel`` and ``variant``, used by charts to group and name rows."""
    return [line | {"kernel": kernel, "variant": variant} for line in lines]


def _code_rows(adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    rows = FLOATS // COLUMNS // 4
    lines = _quantize_rows(repeats, rows)
    for width in (COLUMNS, 2 * COLUMNS):
        lines += _dense_rows(repeats, rows, width)
    return lines + _edge_rows(max(repeats // 3, 1), adj)


def event_seconds(contestants: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return device seconds of each contestant's runs: two warm-ups each, then all interleaved, ``repeats`` times."""
    import torch

    for run in [*contestants.values()] * 2:  # two warm-ups
        run()
    pairs: dict[str, list[Any]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            pairs[name].append((start, end))
    torch.cuda.synchronize()  # once at the end: waiting after each run would add launch latency to the next
    return {name: [a.elapsed_time(b) / 1e3 for a, b in events] for name, events in pairs.items()}


def _codec_rows(repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, raise_refused, row_bytes

    lines = []
    for columns in (64, 128, 256, 602):
        num_rows = FLOATS // columns
        x = torch.randn(num_rows, columns, device=DEVICE)  # 1 GiB of float32
        row_ids = torch.randperm(num_rows, device=DEVICE)[: num_rows // 2].sort().values  # half of the rows, ascending
        count, out, params = row_ids.numel(), torch.empty_like(x), torch.empty(row_ids.numel(), 2, device=DEVICE)
        gathered_rows, places = torch.empty(count, columns, device=DEVICE), torch.randperm(count, device=DEVICE)
        widths = (1, 2, 4, 8) if columns == COLUMNS else (2,)
        payloads = {
            bits: torch.empty(count * int(row_bytes(columns, bits)), dtype=torch.uint8, device=DEVICE)
            for bits in widths
        }
        contestants: dict[str, Callable[[], object]] = {
            "copy": functools.partial(out.copy_, x),
            "index_select": functools.partial(torch.index_select, x, 0, row_ids, out=gathered_rows),
        }
        for bits, payload in payloads.items():
            output = (bits, None, payload, params)
            contestants[f"encode {bits} bit"] = functools.partial(encode_rows, x, row_ids, row_ids, *output, **SETTINGS)
            decode = functools.partial(decode_rows, payload, params, bits, None, gathered_rows)
            contestants[f"decode {bits} bit"] = functools.partial(decode, places)
            contestants[f"decode {bits} bit, added"] = functools.partial(decode, places, accumulate=True)
        seconds = event_seconds(contestants, repeats)
        raise_refused(x.device)  # raises errors of the asynchronous kernels
        copy_rate = 2 * x.numel() * 4 / median(seconds["copy"]) / 1e9  # GB/s: read and written
        case, rows = f"codec, D = {columns}, {count} of {num_rows} rows", []
        for bits, payload in payloads.items():
            # bytes of codes and parameters; bytes of float32 rows
            packed_bytes, float_bytes = payload.numel() + params.numel() * 4, count * columns * 4
            # Compulsory bytes: float32 rows, codes with parameters, and int64 row numbers (and noise ids).
            moved_bytes = {
                f"encode {bits} bit": float_bytes + packed_bytes + 2 * row_ids.numel() * 8,
                f"decode {bits} bit": float_bytes + packed_bytes + row_ids.numel() * 8,
                f"decode {bits} bit, added": 2 * float_bytes + packed_bytes + row_ids.numel() * 8,
            }
            for name, size in moved_bytes.items():
                value = size / median(seconds[name]) / 1e9  # GB/s
                metric, detail = f"{name}, bytes read and written", f" ({spread(seconds[name])})"
                goal = None if "added" in name else COPY_GOAL
                rival = ("device copy", copy_rate, value / copy_rate, goal)
                rows.append(row(case, metric, value, "GB/s", *rival, detail=detail))
            name = f"encode {bits} bit"
            rows += pair_rows(case, seconds, [Pair(name, name, "index_select", "index_select float32")])
        lines += _add_labels("codec", f"D = {columns}", rows)
    return lines


def _noise_rows(repeats: int) -> list[dict[str, Any]]:
    """Measure noise generated inside the encoder, compared with drawing it first and encoding in PyTorch."""
    import torch

    from gnnqlab.kernels.codec.rows import encode_rows
    from gnnqlab.kernels.noise import dropout

    num_rows = FLOATS // COLUMNS // 4
    x, ids = torch.randn(num_rows, COLUMNS, device=DEVICE), torch.arange(num_rows, device=DEVICE)
    payload = torch.empty(num_rows * COLUMNS // 4, dtype=torch.uint8, device=DEVICE)
    params = torch.empty(num_rows, 2, device=DEVICE)

    def in_torch() -> Tensor:
        low, high = torch.aminmax(x, dim=1, keepdim=True)
        # quantize to 2 bits in PyTorch, without packing
        return ((x - low) * (3 / (high - low)) + torch.rand_like(x)).floor_().clamp_(max=3).to(torch.uint8)

    contestants: dict[str, Callable[[], object]] = {
        "encode": lambda: encode_rows(x, ids, ids, 2, None, payload, params, **SETTINGS),
        "in torch": in_torch,
        "dropout": lambda: dropout(x, ids, p=0.5, **SETTINGS),
        "torch dropout": lambda: torch.nn.functional.dropout(x, p=0.5),
    }
    pairs = [
        Pair("2-bit rounding, noise fused", "encode", "in torch", "torch operations with rand_like", NOISE_GOAL),
        Pair("dropout", "dropout", "torch dropout"),
    ]
    case = f"noise, {num_rows} x {COLUMNS}"
    return _add_labels("noise", "", compare(case, contestants, pairs, repeats, timed=event_seconds))


def _sum_rows(name: str, adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.sparse.aggregate import quantize_rows, spmm

    case = f"sums, power law, {name}: {adj.num_rows} nodes, {adj.num_edges} edges, D = {COLUMNS}"
    device_adj = adj.to(DEVICE)
    x = torch.randn(adj.num_rows, COLUMNS, device=DEVICE)
    narrow_rows, codes, out, rival_out = x.bfloat16(), quantize_rows(x), torch.empty_like(x), torch.empty_like(x)
    transpose = device_adj.transposed  # built before the measurement
    contestants: dict[str, Callable[[], object]] = {
        "float32": lambda: spmm(device_adj, x, out=out),
        "float32, backward": lambda: spmm(device_adj, x, transposed=True, out=out),
        "bfloat16": lambda: spmm(device_adj, narrow_rows, out=out),
        "int8": lambda: spmm(device_adj, codes, out=out),
        "cuSPARSE": cusparse(device_adj, x, rival_out),
        "cuSPARSE, backward": cusparse(transpose, x, rival_out),
    }
    pairs = []
    for kind in ("float32", "float32, backward", "bfloat16", "int8"):
        rival = "cuSPARSE, backward" if "backward" in kind else "cuSPARSE"
        goal = SUM_GOALS.get(kind.removesuffix(", backward"))
        pairs.append(Pair(f"{kind} rows, weighted", kind, rival, f"cached {rival}, float32", goal))
    return _add_labels("sums", name, compare(case, contestants, pairs, repeats, timed=event_seconds))


def cusparse(adj: Adjacency, x: Tensor, out: Tensor) -> Callable[[], Tensor]:
    """Return a call of PyTorch's sparse product with everything prebuilt: 32-bit indices, matrix and output reused."""
    import warnings

    import torch

    assert adj.weights is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that CSR is a beta feature
        shape = (adj.num_rows, adj.num_columns)
        matrix = torch.sparse_csr_tensor(adj.indptr.int(), adj.indices, adj.weights, shape)
    return lambda: torch.addmm(out, matrix, x, beta=0.0, out=out)  # beta = 0: `out` is overwritten, not added


def _attention_rows(adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    """Compare attention with plain PyTorch, which materializes one row per edge, so the graph is smaller."""
    import torch

    from gnnqlab.kernels import native
    from gnnqlab.kernels.sparse.attention import attend

    heads, features = 4, 64  # K, and F per head
    device_adj = adj.to(DEVICE)
    shapes = ((adj.num_rows, heads, features), (adj.num_rows, heads), (adj.num_rows, heads))
    inputs = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in shapes]
    plain_inputs, grad = [tensor.detach() for tensor in inputs], torch.randn(shapes[0], device=DEVICE)
    assert device_adj.transposed_edges.numel() == device_adj.num_edges  # builds the transpose before the measurement

    def in_torch() -> Tensor:
        with native.use("reference"):
            return attend(device_adj, plain_inputs[0], plain_inputs[1], plain_inputs[2])

    contestants: dict[str, Callable[[], object]] = {
        "forward": lambda: attend(device_adj, plain_inputs[0], plain_inputs[1], plain_inputs[2]),
        "both": lambda: torch.autograd.grad(attend(device_adj, inputs[0], inputs[1], inputs[2]), inputs, grad),
        "in torch": in_torch,
    }
    case = f"attention, power law, {adj.num_rows} nodes, {adj.num_edges} edges, {heads} heads x {features}"
    pairs = [
        Pair("attention forward", "forward", "in torch", "plain PyTorch"),
        Pair("attention forward and backward, rival forward only", "both", "in torch", "plain PyTorch"),
    ]
    return _add_labels("attention", "", compare(case, contestants, pairs, max(repeats // 3, 1), timed=event_seconds))


def _quantize_rows(repeats: int, rows: int) -> list[dict[str, Any]]:
    """Compare the compulsory bytes per second of quantizing with those of a device copy."""
    import torch

    from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize

    x, ids = torch.randn(rows, COLUMNS, device=DEVICE), torch.arange(rows, device=DEVICE)
    noise, out = NoiseCounter(ids, **SETTINGS), quantize(x)
    copy = torch.empty_like(x)
    contestants: dict[str, Callable[[], object]] = {
        "copy": lambda: copy.copy_(x),
        "a scale a row": lambda: quantize(x, noise=noise, out=out),
        "a scale a row, to nearest": lambda: quantize(x, out=out),
        "one scale": lambda: quantize(x, scale="tensor", noise=noise, out=out),
    }
    seconds = event_seconds(contestants, repeats)
    ceiling = 2 * x.numel() * 4 / median(seconds["copy"]) / 1e9
    lines = []
    for name in list(contestants)[1:]:  # the copy itself is the ceiling
        # bytes per element: 4 read (8 with a first pass for the maximum) and 1 written; scales; ids of noise
        moved_bytes = x.numel() * (9 if name == "one scale" else 5) + rows * 4 + (0 if "nearest" in name else rows * 8)
        value = moved_bytes / median(seconds[name]) / 1e9
        case, metric = f"int8, D = {COLUMNS}, {rows} rows", f"quantize, {name}, bytes read and written"
        detail = f" ({spread(seconds[name])})"
        lines.append(row(case, metric, value, "GB/s", "device copy", ceiling, value / ceiling, detail=detail))
    return _add_labels("int8", f"D = {COLUMNS}", lines)


def _dense_rows(repeats: int, rows: int, width: int) -> list[dict[str, Any]]:
    """Measure ``X W`` and ``X^T dY`` of codes of ``(rows, width)`` and ``(width, width)``."""
    import torch

    from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
    from gnnqlab.kernels.dense.int8_mm import int8_mm, int8_mm_scaled, int8_mm_transposed

    x, w = torch.randn(rows, width, device=DEVICE), torch.randn(width, width, device=DEVICE)
    ids = torch.arange(rows, device=DEVICE)
    noise, codes, weight = NoiseCounter(ids, **SETTINGS), quantize(x), quantize(w, scale="tensor")
    step, tensor_codes = float(weight.scales[0]), quantize(x, scale="tensor")
    out, narrow_x, narrow_w = torch.empty_like(x), x.bfloat16(), w.bfloat16()
    # column-major codes; (N, 1) scales
    turned_codes, scales = weight.codes.t().contiguous().t(), codes.scales.unsqueeze(1) * step
    contestants: dict[str, Callable[[], object]] = {
        "float32": lambda: torch.mm(x, w, out=out),
        "bfloat16": lambda: torch.mm(narrow_x, narrow_w),
        "_int_mm": lambda: torch._int_mm(codes.codes, turned_codes),
        "_int_mm scaled": lambda: torch._int_mm(codes.codes, turned_codes) * scales,
        "codes": lambda: int8_mm(codes.codes, codes.scales, weight.codes, step, out=out),
        "rows": lambda: int8_mm(
            (encoded_x := quantize(x, noise=noise, out=codes)).codes, encoded_x.scales, weight.codes, step, out=out
        ),
        "float32 over": lambda: torch.mm(x.t(), x),  # (D, N) x (N, D) -> (D, D)
        "over": lambda: int8_mm_transposed(tensor_codes.codes, tensor_codes.codes, 1.0),
        "over scaled": lambda: int8_mm_scaled(codes.codes, codes.codes, codes.scales),
    }
    case, float32_label = f"int8, D = {width}, {rows} x {width} x {width}", "torch float32 product"
    pairs = [
        Pair("X W of codes, quantizing inside", "rows", "float32", float32_label, GEMM_GOALS.get(width)),
        Pair("X W of codes", "codes", "float32", float32_label),
        Pair("X W of codes", "codes", "bfloat16", "torch bfloat16 product"),
        Pair("X W of codes", "codes", "_int_mm", "torch._int_mm, integers"),
        Pair("X W of codes", "codes", "_int_mm scaled", "torch._int_mm, times scales"),
        Pair("X^T dY of codes, one scale", "over", "float32 over", float32_label),
        Pair("X^T dY of codes, a scale a row", "over scaled", "float32 over", float32_label),
    ]
    return _add_labels("int8", f"D = {width}", compare(case, contestants, pairs, repeats, timed=event_seconds))


def _edge_rows(repeats: int, adj: Adjacency) -> list[dict[str, Any]]:
    """Compare products along edges of quantized rows with our own float32 products."""
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

    device_adj = Adjacency.of_checked(adj.indptr, adj.indices, num_columns=adj.num_columns).to(DEVICE)
    x = torch.randn(adj.num_rows, COLUMNS, device=DEVICE)
    heads, codes, sources = x.view(adj.num_rows, HEADS, -1), quantize(x), device_adj.indices.long()
    # target row of every edge, for plain PyTorch
    rows = torch.arange(adj.num_rows, device=DEVICE).repeat_interleave(device_adj.indptr.diff())
    weights, edge_rows = torch.rand(adj.num_edges, HEADS, device=DEVICE), torch.randn(adj.num_edges, 64, device=DEVICE)
    ends = incidence(device_adj)
    narrow_codes = quantize(x[:, :64].contiguous())  # 64 columns
    contestants: dict[str, Callable[[], object]] = {
        "dot float32": lambda: sddmm_dot(device_adj, heads, heads),
        "dot": lambda: int8_sddmm_dot(device_adj, codes, codes, heads=HEADS),
        "add float32": lambda: x[sources, :64] + x[rows, :64],
        "add": lambda: int8_sddmm_add(device_adj, narrow_codes, narrow_codes),
        "heads float32": lambda: weighted_sum(device_adj, weights, heads),
        "heads": lambda: int8_weighted_sum(device_adj, weights, codes, heads=HEADS),
        "incidence float32": lambda: spmm(ends, edge_rows),
        "incidence in two": lambda: spmm(ends, quantize(edge_rows)),
        "incidence": lambda: quantized_sum(ends, edge_rows),
    }
    case = f"int8, edges: {adj.num_rows} nodes, {adj.num_edges} edges, D = {COLUMNS}"
    edge_metric = "rows of edges, D = 64, quantized on the way"
    pairs = [
        Pair(f"SDDMM dot of codes, {HEADS} heads", "dot", "dot float32", "float32 SDDMM", 1.6),
        Pair("SDDMM add of codes, D = 64", "add", "add float32", "torch, float32 rows picked and added", 1.9),
        Pair(f"weighted sums of codes, {HEADS} heads", "heads", "heads float32", "float32 weighted sums"),
        Pair(edge_metric, "incidence", "incidence float32", "float32 sums"),
        Pair(edge_metric, "incidence", "incidence in two", "codes written, summed"),
    ]
    return _add_labels("int8", "", compare(case, contestants, pairs, repeats, timed=event_seconds))
