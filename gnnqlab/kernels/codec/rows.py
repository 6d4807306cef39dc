"""The message codec: float rows to b-bit codes and back, each row with its own range and bit-width.

Shapes: n rows of a call, N source rows, M target rows, D columns: ``x (N, D)``, ``out (M, D)``, ``params (n, 2)``, and
``rows``, ``ids``, ``bits``, ``offsets``, ``ranges (n,)``. A row's payload is exactly ``ceil(D * b / 8)`` bytes,
element j at bits ``j * b``, lowest first. `gnnqlab.kernels.reference.codec` defines the arithmetic; the compiled
kernels give identical bytes.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.noise import check_counter
from gnnqlab.kernels.reference import codec as reference

__all__ = [
    "NON_FINITE", "WIDTHS", "decode_rows", "encode_rows", "note_non_finite", "raise_or_note", "raise_refused",
    "row_bytes", "run_noting", "split_bits",
]  # fmt: skip

WIDTHS = (1, 2, 4, 8)

# x, is bfloat16, N, stride, D; rows, are int32, n; ids; bits, width, offsets; payload, bytes; params, are bfloat16;
# ranges; seed, epoch, stream; threads.
_encode_rows = native.declare("encode_rows", "p i i i i p i i p p i p p i p i p i i i i")
# payload, bytes; params, are bfloat16; bits, width, offsets; out, M, stride, D; rows, are int32, n; accumulate;
# threads.
_decode_rows = native.declare("decode_rows", "p i p i p i p p i i i p i i i i")

# A kernel returns 0, or the first refused position * 8 + one of these reasons (core/codec.h).
NON_FINITE, _NO_SUCH_ROW, _ID_TOO_LARGE, _NO_SUCH_WIDTH, _OUTSIDE_PAYLOAD = range(1, 6)


def row_bytes(columns: int, bits: int | Tensor) -> int | Tensor:
    """Compute the bytes of a row's payload, ``ceil(columns * bits / 8)``; int64 for a tensor of bit-widths.

    Example:
        >>> row_bytes(5, 2), row_bytes(5, torch.tensor([1, 8], dtype=torch.uint8)).tolist()
        (2, [1, 5])
    """
    if isinstance(bits, Tensor):
        bits = bits.long()  # a product of uint8 would overflow
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
        rows: indices of the rows, int64 or int32, in any order, possibly repeated.
        ids: their global node ids, int64, below 2**32.
        bits: one bit-width of `WIDTHS` or one per row (uint8).
        offsets: start of each row's payload (int64), or None for consecutive rows of one bit-width.
        payload: uint8, one-dimensional; only the bytes of these rows are written.
        params: float32 or bfloat16 ``(n, 2)``, receives (Z, S).
        seed, epoch, stream: counter of the rounding noise.
        ranges: float32, receives ``max - min`` of each row (before any rounding of parameters).

    Raises:
        NonFiniteRow: if a row holds NaN or Inf or its range overflows; the attribute ``position`` indexes ``rows``. On
            CUDA this and invalid entries are raised by `raise_refused`.
        ValueError: if shapes, types, bit-widths, ids or offsets are invalid.

    Example:
        >>> payload, params = torch.zeros(1, dtype=torch.uint8), torch.zeros(1, 2)
        >>> row, ids = torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([0])
        >>> encode_rows(row, ids, ids, 2, None, payload, params, seed=0, epoch=0, stream=0)
        >>> payload.tolist() == [0 + (1 << 2) + (3 << 4)], params.tolist()
        (True, [[0.0, 1.0]])
    """
    bits_n, width = (bits, 0) if isinstance(bits, Tensor) else (None, bits)  # as `split_bits`
    if torch.compiler.is_compiling():
        torch.ops.gnnqlab.encode_rows(
            x, rows, ids, bits_n, width, offsets, payload, params, ranges, seed, epoch, stream
        )
    else:
        _encode(x, rows, ids, bits_n, width, offsets, payload, params, ranges, seed, epoch, stream)


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
    """Unpack rows, decode them to ``q S + Z`` and write them to (or add them to) ``out[rows]``.

    Args:
        payload, params, bits, offsets: results and arguments of `encode_rows`.
        out: float32; a row's stride may exceed D. Rows aligned to 64 bytes are written fastest.
        rows: target rows, int64 or int32, each at most once; None for 0, 1, 2, ...
        accumulate: True to add instead of overwriting.

    Raises:
        ValueError: if shapes, types, bit-widths or offsets are invalid.

    Example:
        >>> out = torch.zeros(1, 3)
        >>> payload, params = torch.tensor([52], dtype=torch.uint8), torch.tensor([[0.0, 1.0]])
        >>> decode_rows(payload, params, 2, None, out, None)
        >>> out.tolist()
        [[0.0, 1.0, 3.0]]
    """
    bits_n, width = (bits, 0) if isinstance(bits, Tensor) else (None, bits)  # as `split_bits`
    if torch.compiler.is_compiling():
        torch.ops.gnnqlab.decode_rows(payload, params, bits_n, width, offsets, out, rows, accumulate)
    else:
        _decode(payload, params, bits_n, width, offsets, out, rows, accumulate)


