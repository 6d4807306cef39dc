"""Weighted aggregation, compared with DGL's ``copy_u``/sum, PyTorch's two CSR products, PyG's and MKL's.

DGL aggregates without weights here, which is its fastest way; with edge weights (``u_mul_e``) it is far slower. Its
backward pass is the same aggregation over the reversed graph, and is measured as such. The first build of every graph
format is not timed, nor is our transpose.

The shard of a worker whose halo is three quarters of its columns is summed from received codes, compared with decoding
them to float32 rows and summing these; halo memory is that of both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import Pair, by_threads, compare
from benchmarks.kernels.sparse_rivals import CSR, MKL, PYG, SUM, sparse_rivals

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.kernels.sparse.aggregate import Adjacency

__all__ = ["dgl_graph", "halo_code_rows", "power_law", "spmm"]

COLUMNS = 256
# nodes and edges
LARGE, SMALL = (200_000, 9_300_000), (20_000, 6_600_000)
DGL_GOAL, CSR_GOAL = 2.0, 6.0  # least speed-ups over DGL and over PyTorch
STRONG_GOAL = 1.8
"""Least speed-up over the faster products of PyTorch and PyG."""
WIDTHS = (64, 512)
"""Further numbers of columns, forward on the large graph."""
NARROW_GOALS = {LARGE: {"bfloat16": 1.25, "int8": 1.6}, SMALL: {"bfloat16": 2.0, "int8": 3.0}}
_SPARSE_GOALS = ((CSR, CSR, CSR_GOAL), (SUM, SUM, STRONG_GOAL), (PYG, PYG, STRONG_GOAL), (MKL, MKL, None))
"""Contestant, name in the table, and goal of each sparse product of another library."""
FEATURES = (34_493, 8_415, 1_100_000)
"""Rows, columns and stored values of a bag-of-words matrix, similar to ``coauthor_physics``."""
SHARDS = {4: (200_000, 3_200_000), 10: (200_000, 8_000_000)}
"""Edges per source row of a worker's shard -> nodes and edges of the graph, of which the worker owns a quarter."""
CODES_GOAL, MEMORY_GOAL = 1.3, 5.0
"""Least speed-up of sums of codes over decoding and summing, and least ratio of halo memory, with few edges a row."""


@by_threads()
def spmm(repeats: int = 7) -> list[dict[str, Any]]:
    """Measure aggregations with one thread and with two pinned ones (if there are two cores).

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.
    """
    rows = []
    for size in (LARGE, SMALL):
        rows += _graph_rows(size, repeats)
    return rows + _feature_rows(repeats) + halo_code_rows(repeats)


