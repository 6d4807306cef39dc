"""The CUDA kernels beside what bounds them, on the GPU at hand.

The codec counts the bytes that it must read and write and stands beside a device copy that moves as many; sums stand
beside cuSPARSE as `torch.sparse` calls it, with the CSR matrix built once, 32-bit indices and the output reused. All
seconds come from events on the current stream, contestants in turn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.kernels.gpu_int8 import measure_dense, measure_edges, measure_quantizing
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


def _code_rows(adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    sizes: dict[str, Any] = {"rows": FLOATS // COLUMNS // 4, "device": DEVICE}
    lines = measure_quantizing(event_seconds, repeats, columns=COLUMNS, **sizes)
    for width in (COLUMNS, 2 * COLUMNS):
        lines += measure_dense(event_seconds, repeats, width=width, **sizes)
    return lines + measure_edges(event_seconds, max(repeats // 3, 1), adj=adj, columns=COLUMNS, device=DEVICE)


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
        case = f"codec, D = {columns}, {count} of {num_rows} rows"
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
                lines.append(row(case, metric, value, "GB/s", *beside, detail=detail))
            name = f"encode {bits} bit"
            lines += pair_rows(case, seconds, [Pair(name, name, "index_select", "index_select float32")])
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
    return compare(f"noise, {num_rows} x {COLUMNS}", contestants, pairs, repeats, timed=event_seconds)


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
    return compare(case, contestants, pairs, repeats, timed=event_seconds)


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
    return compare(case, contestants, pairs, max(repeats // 3, 1), timed=event_seconds)