def _encode(
    x: Tensor,
    rows: Tensor,
    ids: Tensor,
    bits: Tensor | None,
    width: int,
    offsets: Tensor | None,
    payload: Tensor,
    params: Tensor,
    ranges: Tensor | None,
    seed: int,
    epoch: int,
    stream: int,
) -> None:
    check_counter(seed, epoch, stream)
    count, columns = rows.numel(), x.shape[1]
    lists = {"rows": (rows, _INDEX), "ids": (ids, _INT64), "ranges": (ranges, _FLOAT32)}
    _check(x, (torch.float32, torch.bfloat16), "x", payload, params, bits, width, offsets, count, lists)
    if count == 0 or columns == 0:
        params.zero_()  # no codes, but (Z, S) must be defined
        return
    if native.active(x.device):
        refusal = run_noting(
            _encode_rows, x, x.dtype == torch.bfloat16, x.shape[0], x.stride(0), columns, rows,
            rows.dtype == torch.int32, count, ids, bits, width, offsets, payload, payload.numel(), params,
            params.dtype == torch.bfloat16, ranges, seed, epoch, stream,
        )  # fmt: skip
    else:
        # The kernels check entries while they run; the reference would index out of bounds.
        bits_n, offsets_n = _places(bits, width, offsets, count, columns, payload.device)
        refusal = _first_refusal(rows, x.shape[0], ids, bits_n, offsets_n, columns, payload)
        if not refusal:
            bad_row = reference.encode_rows(
                x, rows, ids, bits_n, offsets_n, payload, params,
                seed=seed, epoch=epoch, stream=stream, ranges_n=ranges,
            )  # fmt: skip
            refusal = bad_row * 8 + NON_FINITE if bad_row >= 0 else 0  # as a kernel returns it
    if refusal:
        _raise(refusal, rows, x.shape[0], ids, bits if bits is not None else width, offsets, payload)


def _decode(
    payload: Tensor,
    params: Tensor,
    bits: Tensor | None,
    width: int,
    offsets: Tensor | None,
    out: Tensor,
    rows: Tensor | None,
    accumulate: bool,
) -> None:
    count, columns = params.shape[0] if rows is None else rows.numel(), out.shape[1]
    _check(out, _FLOAT32, "out", payload, params, bits, width, offsets, count, {"rows": (rows, _INDEX)})
    if count == 0 or columns == 0:
        return
    if native.active(out.device):
        refusal = run_noting(
            _decode_rows, payload, payload.numel(), params, params.dtype == torch.bfloat16, bits, width, offsets, out,
            out.shape[0], out.stride(0), columns, rows, rows is not None and rows.dtype == torch.int32, count,
            accumulate,
        )  # fmt: skip
    else:
        rows = torch.arange(count, device=out.device) if rows is None else rows
        bits_n, offsets_n = _places(bits, width, offsets, count, columns, payload.device)
        refusal = _first_refusal(rows, out.shape[0], None, bits_n, offsets_n, columns, payload)
        if not refusal:
            reference.decode_rows(payload, params, bits_n, offsets_n, out, rows, accumulate=accumulate)
    if refusal:
        _raise(refusal, rows, out.shape[0], None, bits if bits is not None else width, offsets, payload)


