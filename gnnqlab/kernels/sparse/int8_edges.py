"""Edge products on rows of int8 codes, with float32 sums; the row's scale is applied per edge (TANGO, section 3.3).

These products are bound by random reads of rows, and a row of codes has a quarter of the bytes of float32.
Shapes: N rows by column, R rows of the adjacency, E edges in its order, K heads of F features, D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.quantize import SCALES, NoiseCounter, check_bits, largest_magnitude, quantize
from gnnqlab.kernels.codec.rows import raise_or_note, run_noting
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from gnnqlab.kernels.native import call
from gnnqlab.kernels.reference import attention as reference
from gnnqlab.kernels.sparse.adjacency import Adjacency, describe
from gnnqlab.kernels.sparse.aggregate import QuantizedRows, spmm
from gnnqlab.kernels.sparse.attention_passes import attend_columns, attend_rows

__all__ = [
    "incidence",
    "int8_attend_columns",
    "int8_attend_rows",
    "int8_sddmm_add",
    "int8_sddmm_dot",
    "int8_weighted_sum",
    "quantized_sum",
]

# As in `attention_passes`, but each matrix of codes is followed by its scales.
_attend = native.declare("int8_attend", "p p i i i i p i i p p i p p p p f p i p i")
_attend_backward = native.declare("int8_attend_backward", "p p p i i i i p i p p p p i p f p i p p i")
# indptr, indices, R, K, F, weights; codes, N, stride, scales; out, stride; threads.
_weighted_sum = native.declare("int8_weighted_sum", "p p i i i p p i i p p i i")
# indptr, indices, R, K, F (D for sums); codes, N, stride, scales by column; codes, stride, scales by row; out; threads.
_dot = native.declare("int8_sddmm_dot", "p p i i i p i i p p i p p i")
_add = native.declare("int8_sddmm_add", "p p i i p i i p p i p p i")
# indptr, indices, R; x, stride, D; ids, are int32; L, largest, is stochastic; seed, epoch, stream; out; threads.
_quantized_sum = native.declare("quantized_sum", "p p i p i i p i f p i i i i p i")


def incidence(adj: Adjacency, *, by_column: bool = False) -> Adjacency:
    """Build the matrix that sums edge rows at the edges' ends: one row per node, one column per edge.

    The adjacency lists its edges by destination, so sums at destinations (the rows of ``adj``) read consecutive rows;
    sums at sources (``by_column``) read rows in random order. Multiply with
    :func:`gnnqlab.kernels.sparse.aggregate.spmm`, which takes float32, bfloat16 and int8 rows ``(E, D)``.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1], dtype=torch.int32), num_columns=2)
        >>> from gnnqlab.kernels.sparse.aggregate import spmm
        >>> rows = torch.tensor([[1.0], [2.0], [4.0]])
        >>> spmm(incidence(adj), rows).flatten().tolist(), spmm(incidence(adj, by_column=True), rows).flatten().tolist()
        ([3.0, 4.0], [1.0, 6.0])
    """
    if by_column:
        # (C, E): row u lists the edges that start at u, by their numbers in adj.
        return Adjacency.of_checked(adj.transposed.indptr, adj.transposed_edges, num_columns=adj.num_edges)
    # (R, E): the edges of a row are consecutive already.
    order = torch.arange(adj.num_edges, dtype=torch.int32, device=adj.device)
    return Adjacency.of_checked(adj.indptr, order, num_columns=adj.num_edges)


def quantized_sum(
    adj: Adjacency, x: Tensor, *, bits: int = 8, scale: str = "row", noise: NoiseCounter | None = None
) -> Tensor:
    """Compute ``spmm(adj, quantize(x, ...))``, bit-identical, without storing codes; no gradient is recorded.

    For edge rows, which enter one sum each: their codes would be written, read once and freed. The kernel reads ``x``
    once (twice with one scale for all), as a float32 sum does, so codes reduce no memory traffic here; they do if
    several products use them.

    Args:
        adj: matrix without weights, from :func:`incidence`.
        x: rows by column, float32 ``(N, D)``.
        bits, scale, noise: as for :func:`gnnqlab.kernels.codec.quantize.quantize`.

    Raises:
        NonFiniteRow: if a summed row holds NaN or Inf; on CUDA ``raise_refused`` raises it.
        ValueError: if a setting is unknown or a shape does not match.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2]), torch.tensor([0, 1], dtype=torch.int32), num_columns=2)
        >>> quantized_sum(adj, torch.tensor([[1.0], [2.0]])).item()
        3.0
    """
    check_bits(bits)
    if adj.weights is not None or x.shape[0] != adj.num_columns:
        raise ValueError(f"quantized_sum needs {adj.num_columns} rows and a matrix without weights, got {describe(x)}")
    use_kernel = x.dtype == torch.float32 and x.dim() == 2 and native.active(x.device) and x.numel() > 0
    # An unknown scale is refused by `quantize`.
    if not use_kernel or scale not in SCALES:
        return spmm(adj, quantize(x, bits=bits, scale=scale, noise=noise))
    if noise is not None and noise.ids.shape != (x.shape[0],):
        raise ValueError(f"noise must have an id for each of {x.shape[0]} rows, got shape {tuple(noise.ids.shape)}")
    x = x if x.shape[1] == 1 or x.stride(1) == 1 else x.contiguous()
    maximum = largest_magnitude(x) if scale == "tensor" else None
    # On CUDA this test would synchronize; there the kernel refuses the row.
    if maximum is not None and x.is_cpu and not bool(maximum.isfinite()):
        raise_or_note(~torch.isfinite(x).all(1))
    ids = None if noise is None else noise.ids[adj.indices]  # in the order of the summed terms
    counter = (0, 0, 0) if noise is None else (noise.seed, noise.epoch, noise.stream)
    out = empty_in_huge_pages(x, adj.num_rows, x.shape[1])  # (R, D)
    refusal = run_noting(
        _quantized_sum, adj.indptr, adj.indices, adj.num_rows, x, x.stride(0), x.shape[1], ids,
        int(ids is not None and ids.dtype == torch.int32), float(2 ** (bits - 1) - 1), maximum, int(noise is not None),
        *counter, out,
    )  # fmt: skip
    if refusal:
        raise NonFiniteRow(refusal // 8)
    return out


def int8_sddmm_add(adj: Adjacency, x: QuantizedRows, y: QuantizedRows) -> Tensor:
    """Compute ``out[e] = x[source of e] + y[row of e]``, float32 ``(E, D)``, from codes; no gradient is recorded.

    Args:
        adj: the edges.
        x: rows by column, ``(N, D)``.
        y: rows by row, ``(R, D)``.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32), num_columns=1)
        >>> one = QuantizedRows(torch.tensor([[2]], dtype=torch.int8), torch.tensor([0.5]))
        >>> int8_sddmm_add(adj, one, one).item()
        2.0
    """
    _check(adj, x, y, 1)
    if not _natively(x):
        wide_rows = [_widened(rows, 1)[:, 0] for rows in (x, y)]  # (N, 1, D) -> (N, D), (R, D)
        return reference.sddmm_add(adj.indptr, adj.indices, *wide_rows)
    out = empty_in_huge_pages(x.codes, adj.num_edges, x.shape[1])  # (E, D)
    call(_add, adj.indptr, adj.indices, adj.num_rows, x.shape[1], *_source(x), *_fixed(y), out)
    return out


def int8_sddmm_dot(adj: Adjacency, x: QuantizedRows, y: QuantizedRows, *, heads: int = 1) -> Tensor:
    """Compute ``out[e, k] = <x[source of e, k], y[row of e, k]>``, float32 ``(E, K)``; no gradient is recorded.

    Codes are multiplied and summed as integers (exact below 2**24, in float32 lanes), then multiplied by both scales.

    Args:
        adj: the edges.
        x: rows by column, ``(N, K * F)``, heads concatenated.
        y: rows by row, ``(R, K * F)``.
        heads: K.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32), num_columns=1)
        >>> one = QuantizedRows(torch.tensor([[2, 3]], dtype=torch.int8), torch.tensor([0.5]))
        >>> int8_sddmm_dot(adj, one, one, heads=2).tolist()
        [[1.0, 2.25]]
    """
    _check(adj, x, y, heads)
    if not _natively(x):
        wide_rows = [_widened(rows, heads) for rows in (x, y)]
        return reference.sddmm_dot(adj.indptr, adj.indices, *wide_rows)
    out = x.scales.new_empty((adj.num_edges, heads))  # (E, K)
    call(_dot, adj.indptr, adj.indices, adj.num_rows, heads, x.shape[1] // heads, *_source(x), *_fixed(y), out)
    return out


def int8_weighted_sum(adj: Adjacency, weights: Tensor, x: QuantizedRows, *, heads: int = 1) -> Tensor:
    """Compute ``out[i, k] = sum_e weights[e, k] x[source of e, k]``, float32 ``(R, K, F)``; no gradient is recorded.

    Args:
        adj: the edges.
        weights: float32 ``(E, K)``.
        x: rows by column, ``(N, K * F)``, heads concatenated.
        heads: K.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32), num_columns=1)
        >>> one = QuantizedRows(torch.tensor([[2, 3]], dtype=torch.int8), torch.tensor([0.5]))
        >>> int8_weighted_sum(adj, torch.tensor([[1.0, 2.0]]), one, heads=2).tolist()
        [[[1.0], [3.0]]]
    """
    _check(adj, x, None, heads)
    if weights.shape != (adj.num_edges, heads):
        raise ValueError(f"weights must be of shape {(adj.num_edges, heads)}, got {describe(weights)}")
    if not _natively(x):
        wide_rows = _widened(x, heads)
        return reference.weighted_sum(adj.indptr, adj.indices, weights, wide_rows)
    weights, features = weights.contiguous(), x.shape[1] // heads
    out = empty_in_huge_pages(x.codes, adj.num_rows, heads, features)  # (R, K, F)
    call(_weighted_sum, adj.indptr, adj.indices, adj.num_rows, heads, features, weights, *_source(x), out, x.shape[1])
    return out


def int8_attend_rows(
    adj: Adjacency,
    values: QuantizedRows,
    source_logits: Tensor,
    target_logits: Tensor,
    halo_values: QuantizedRows | None = None,
    halo_logits: Tensor | None = None,
    *,
    slope: float = 0.2,
    rows: tuple[int, int] | None = None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute :func:`gnnqlab.kernels.sparse.attention.attend_rows` with values as codes ``(N, K * F)``."""
    start, stop = (0, adj.num_rows) if rows is None else rows
    heads = source_logits.shape[1]
    # The kernel writes rows of K * F adjacent elements.
    if not _natively(values) or (out is not None and not out.is_contiguous()):
        halo = None if halo_values is None else _widened(halo_values, heads)
        operands = (_widened(values, heads), source_logits, target_logits, halo)
        return attend_rows(adj, *operands, halo_logits, slope=slope, rows=rows, out=out)
    if not 0 <= start <= stop <= adj.num_rows:
        raise ValueError(f"rows must satisfy 0 <= start <= stop <= {adj.num_rows}, got ({start}, {stop})")
    features = values.shape[1] // heads
    if out is None:
        out = empty_in_huge_pages(source_logits, stop - start, heads, features)
    stats = source_logits.new_empty((stop - start, 2, heads))  # (stop - start, 2, K)
    source_logits, target_logits = source_logits.contiguous(), target_logits.contiguous()
    halo_logits = None if halo_logits is None else halo_logits.contiguous()
    of_halo = (None, 0, None) if halo_values is None else _fixed(halo_values)
    call(
        _attend, adj.indptr, adj.indices, start, stop, heads, features, *_source(values), *of_halo, source_logits,
        halo_logits, target_logits, slope, out, heads * features, stats,
    )  # fmt: skip
    return out, stats


