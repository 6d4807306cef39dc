"""Rotated codec: encode and decode rows after a random rotation; letters as in :mod:`gnnqlab.kernels.codec.rows`.

`gnnqlab.kernels.reference.rotate` defines the arithmetic; the compiled kernels give identical bytes. The CUDA kernels
have been tested only by emulation on a CPU, thread by thread, never on a GPU; for rows wider than `MAX_COLUMNS` the
reference runs on CUDA.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import NON_FINITE, raise_or_note, row_bytes, run_noting, split_bits
from gnnqlab.kernels.noise import check_counter
from gnnqlab.kernels.reference import rotate as reference

__all__ = ["MAX_COLUMNS", "ROTATED_WIDTHS", "decode_rotated", "encode_rotated"]

ROTATED_WIDTHS = (1, 2, 3, 4)
MAX_COLUMNS = 8192
"""Largest number of columns of a row that fits into a CUDA block's shared memory."""

# x, N, stride, D; rows, n, ids; bits, width, offsets; payload, bytes; scales, spreads; rotations; seed, epoch,
# stream; threads.
_encode_rotated = native.declare("encode_rotated", "p i i i p i p p i p p i p p i i i i i")
# payload, bytes; scales; bits, width, offsets; out, M, stride, D; rows, ids, n; accumulate; rotations; seed, epoch,
# stream; threads.
_decode_rotated = native.declare("decode_rotated", "p i p p i p p i i i p p i i i i i i i")


def encode_rotated(
    x: Tensor,
    rows: Tensor,
    ids: Tensor,
    bits: int | Tensor,
    offsets: Tensor | None,
    payload: Tensor,
    scales: Tensor,
    spreads: Tensor,
    *,
    rotations: int,
    seed: int,
    epoch: int,
    stream: int,
) -> None:
    """Rotate ``x[rows]`` and write the nearest Lloyd-Max levels q of ``R x / (|x| / sqrt(D))``, b bits each.

    The scale ``S = |x|^2 / <R x, q>`` makes ``S R' q`` unbiased over uniform rotations (EDEN, Vargaftik et al., ICML
    2022; DRIVE, NeurIPS 2021, at one bit). A constant row has ``-|c|`` in place of the scale; its first code is 1 if c
    is negative, else 0.

    Args:
        x: float32 ``(N, D)``.
        rows, ids: indices of the rows, and their global node ids below 2**32, int64 ``(n,)``.
        bits: one bit-width of `ROTATED_WIDTHS`, or one per row (uint8).
        offsets: start of each row's payload (int64), or None for consecutive rows of one bit-width.
        payload: uint8, one-dimensional.
        scales: float32 ``(n,)``, receives S.
        spreads: float32 ``(n, 2)``, receives the norm ``|x|``, 0 for a constant row, and ``max - min``.
        rotations: number of randomized Hadamard rotations, 1 or 2.
        seed, epoch, stream: counter of the random signs.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf, or its range or a sum of its elements overflows. On CUDA this and
            invalid entries are raised by :func:`gnnqlab.kernels.codec.rows.raise_refused`.
        ValueError: if bit-widths, rows, ids or offsets are invalid.

    Example:
        >>> payload, scales, spreads = torch.zeros(1, dtype=torch.uint8), torch.zeros(1), torch.zeros(1, 2)
        >>> row, first = torch.tensor([[0.0, 3.0]]), torch.tensor([0])
        >>> key = {"rotations": 1, "seed": 0, "epoch": 0, "stream": 0}
        >>> encode_rotated(row, first, first, 1, None, payload, scales, spreads, **key)
        >>> out = torch.zeros(1, 2)
        >>> decode_rotated(payload, scales, 1, None, out, first, first, accumulate=False, **key)
        >>> out.round(decimals=4).abs().tolist(), spreads.tolist()
        ([[0.0, 3.0]], [[3.0, 3.0]])
    """
    widths, width = split_bits(bits)
    operator = torch.ops.gnnqlab.encode_rotated if torch.compiler.is_compiling() else _encode
    operator(x, rows, ids, widths, width, offsets, payload, scales, spreads, rotations, seed, epoch, stream)


def decode_rotated(
    payload: Tensor,
    scales: Tensor,
    bits: int | Tensor,
    offsets: Tensor | None,
    out: Tensor,
    rows: Tensor,
    ids: Tensor,
    *,
    accumulate: bool,
    rotations: int,
    seed: int,
    epoch: int,
    stream: int,
) -> None:
    """Decode ``S R' q`` into ``out[rows]``, or add it.

    Args:
        payload, scales, bits, offsets: results and arguments of `encode_rotated`.
        out: float32 ``(M, D)``.
        rows: target rows, int64 ``(n,)``, each at most once.
        ids, rotations, seed, epoch, stream: as for `encode_rotated`; they determine the rotation.
        accumulate: True to add instead of overwriting.

    Raises:
        ValueError: if bit-widths, rows, ids or offsets are invalid.
    """
    widths, width = split_bits(bits)
    operator = torch.ops.gnnqlab.decode_rotated if torch.compiler.is_compiling() else _decode
    operator(payload, scales, widths, width, offsets, out, rows, ids, accumulate, rotations, seed, epoch, stream)