def raise_refused(device: torch.device) -> None:
    """Raise for the first row that CUDA kernels refused since the last call.

    A check after every CUDA kernel would synchronize host and device, so errors of encoding on CUDA are collected and
    raised here, for instance once per epoch.

    Raises:
        NonFiniteRow: if that row held NaN or Inf or its range overflowed.
        ValueError: if a row, id, bit-width or offset was invalid.
    """
    refusal = native.take_refusal(device)
    position, reason = divmod(refusal, 8)
    if reason == NON_FINITE:
        raise NonFiniteRow(position)
    if refusal:
        name = {_NO_SUCH_ROW: "rows", _ID_TOO_LARGE: "node ids", _NO_SUCH_WIDTH: "widths"}.get(
            reason, "payload offsets"
        )
        raise ValueError(f"{name} must be in range, got one that is not at position {position} of a call on {device}")


def note_non_finite(bad_n: Tensor, first: int = 0) -> None:
    """Record the first True of a mask as a row with NaN or Inf, for `raise_refused`, without synchronization.

    Args:
        bad_n: True for rows with NaN or Inf, bool ``(n,)``.
        first: position of the mask's first row in its call.

    Example:
        >>> note_non_finite(torch.tensor([False, True]))
        >>> native.take_refusal(torch.device("cpu")) // 8
        1
    """
    if bad_n.numel() == 0:
        return
    record = native.refused(bad_n.device)
    places = torch.arange(first, first + bad_n.numel(), device=bad_n.device) * 8 + NON_FINITE
    first_code = torch.where(bad_n, places, torch.iinfo(torch.int64).max).amin().view(1)  # first marked row, if any
    torch.minimum(record, first_code, out=record)  # in place on the device, without synchronization


def raise_or_note(bad_n: Tensor) -> None:
    """Raise an error for the first row marked as not finite; on CUDA record it for `raise_refused`.

    Raises:
        NonFiniteRow: if there is one, except on CUDA.
    """
    if bad_n.is_cuda:
        note_non_finite(bad_n)
    elif bool(bad_n.any()):
        raise NonFiniteRow(int(bad_n.nonzero()[0, 0]))


def run_noting(kernel: native.Kernel, first: Tensor, *arguments: Any) -> int:
    """Call a kernel whose last argument is the number of threads, or on CUDA the address of the refusal record.

    The device is that of the first argument.

    Returns:
        The refusal code of the kernel; 0 on CUDA, where `raise_refused` reports refusals.
    """
    if first.is_cpu:
        return kernel(first, *arguments, native.threads())
    kernel.cuda(first.device, first, *arguments, native.refused(first.device).data_ptr())  # asynchronous: read later
    return 0


_INDEX, _INT64, _FLOAT32 = (torch.int64, torch.int32), (torch.int64,), (torch.float32,)


def split_bits(bits: int | Tensor) -> tuple[Tensor | None, int]:
    """Split bit-widths into a tensor (one per row) and a number (one for all), the arguments of the kernels."""
    return (bits, 0) if isinstance(bits, Tensor) else (None, bits)


def _check(
    matrix: Tensor,
    types: tuple[torch.dtype, ...],
    name: str,
    payload: Tensor,
    params: Tensor,
    bits: Tensor | None,
    width: int,
    offsets: Tensor | None,
    count: int,
    lists: dict[str, tuple[Tensor | None, tuple[torch.dtype, ...]]],
) -> None:
    """Check the arguments of a call; one function, because every message calls it twice.

    Args:
        matrix, types, name: rows that are encoded, or the output, with its types and its name.
        lists: name -> tensor with one entry per row, if any, and its types.
    """
    if matrix.dim() != 2 or matrix.dtype not in types or (matrix.stride(1) != 1 and matrix.shape[1] > 1):
        raise ValueError(
            f"{name} must be a matrix of {' or '.join(map(str, types))} with contiguous rows, "
            f"got {matrix.dtype} of shape {tuple(matrix.shape)} and strides {matrix.stride()}"
        )

    if payload.dtype != torch.uint8 or payload.dim() != 1 or not payload.is_contiguous():
        raise ValueError(f"payload must be one contiguous uint8 vector, got {payload.dtype} {tuple(payload.shape)}")
    if params.dtype not in (torch.float32, torch.bfloat16) or params.shape != (count, 2) or not params.is_contiguous():
        raise ValueError(
            f"params must be contiguous float32 or bfloat16 of shape ({count}, 2), "
            f"got {params.dtype} of shape {tuple(params.shape)} and strides {params.stride()}"
        )
    if bits is None and width not in WIDTHS:
        raise ValueError(f"bits must be one of {WIDTHS}, got {width}")
    if bits is not None and offsets is None:
        raise ValueError("offsets must be given when each row has its own width, got None")
    if offsets is not None:
        lists |= {"bits": (bits, (torch.uint8,)), "offsets": (offsets, _INT64)}
    for name, (entries, types) in lists.items():
        if entries is None:
            continue
        if entries.dtype not in types or entries.shape != (count,) or not entries.is_contiguous():
            raise ValueError(
                f"{name} must be contiguous {' or '.join(map(str, types))} of shape ({count},), "
                f"got {entries.dtype} of shape {tuple(entries.shape)}"
            )
        if entries.device != matrix.device:
            raise ValueError(f"{name} must be on {matrix.device} like the rows, got {entries.device}")