def int8_attend_columns(
    adj: Adjacency,
    values: QuantizedRows,
    source_logits: Tensor,
    packed: Tensor,
    gradient: QuantizedRows,
    edge_gradients: Tensor,
    *,
    columns: tuple[int, int],
    slope: float = 0.2,
) -> tuple[Tensor, Tensor]:
    """Compute :func:`gnnqlab.kernels.sparse.attention.attend_columns` with values and gradient as codes."""
    (start, stop), heads = columns, source_logits.shape[1]
    if not _natively(values):
        floats, grad = (_widened(each, heads) for each in (values, gradient))
        return attend_columns(adj, floats, source_logits, packed, grad, edge_gradients, columns=columns, slope=slope)
    if not 0 <= start <= stop <= adj.num_columns or values.shape[0] != stop - start:
        raise ValueError(
            f"columns must lie in [0, {adj.num_columns}] and values have one row each, got ({start}, {stop}) and "
            f"{values.shape[0]} rows"
        )
    transpose, features = adj.transposed, values.shape[1] // heads
    source_logits, packed = source_logits.contiguous(), packed.contiguous()
    values_grad = empty_in_huge_pages(source_logits, stop - start, heads, features)  # (C, K, F)
    source_grad = source_logits.new_empty((stop - start, heads))  # (C, K)
    call(
        _attend_backward, transpose.indptr, transpose.indices, adj.transposed_edges, start, stop, heads, features,
        *_fixed(values), source_logits, packed, *_fixed(gradient), slope, values_grad, heads * features, source_grad,
        edge_gradients,
    )  # fmt: skip
    return values_grad, source_grad


