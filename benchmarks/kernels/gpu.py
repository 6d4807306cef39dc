"""The CUDA kernels beside what bounds them, on the GPU at hand.

The codec counts the bytes that it must read and write and stands beside a device copy that moves as many; sums stand
beside cuSPARSE as `torch.sparse` calls it, with the CSR matrix built once, 32-bit indices and the output reused. All
seconds come from events on the current stream, contestants in turn. Products of int8 codes stand beside float32,
bfloat16 and the framework's own of int8; dense ones have the widths of TANGO's Fig. 12. Codes are kept where a line
does not say that quantizing is inside.
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

GRAPHS = {"200 k nodes": (200_000, 9_300_000), "ogbn-products' shape": (2_400_000, 62_000_000)}
ATTENTION_GRAPH = (50_000, 2_300_000)
COPY_GOAL, NOISE_GOAL = 0.8, 5.0
SUM_GOALS = {"float32": 1.2, "int8": 1.8}
GEMM_GOALS = {256: 2.2, 512: 2.5}
"""Of a dense product with quantizing inside beside the framework's float32."""
HEADS = 4
SETTINGS: dict[str, Any] = {"seed": 1, "epoch": 0, "stream": 0}


def gpu(repeats: int = 15) -> list[dict[str, Any]]:
    """Measure codec, noise, sums, attention and products of int8 codes on the first CUDA device.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them; the device's name is in the case.

    Raises:
        RuntimeError: if there is no CUDA device or its kernels were not built.
    """
    import torch

    reason = _missing()
    if reason is not None:
        raise RuntimeError(f"bench gpu must find a CUDA device and its kernels, got {reason}")
    with torch.cuda.device(0):
        rows = _codec_rows(repeats) + _noise_rows(repeats)
        for name, size in GRAPHS.items():
            rows += _sum_rows(name, power_law(*size), repeats)
        rows += _attention_rows(power_law(*ATTENTION_GRAPH), repeats)
        rows += _code_rows(power_law(*ATTENTION_GRAPH), repeats)
    device = torch.cuda.get_device_name(0)
    return [line | {"case": f"{device}, {line['case']}"} for line in rows]


def _missing() -> str | None:
    import torch

    from gnnqlab.kernels import native

    if not torch.cuda.is_available():
        return "no CUDA device that PyTorch can use"
    reason: str | None = native.status()["cuda_reason"]
    return reason