def _places(
    bits: Tensor | None, width: int, offsets: Tensor | None, count: int, columns: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return bit-width and offset of each row as tensors."""
    if bits is None:
        bits = torch.full((count,), width, dtype=torch.uint8, device=device)
    if offsets is None:
        offsets = torch.arange(count, device=device) * row_bytes(columns, width)
    return bits, offsets


def _first_refusal(
    rows: Tensor, limit: int, ids: Tensor | None, bits: Tensor, offsets: Tensor, columns: int, payload: Tensor
) -> int:
    """Return the first position that the kernels would refuse, with the reason, as their return code."""
    checks = [
        (_NO_SUCH_ROW, (rows < 0) | (rows >= limit)),
        (_NO_SUCH_WIDTH, ~torch.isin(bits, torch.tensor(WIDTHS, dtype=bits.dtype, device=bits.device))),
        (_OUTSIDE_PAYLOAD, (offsets < 0) | (offsets + row_bytes(columns, bits) > payload.numel())),
    ]
    if ids is not None:
        checks.append((_ID_TOO_LARGE, (ids < 0) | (ids >= 1 << 32)))
    # The least code: the first position, and there the first reason.
    return min((int(mask.nonzero()[0, 0]) * 8 + reason for reason, mask in checks if mask.any()), default=0)


def _raise(
    refusal: int,
    rows: Tensor | None,
    limit: int,
    ids: Tensor | None,
    bits: Tensor | int,
    offsets: Tensor | None,
    payload: Tensor,
) -> NoReturn:
    position, reason = divmod(refusal, 8)
    location = f"at position {position}"
    if reason == NON_FINITE:
        raise NonFiniteRow(position)
    if reason == _NO_SUCH_ROW:
        raise ValueError(
            f"rows must be in [0, {limit}), got {position if rows is None else int(rows[position])} {location}"
        )
    if reason == _ID_TOO_LARGE and ids is not None:
        raise ValueError(f"node ids must be in [0, 2**32), got {int(ids[position])} {location}")
    if reason == _NO_SUCH_WIDTH and isinstance(bits, Tensor):
        raise ValueError(f"bits must be one of {WIDTHS}, got {int(bits[position])} {location}")
    place = "consecutive rows" if offsets is None else f"offset {int(offsets[position])}"
    raise ValueError(f"a row must lie inside the payload of {payload.numel()} bytes, got {place} {location}")


# (a!) marks arguments that are written; there is no result, so the fake has no shapes to compute.
native.register(
    "encode_rows(Tensor x, Tensor rows, Tensor ids, Tensor? bits, int width, Tensor? offsets, Tensor(a!) payload, "
    "Tensor(b!) params, Tensor(c!)? ranges, int seed, int epoch, int stream) -> ()",
    _encode,
    fake=lambda *_: None,
)
native.register(
    "decode_rows(Tensor payload, Tensor params, Tensor? bits, int width, Tensor? offsets, Tensor(a!) out, "
    "Tensor? rows, bool accumulate) -> ()",
    _decode,
    fake=lambda *_: None,
)