def power_law(num_nodes: int, num_edges: int, *, exponent: float = 0.5, seed: int = 0) -> Adjacency:
    """Return a random graph with in- and out-degrees ~ ``rank ** -exponent`` (a power law of exponent 1 + 1/exponent).

    ``num_edges`` edges are drawn and duplicates dropped; the order of the nodes is independent of their degree. Weights
    are uniform.
    """
    import torch

    from gnnqlab.kernels.sparse.aggregate import Adjacency

    generator = torch.Generator().manual_seed(seed)
    share = torch.arange(1, num_nodes + 1, dtype=torch.float64) ** -exponent
    cumulative_shares = (share / share.sum()).cumsum(0)  # inverse transform sampling of a node's rank
    names = torch.randperm(num_nodes, generator=generator)

    def draw() -> Tensor:
        places = torch.searchsorted(cumulative_shares, torch.rand(num_edges, generator=generator, dtype=torch.float64))
        return names[places.clamp_(max=num_nodes - 1)]  # node of the drawn rank

    keys = torch.unique(draw() * num_nodes + draw())  # (target, source) as one key, to drop duplicates
    indptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(keys // num_nodes, minlength=num_nodes).cumsum(0)  # CSR pointer of the targets
    weights = torch.rand(keys.numel(), generator=generator)
    return Adjacency(indptr, (keys % num_nodes).int(), weights, num_columns=num_nodes)


def dgl_graph(adj: Adjacency) -> Any:
    """Return the same graph as a DGL graph, with every format of its kernels built."""
    import dgl
    import torch

    rows = torch.repeat_interleave(torch.arange(adj.num_rows), adj.indptr.diff())
    graph = dgl.graph((adj.indices.long(), rows), num_nodes=adj.num_rows)
    graph.create_formats_()
    return graph


def _graph_rows(size: tuple[int, int], repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.sparse.aggregate import quantize_rows
    from gnnqlab.kernels.sparse.aggregate import spmm as product  # rows in bfloat16 and in int8 codes

    adj = power_law(*size)
    x = torch.randn(adj.num_rows, COLUMNS, generator=torch.Generator().manual_seed(0))
    narrow_rows, codes, out = x.bfloat16(), quantize_rows(x), torch.empty_like(x)
    transpose = adj.transposed  # the backward pass is an aggregation over the reversed graph
    contestants: dict[str, Callable[[], object]] = {
        "forward": lambda: product(adj, x, out=out),
        "backward": lambda: product(adj, x, transposed=True, out=out),
        "bfloat16": lambda: product(adj, narrow_rows, out=out),
        "int8": lambda: product(adj, codes, out=out),
        **{f"{rival} forward": call for rival, call in sparse_rivals(adj, x).items()},
        **{f"{rival} backward": call for rival, call in sparse_rivals(transpose, x).items()},
    }
    try:
        contestants["DGL forward"] = _dgl_sum(adj, x)
        contestants["DGL backward"] = _dgl_sum(transpose, x)
    except ImportError as error:
        print(f"bench spmm: DGL does not import ({error}), so its rows are omitted", flush=True)
    if missing := [rival for rival, _, _ in _SPARSE_GOALS if f"{rival} forward" not in contestants]:
        print(f"bench spmm: {', '.join(missing)} cannot be imported, so their rows are omitted", flush=True)
    case = f"power law, {adj.num_rows} nodes, {adj.num_edges} edges, D = {COLUMNS}, {torch.get_num_threads()} thread(s)"
    pairs = [
        Pair(f"float32 weighted, {way}", way, f"{rival} {way}", name, goal if size == LARGE else None)
        for way in ("forward", "backward")
        for rival, name, goal in (("DGL", "DGL copy_u/sum, no weights", DGL_GOAL), *_SPARSE_GOALS)
        if f"{rival} {way}" in contestants
    ]
    goals = NARROW_GOALS[size].items()
    pairs += [Pair(f"{kind} rows, forward", kind, "forward", "own float32", goal) for kind, goal in goals]
    rows = compare(case, contestants, pairs, repeats)
    return [*rows, *_width_rows(adj, repeats)] if size == LARGE else rows


def _width_rows(adj: Adjacency, repeats: int) -> list[dict[str, Any]]:
    """Compare rows of other widths with the sparse products of other libraries."""
    import torch

    from gnnqlab.kernels.sparse.aggregate import spmm as product

    rows = []
    for columns in WIDTHS:
        x = torch.randn(adj.num_rows, columns, generator=torch.Generator().manual_seed(0))
        out, rivals = torch.empty_like(x), sparse_rivals(adj, x)
        case = f"power law, {adj.num_rows} nodes, {adj.num_edges} edges, D = {columns}, "
        case += f"{torch.get_num_threads()} thread(s)"
        pairs = [
            Pair("float32 weighted, forward", "own", rival, name, goal)
            for rival, name, goal in _SPARSE_GOALS
            if rival in rivals and rival != CSR
        ]
        contestants: dict[str, Callable[[], object]] = {"own": partial(product, adj, x, out=out), **rivals}
        rows += compare(case, contestants, pairs, repeats)
    return rows


def _feature_rows(repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.sparse.aggregate import Adjacency
    from gnnqlab.kernels.sparse.aggregate import spmm as product

    num_rows, num_columns, num_values = FEATURES
    generator = torch.Generator().manual_seed(0)
    # row-major positions of the stored values
    keys = torch.unique(torch.randint(0, num_rows * num_columns, (num_values,), generator=generator))
    indptr = torch.zeros(num_rows + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(keys // num_columns, minlength=num_rows).cumsum(0)
    values = torch.rand(keys.numel(), generator=generator)
    features = Adjacency(indptr, (keys % num_columns).int(), values, num_columns=num_columns)
    weight, grad = torch.randn(num_columns, COLUMNS), torch.randn(num_rows, COLUMNS)
    transpose = features.transposed
    contestants: dict[str, Callable[[], object]] = {
        "X @ W": lambda: product(features, weight),
        "X.T @ dY": lambda: product(features, grad, transposed=True),
        **{f"{rival} X @ W": call for rival, call in sparse_rivals(features, weight).items()},
        **{f"{rival} X.T @ dY": call for rival, call in sparse_rivals(transpose, grad).items()},
    }
    case = f"sparse features {num_rows} x {num_columns}, {keys.numel()} values, D = {COLUMNS}, "
    case += f"{torch.get_num_threads()} thread(s)"
    pairs = [
        Pair(name, name, f"{rival} {name}", rival)
        for name in ("X @ W", "X.T @ dY")
        for rival, _, _ in _SPARSE_GOALS
        if f"{rival} {name}" in contestants
    ]
    return compare(case, contestants, pairs, repeats)


def halo_code_rows(repeats: int = 7) -> list[dict[str, Any]]:
    """Measure sums that read codes of the halo, compared with decoding and summing; one number of threads.

    With 10 edges per source row the faster way depends on the processor and its load; these rows have no goal.
    """
    import torch

    rows = []
    for uses, size in SHARDS.items():
        shard, num_owned = _quarter(power_law(*size))
        for columns in (128, 256):
            for bits in (2, 4):
                case = f"shard of {num_owned} owned and {shard.num_columns - num_owned} halo rows, "
                case += f"{uses} edges a row, D = {columns}, {bits} bits, {torch.get_num_threads()} thread(s)"
                rows += _shard_rows(case, shard, num_owned, columns, bits, repeats, has_goal=uses == min(SHARDS))
    return rows


def _quarter(adj: Adjacency) -> tuple[Adjacency, int]:
    """Return the rows of the first quarter of the nodes over these nodes and the others that they use."""
    import torch

    from gnnqlab.kernels.sparse.aggregate import Adjacency

    num_owned = adj.num_rows // 4
    num_edges = int(adj.indptr[num_owned])
    indices, is_used = adj.indices[:num_edges].long(), torch.zeros(adj.num_columns, dtype=torch.bool)
    is_used[:num_owned] = is_used[indices] = True
    numbers = is_used.cumsum(0) - 1  # of the columns that remain, in their order
    assert adj.weights is not None
    shard = (adj.indptr[: num_owned + 1].clone(), numbers[indices].int(), adj.weights[:num_edges].clone())
    return Adjacency(*shard, num_columns=int(is_used.sum())), num_owned


def _shard_rows(
    case: str, shard: Adjacency, num_owned: int, columns: int, bits: int, repeats: int, *, has_goal: bool
) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, row_bytes
    from gnnqlab.kernels.sparse.aggregate import spmm as product
    from gnnqlab.kernels.sparse.codec_sum import CodedRows, MessageCodes

    generator, num_halo = torch.Generator().manual_seed(0), shard.num_columns - num_owned
    x, sent = (torch.randn(n, columns, generator=generator) for n in (num_owned, num_halo))
    payload = torch.empty(num_halo * int(row_bytes(columns, bits)), dtype=torch.uint8)
    params, places = torch.empty(num_halo, 2), torch.arange(num_halo)
    encode_rows(sent, places, places, bits, None, payload, params, seed=0, epoch=0, stream=0)
    halo, out = torch.empty_like(sent), torch.empty_like(x)
    codes = (MessageCodes(payload, params, bits, None, places),)

    def decode_and_sum() -> None:
        decode_rows(payload, params, bits, None, halo, places)
        product(shard, x, halo, out=out)

    contestants: dict[str, Callable[[], object]] = {
        "codes": lambda: product(shard, x, CodedRows(num_halo, columns, codes), out=out),  # builds its table each time
        "decoded": decode_and_sum,
    }
    name, received = "decode, then sum", payload.nbytes + params.nbytes
    pairs = [Pair("sum of codes of the halo", "codes", "decoded", name, CODES_GOAL if has_goal else None)]
    ours, theirs = CodedRows(num_halo, columns, codes).table.nbytes + received, halo.nbytes
    goal = MEMORY_GOAL if has_goal else None
    # The rival's received bytes are not counted, because later messages may share their buffer.
    memory = row(case, "halo memory", ours, "B", "float32 rows", theirs, theirs / ours, goal)
    return [*compare(case, contestants, pairs, repeats), memory]


def _dgl_sum(adj: Adjacency, x: Tensor) -> Callable[[], object]:
    import dgl.function as fn

    graph = dgl_graph(adj)
    graph.ndata["x"] = x  # rows are stored before the measurement

    def run() -> object:
        graph.update_all(fn.copy_u("x", "m"), fn.sum("m", "h"))
        return graph.ndata.pop("h")

    return run