def _encode(
    x: Tensor,
    rows: Tensor,
    ids: Tensor,
    bits: Tensor | None,
    width: int,
    offsets: Tensor | None,
    payload: Tensor,
    scales: Tensor,
    spreads: Tensor,
    rotations: int,
    seed: int,
    epoch: int,
    stream: int,
) -> None:
    check_counter(seed, epoch, stream)
    count, columns = rows.numel(), x.shape[1]
    if count == 0 or columns == 0:
        scales.zero_()  # no codes, but defined results
        spreads.zero_()
        return
    noise = {"seed": seed, "epoch": epoch, "stream": stream}
    if _native(x, rows, ids, payload, scales, spreads):
        refusal = run_noting(
            _encode_rotated, x, x.shape[0], x.stride(0), columns, rows, count, ids, bits, width, offsets, payload,
            payload.numel(), scales, spreads, rotations, seed, epoch, stream,
        )  # fmt: skip
        if not refusal:
            return
        # Other refusals are raised below by `_places`, which checks rows, ids and offsets.
        if refusal % 8 == NON_FINITE:
            raise NonFiniteRow(refusal // 8)
    bits_n, offsets_n = _places(rows, x.shape, ids, bits if bits is not None else width, offsets, payload)
    bad_n = reference.encode_rotated(
        x, rows, ids, bits_n, offsets_n, payload, scales, spreads, rotations=rotations, **noise
    )
    raise_or_note(bad_n)


def _decode(
    payload: Tensor,
    scales: Tensor,
    bits: Tensor | None,
    width: int,
    offsets: Tensor | None,
    out: Tensor,
    rows: Tensor,
    ids: Tensor,
    accumulate: bool,
    rotations: int,
    seed: int,
    epoch: int,
    stream: int,
) -> None:
    check_counter(seed, epoch, stream)
    count, columns = rows.numel(), out.shape[1]
    if count == 0 or columns == 0:
        return
    noise = {"seed": seed, "epoch": epoch, "stream": stream}
    if _native(out, rows, ids, payload, scales):
        refusal = run_noting(
            _decode_rotated, payload, payload.numel(), scales, bits, width, offsets, out, out.shape[0], out.stride(0),
            columns, rows, ids, count, accumulate, rotations, seed, epoch, stream,
        )  # fmt: skip
        # Refused entries are raised below by `_places`.
        if not refusal:
            return
    bits_n, offsets_n = _places(rows, out.shape, ids, bits if bits is not None else width, offsets, payload)
    reference.decode_rotated(
        payload, scales, bits_n, offsets_n, out, rows, ids, accumulate=accumulate, rotations=rotations, **noise
    )


def _native(matrix: Tensor, *tensors: Tensor) -> bool:
    """Return True if the compiled kernel supports these tensors: contiguous rows, on CUDA not too wide."""
    return (
        (matrix.device.type == "cpu" or matrix.shape[1] <= MAX_COLUMNS)
        and native.active(matrix.device)
        and (matrix.stride(1) == 1 or matrix.shape[1] == 1)
        and all(tensor.is_contiguous() for tensor in tensors)
    )


def _places(
    rows: Tensor, shape: torch.Size, ids: Tensor, bits: int | Tensor, offsets: Tensor | None, payload: Tensor
) -> tuple[Tensor, Tensor]:
    """Return bit-width and offset of each row, both checked."""
    count, columns = rows.numel(), shape[1]
    bits_n = bits if isinstance(bits, Tensor) else torch.full((count,), bits, dtype=torch.uint8, device=rows.device)
    # All checks before the reference runs: it would index out of bounds, or write some rows before an error.
    if not set(bits_n.unique().tolist()) <= set(ROTATED_WIDTHS):
        raise ValueError(f"widths must be one of {ROTATED_WIDTHS}, got {sorted(bits_n.unique().tolist())}")
    if offsets is None:
        offsets = torch.arange(count, device=rows.device) * int(row_bytes(columns, int(bits_n[0])))
    ends = offsets + row_bytes(columns, bits_n)  # (n,): first byte after each row
    if not (0 <= int(rows.min()) and int(rows.max()) < shape[0]):
        raise ValueError(f"rows must be in [0, {shape[0]}), got {int(rows.min())} to {int(rows.max())}")
    if not (0 <= int(ids.min()) and int(ids.max()) < 1 << 32):
        raise ValueError(f"node ids must be in [0, 2**32), got {int(ids.min())} to {int(ids.max())}")
    if not (0 <= int(offsets.min()) and int(ends.max()) <= payload.numel()):
        raise ValueError(
            f"a row must lie inside the payload of {payload.numel()} bytes, "
            f"got {int(offsets.min())} to {int(ends.max())}"
        )
    return bits_n, offsets


# (a!) marks arguments that are written; there is no result, so the fake has no shapes to compute.
native.register(
    "encode_rotated(Tensor x, Tensor rows, Tensor ids, Tensor? bits, int width, Tensor? offsets, Tensor(a!) payload, "
    "Tensor(b!) scales, Tensor(c!) spreads, int rotations, int seed, int epoch, int stream) -> ()",
    _encode,
    fake=lambda *_: None,
)
native.register(
    "decode_rotated(Tensor payload, Tensor scales, Tensor? bits, int width, Tensor? offsets, Tensor(a!) out, "
    "Tensor rows, Tensor ids, bool accumulate, int rotations, int seed, int epoch, int stream) -> ()",
    _decode,
    fake=lambda *_: None,
)
