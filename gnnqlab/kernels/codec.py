"""The message codec: float rows to b-bit codes and back, each row with its own range and width.

Shapes: n rows of a call, N source rows, M target rows, D columns: ``x (N, D)``, ``out (M, D)``, ``params (n, 2)``, and
``rows``, ``ids``, ``bits``, ``offsets``, ``ranges (n,)``. A row's payload is exactly ``ceil(D * b / 8)`` bytes,
element j at bits ``j * b``, lowest first. `gnnqlab.kernels.reference.codec` defines the arithmetic; the compiled
kernels give the same bytes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.noise import check_counter
from gnnqlab.kernels.reference import codec as reference

__all__ = ["WIDTHS", "decode_rows", "encode_rows", "row_bytes"]

WIDTHS = (1, 2, 4, 8)


def row_bytes(columns: int, bits: int | Tensor) -> int | Tensor:
    """Bytes of a row's payload, ``ceil(columns * bits / 8)``; a tensor of widths gives int64.

    Example:
        >>> row_bytes(5, 2), row_bytes(5, torch.tensor([1, 8], dtype=torch.uint8)).tolist()
        (2, [1, 5])
    """
    if isinstance(bits, Tensor):
        bits = bits.long()
    return (columns * bits + 7) // 8


def encode_rows(
    x: Tensor,
    rows: Tensor,
    ids: Tensor,
    bits: int | Tensor,
    offsets: Tensor | None,
    payload: Tensor,
    params: Tensor,
    *,
    seed: int,
    epoch: int,
    stream: int,
    ranges: Tensor | None = None,
) -> None:
    """Gather ``x[rows]``, round it stochastically to b-bit codes and pack them.

    ``q = floor((x - Z) / S + u)``, ``u ~ U[0, 1)`` in 16 bits, with ``Z = min(x)`` and ``S = (max(x) - min(x)) /
    (2**b - 1)``, so ``E[q S + Z] = x`` (AdaQP, Wan et al., MLSys 2023, eqs. 4 and 5). With bfloat16 parameters Z is
    rounded down and S up before the codes are computed, which keeps decoding unbiased. A constant row encodes to zeros.

    Args:
        x: float32 or bfloat16; a row's stride may exceed D.
        rows: which rows, int64 or int32, in any order, possibly repeated.
        ids: their global node ids, int64, below 2**32.
        bits: one width of `WIDTHS` or one a row (uint8).
        offsets: where each row's payload starts (int64), or None for rows one after another of one width.
        payload: uint8, one-dimensional; written at the rows' places only.
        params: float32 or bfloat16 ``(n, 2)``, receives (Z, S).
        ranges: float32, receives ``max - min`` of each row (before any rounding of parameters).

    Raises:
        NonFiniteRow: if a row holds NaN or Inf or its range overflows; the attribute ``position`` indexes ``rows``.
        ValueError: if shapes, types, widths, ids or places do not fit.

    Example:
        >>> payload, params = torch.zeros(1, dtype=torch.uint8), torch.zeros(1, 2)
        >>> row, ids = torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([0])
        >>> encode_rows(row, ids, ids, 2, None, payload, params, seed=0, epoch=0, stream=0)
        >>> payload.tolist() == [0 + (1 << 2) + (3 << 4)], params.tolist()
        (True, [[0.0, 1.0]])
    """
    check_counter(seed, epoch, stream)
    _check_rows(x, rows, payload, params, (torch.float32, torch.bfloat16), "x")
    bits_n, offsets_n = _places(bits, offsets, rows.numel(), x.shape[1], payload)
    if ids.shape != rows.shape:
        raise ValueError(f"there must be one id for each of {rows.numel()} rows, got shape {tuple(ids.shape)}")
    bad = reference.encode_rows(
        x, rows, ids, bits_n, offsets_n, payload, params,
        seed=seed, epoch=epoch, stream=stream, ranges_n=ranges,
    )  # fmt: skip
    if bad >= 0:
        raise NonFiniteRow(bad)


def decode_rows(
    payload: Tensor,
    params: Tensor,
    bits: int | Tensor,
    offsets: Tensor | None,
    out: Tensor,
    rows: Tensor | None,
    *,
    accumulate: bool = False,
) -> None:
    """Unpack rows, bring them back to ``q S + Z`` and put them into (or add them to) ``out[rows]``.

    Args:
        payload, params, bits, offsets: as `encode_rows` wrote them.
        out: float32; a row's stride may exceed D. Rows at multiples of 64 bytes are written fastest.
        rows: target rows, int64 or int32, each at most once; None for 0, 1, 2, ...
        accumulate: add instead of overwriting.

    Raises:
        ValueError: if shapes, types, widths or places do not fit.

    Example:
        >>> out = torch.zeros(1, 3)
        >>> payload, params = torch.tensor([52], dtype=torch.uint8), torch.tensor([[0.0, 1.0]])
        >>> decode_rows(payload, params, 2, None, out, None)
        >>> out.tolist()
        [[0.0, 1.0, 3.0]]
    """
    if rows is None:
        rows = torch.arange(params.shape[0], device=params.device)
    _check_rows(out, rows, payload, params, (torch.float32,), "out")
    bits_n, offsets_n = _places(bits, offsets, rows.numel(), out.shape[1], payload)
    reference.decode_rows(payload, params, bits_n, offsets_n, out, rows, accumulate=accumulate)


def _check_rows(
    matrix: Tensor, rows: Tensor, payload: Tensor, params: Tensor, types: tuple[torch.dtype, ...], name: str
) -> None:
    if matrix.dim() != 2 or matrix.dtype not in types or (matrix.stride(1) != 1 and matrix.shape[1] > 1):
        raise ValueError(
            f"{name} must be a matrix of {' or '.join(map(str, types))} with contiguous rows, "
            f"got {matrix.dtype} of shape {tuple(matrix.shape)} and strides {matrix.stride()}"
        )
    if params.shape != (rows.numel(), 2) or params.dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(
            f"params must be float32 or bfloat16 of shape ({rows.numel()}, 2), "
            f"got {params.dtype} of shape {tuple(params.shape)}"
        )
    if payload.dtype != torch.uint8 or payload.dim() != 1 or not payload.is_contiguous():
        raise ValueError(f"payload must be one contiguous uint8 vector, got {payload.dtype} {tuple(payload.shape)}")


def _places(
    bits: int | Tensor, offsets: Tensor | None, rows: int, columns: int, payload: Tensor
) -> tuple[Tensor, Tensor]:
    """Width and offset of each row as tensors."""
    if isinstance(bits, int):
        if bits not in WIDTHS:
            raise ValueError(f"bits must be one of {WIDTHS}, got {bits}")
        size = row_bytes(columns, bits)
        if offsets is None:
            if rows * size > payload.numel():
                raise ValueError(f"payload must hold {rows} rows of {size} bytes, got {payload.numel()} bytes")
            offsets = torch.arange(rows, device=payload.device) * size
        bits = torch.full((rows,), bits, dtype=torch.uint8, device=payload.device)
    elif offsets is None:
        raise ValueError("offsets must be given when each row has its own width, got None")
    return bits, offsets