def _of(kernel: str, variant: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the two columns by which charts group and name the rows of one case."""
    return [line | {"kernel": kernel, "variant": variant} for line in lines]


def _code_rows(adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    rows = FLOATS // COLUMNS // 4
    lines = _quantize_rows(repeats, rows)
    for width in (COLUMNS, 2 * COLUMNS):
        lines += _dense_rows(repeats, rows, width)
    return lines + _edge_rows(max(repeats // 3, 1), adj)


def event_seconds(contestants: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds on the device of each contestant's runs: two warm-ups each, then all in turn, ``repeats`` times."""
    import torch

    for run in [*contestants.values()] * 2:
        run()
    pairs: dict[str, list[Any]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            run()
            after.record()
            pairs[name].append((before, after))
    torch.cuda.synchronize()
    return {name: [a.elapsed_time(b) / 1e3 for a, b in events] for name, events in pairs.items()}


def _codec_rows(repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, raise_refused, row_bytes

    lines = []
    for columns in (64, 128, 256, 602):
        num_rows = FLOATS // columns
        x = torch.randn(num_rows, columns, device=DEVICE)
        chosen = torch.randperm(num_rows, device=DEVICE)[: num_rows // 2].sort().values
        count, out, params = chosen.numel(), torch.empty_like(x), torch.empty(chosen.numel(), 2, device=DEVICE)
        gathered, places = torch.empty(count, columns, device=DEVICE), torch.randperm(count, device=DEVICE)
        widths = (1, 2, 4, 8) if columns == COLUMNS else (2,)
        payloads = {
            bits: torch.empty(count * int(row_bytes(columns, bits)), dtype=torch.uint8, device=DEVICE)
            for bits in widths
        }
        contestants: dict[str, Callable[[], object]] = {
            "copy": functools.partial(out.copy_, x),
            "index_select": functools.partial(torch.index_select, x, 0, chosen, out=gathered),
        }
        for bits, payload in payloads.items():
            given = (bits, None, payload, params)
            contestants[f"encode {bits} bit"] = functools.partial(encode_rows, x, chosen, chosen, *given, **SETTINGS)
            decode = functools.partial(decode_rows, payload, params, bits, None, gathered)
            contestants[f"decode {bits} bit"] = functools.partial(decode, places)
            contestants[f"decode {bits} bit, added"] = functools.partial(decode, places, accumulate=True)
        seconds = event_seconds(contestants, repeats)
        raise_refused(x.device)
        copied = 2 * x.numel() * 4 / median(seconds["copy"]) / 1e9
        case, found = f"codec, D = {columns}, {count} of {num_rows} rows", []
        for bits, payload in payloads.items():
            packed, floats = payload.numel() + params.numel() * 4, count * columns * 4
            moved = {
                f"encode {bits} bit": floats + packed + 2 * chosen.numel() * 8,
                f"decode {bits} bit": floats + packed + chosen.numel() * 8,
                f"decode {bits} bit, added": 2 * floats + packed + chosen.numel() * 8,
            }
            for name, size in moved.items():
                value = size / median(seconds[name]) / 1e9
                metric, detail = f"{name}, bytes read and written", f" ({spread(seconds[name])})"
                goal = None if "added" in name else COPY_GOAL
                beside = ("device copy", copied, value / copied, goal)
                found.append(row(case, metric, value, "GB/s", *beside, detail=detail))
            name = f"encode {bits} bit"
            found += pair_rows(case, seconds, [Pair(name, name, "index_select", "index_select float32")])
        lines += _of("codec", f"D = {columns}", found)
    return lines


def _noise_rows(repeats: int) -> list[dict[str, Any]]:
    """Noise where it is used, inside of encoding, beside drawing as many numbers and then encoding in PyTorch."""
    import torch

    from gnnqlab.kernels.codec.rows import encode_rows
    from gnnqlab.kernels.noise import dropout

    num_rows = FLOATS // COLUMNS // 4
    x, ids = torch.randn(num_rows, COLUMNS, device=DEVICE), torch.arange(num_rows, device=DEVICE)
    payload = torch.empty(num_rows * COLUMNS // 4, dtype=torch.uint8, device=DEVICE)
    params = torch.empty(num_rows, 2, device=DEVICE)

    def in_torch() -> Tensor:
        low, high = torch.aminmax(x, dim=1, keepdim=True)
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
    return _of("noise", "", compare(case, contestants, pairs, repeats, timed=event_seconds))


def _sum_rows(name: str, adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.sparse.aggregate import quantize_rows, spmm

    case = f"sums, power law, {name}: {adj.num_rows} nodes, {adj.num_edges} edges, D = {COLUMNS}"
    there = adj.to(DEVICE)
    x = torch.randn(adj.num_rows, COLUMNS, device=DEVICE)
    narrow, codes, out, rival_out = x.bfloat16(), quantize_rows(x), torch.empty_like(x), torch.empty_like(x)
    turned = there.transposed
    contestants: dict[str, Callable[[], object]] = {
        "float32": lambda: spmm(there, x, out=out),
        "float32, backward": lambda: spmm(there, x, transposed=True, out=out),
        "bfloat16": lambda: spmm(there, narrow, out=out),
        "int8": lambda: spmm(there, codes, out=out),
        "cuSPARSE": cusparse(there, x, rival_out),
        "cuSPARSE, backward": cusparse(turned, x, rival_out),
    }
    pairs = []
    for kind in ("float32", "float32, backward", "bfloat16", "int8"):
        rival = "cuSPARSE, backward" if "backward" in kind else "cuSPARSE"
        goal = SUM_GOALS.get(kind.removesuffix(", backward"))
        pairs.append(Pair(f"{kind} rows, weighted", kind, rival, f"cached {rival}, float32", goal))
    return _of("sums", name, compare(case, contestants, pairs, repeats, timed=event_seconds))


def cusparse(adj: Adjacency, x: Tensor, out: Tensor) -> Callable[[], Tensor]:
    """The framework's product with nothing built anew in a call: 32-bit indices, the matrix and the output reused."""
    import warnings

    import torch

    assert adj.weights is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR matrices a beta state
        shape = (adj.num_rows, adj.num_columns)
        matrix = torch.sparse_csr_tensor(adj.indptr.int(), adj.indices, adj.weights, shape)
    return lambda: torch.addmm(out, matrix, x, beta=0.0, out=out)


def _attention_rows(adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    """Attention beside the same in plain PyTorch, which makes a row for every edge: so the graph is smaller."""
    import torch

    from gnnqlab.kernels import native
    from gnnqlab.kernels.sparse.attention import attend

    heads, features = 4, 64
    there = adj.to(DEVICE)
    shapes = ((adj.num_rows, heads, features), (adj.num_rows, heads), (adj.num_rows, heads))
    inputs = [torch.randn(shape, device=DEVICE, requires_grad=True) for shape in shapes]
    plain, grad = [tensor.detach() for tensor in inputs], torch.randn(shapes[0], device=DEVICE)
    assert there.transposed_edges.numel() == there.num_edges

    def in_torch() -> Tensor:
        with native.use("reference"):
            return attend(there, plain[0], plain[1], plain[2])

    contestants: dict[str, Callable[[], object]] = {
        "forward": lambda: attend(there, plain[0], plain[1], plain[2]),
        "both": lambda: torch.autograd.grad(attend(there, inputs[0], inputs[1], inputs[2]), inputs, grad),
        "in torch": in_torch,
    }
    case = f"attention, power law, {adj.num_rows} nodes, {adj.num_edges} edges, {heads} heads x {features}"
    pairs = [
        Pair("attention forward", "forward", "in torch", "plain PyTorch"),
        Pair("attention forward and backward, rival forward only", "both", "in torch", "plain PyTorch"),
    ]
    return _of("attention", "", compare(case, contestants, pairs, max(repeats // 3, 1), timed=event_seconds))


def _quantize_rows(repeats: int, rows: int) -> list[dict[str, Any]]:
    """Bytes that quantizing must read and write, beside a copy on the device that moves as many."""
    import torch

    from gnnqlab.kernels.codec.quantize import Noise, quantize

    x, ids = torch.randn(rows, COLUMNS, device=DEVICE), torch.arange(rows, device=DEVICE)
    noise, out = Noise(ids, **SETTINGS), quantize(x)
    copied = torch.empty_like(x)
    contestants: dict[str, Callable[[], object]] = {
        "copy": lambda: copied.copy_(x),
        "a scale a row": lambda: quantize(x, noise=noise, out=out),
        "a scale a row, to nearest": lambda: quantize(x, out=out),
        "one scale": lambda: quantize(x, scale="tensor", noise=noise, out=out),
    }
    seconds = event_seconds(contestants, repeats)
    ceiling = 2 * x.numel() * 4 / median(seconds["copy"]) / 1e9
    lines = []
    for name in list(contestants)[1:]:
        moved = x.numel() * (9 if name == "one scale" else 5) + rows * 4 + (0 if "nearest" in name else rows * 8)
        value = moved / median(seconds[name]) / 1e9
        case, metric = f"int8, D = {COLUMNS}, {rows} rows", f"quantize, {name}, bytes read and written"
        detail = f" ({spread(seconds[name])})"
        lines.append(row(case, metric, value, "GB/s", "device copy", ceiling, value / ceiling, detail=detail))
    return _of("int8", f"D = {COLUMNS}", lines)


def _dense_rows(repeats: int, rows: int, width: int) -> list[dict[str, Any]]:
    """``X W`` and ``X^T dY`` of codes of ``(rows, width)`` and ``(width, width)``."""
    import torch

    from gnnqlab.kernels.codec.quantize import Noise, quantize
    from gnnqlab.kernels.dense.int8_mm import int8_mm, int8_mm_scaled, int8_mm_transposed

    x, w = torch.randn(rows, width, device=DEVICE), torch.randn(width, width, device=DEVICE)
    ids = torch.arange(rows, device=DEVICE)
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
        Pair("X W of codes, quantizing inside", "rows", "float32", own, GEMM_GOALS.get(width)),
        Pair("X W of codes", "codes", "float32", own),
        Pair("X W of codes", "codes", "bfloat16", "torch bfloat16 product"),
        Pair("X W of codes", "codes", "_int_mm", "torch._int_mm, integers"),
        Pair("X W of codes", "codes", "_int_mm scaled", "torch._int_mm, times scales"),
        Pair("X^T dY of codes, one scale", "over", "float32 over", own),
        Pair("X^T dY of codes, a scale a row", "over scaled", "float32 over", own),
    ]
    return _of("int8", f"D = {width}", compare(case, contestants, pairs, repeats, timed=event_seconds))


def _edge_rows(repeats: int, adj: Adjacency) -> list[dict[str, Any]]:
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

    there = Adjacency.of_checked(adj.indptr, adj.indices, num_columns=adj.num_columns).to(DEVICE)
    x = torch.randn(adj.num_rows, COLUMNS, device=DEVICE)
    heads, codes, sources = x.view(adj.num_rows, HEADS, -1), quantize(x), there.indices.long()
    rows = torch.arange(adj.num_rows, device=DEVICE).repeat_interleave(there.indptr.diff())
    weights, of_edges = torch.rand(adj.num_edges, HEADS, device=DEVICE), torch.randn(adj.num_edges, 64, device=DEVICE)
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
    case = f"int8, edges: {adj.num_rows} nodes, {adj.num_edges} edges, D = {COLUMNS}"
    on_the_way = "rows of edges, D = 64, quantized on the way"
    pairs = [
        Pair(f"SDDMM dot of codes, {HEADS} heads", "dot", "dot float32", "float32 SDDMM", 1.6),
        Pair("SDDMM add of codes, D = 64", "add", "add float32", "torch, float32 rows picked and added", 1.9),
        Pair(f"weighted sums of codes, {HEADS} heads", "heads", "heads float32", "float32 weighted sums"),
        Pair(on_the_way, "incidence", "incidence float32", "float32 sums"),
        Pair(on_the_way, "incidence", "incidence in two", "codes written, summed"),
    ]
    return _of("int8", "", compare(case, contestants, pairs, repeats, timed=event_seconds))