def _widened(rows: QuantizedRows, heads: int) -> Tensor:
    """Decode codes to float32, ``(N, K * F) -> (N, K, F)``."""
    return (rows.codes * rows.scales.unsqueeze(1)).view(rows.shape[0], heads, rows.shape[1] // heads)


def _natively(rows: QuantizedRows) -> bool:
    return native.active(rows.codes.device) and rows.shape[1] > 0


def _fixed(rows: QuantizedRows) -> tuple[Tensor, int, Tensor]:
    """Return codes, row stride and scales, as arguments of the C interface."""
    codes = rows.codes
    if codes.shape[1] > 1 and codes.stride(1) != 1:
        raise ValueError(f"codes must have contiguous rows, got strides {codes.stride()}; use contiguous()")
    return codes, codes.stride(0), rows.scales


def _source(rows: QuantizedRows) -> tuple[Tensor, int, int, Tensor]:
    codes, stride, scales = _fixed(rows)
    return codes, rows.shape[0], stride, scales


def _check(adj: Adjacency, x: QuantizedRows, y: QuantizedRows | None, heads: int) -> None:
    if x.shape[0] != adj.num_columns or x.shape[1] % heads:
        raise ValueError(f"x must have {adj.num_columns} rows of {heads} equal heads, got {describe(x.codes)}")
    if y is not None and y.shape != (adj.num_rows, x.shape[1]):
        raise ValueError(f"y must be of shape {(adj.num_rows, x.shape[1])}, got {describe(y.codes)}")
