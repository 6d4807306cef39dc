"""Rows to codes of their random rotation, and back; letters as in :mod:`gnnqlab.kernels.codec.rows`.

`gnnqlab.kernels.reference.rotate` defines the arithmetic; the compiled kernels give the same bytes. Those for CUDA were
never run on a GPU, only thread by thread on a CPU; of rows wider than `MOST_COLUMNS` the reference runs there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import NON_FINITE, raise_or_note, row_bytes, run_noting, split_bits
from gnnqlab.kernels.noise import check_counter
from gnnqlab.kernels.reference import rotate as reference

__all__ = ["MOST_COLUMNS", "ROTATED_WIDTHS", "decode_rotated", "encode_rotated"]

ROTATED_WIDTHS = (1, 2, 3, 4)
MOST_COLUMNS = 8192
"""Most columns of a row that lies in a CUDA block's shared memory."""

_encode_rotated = native.declare("encode_rotated", "p i i i p i p p i p p i p p i i i i i")
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

    The scale ``S = |x|^2 / <R x, q>`` makes ``S R' q`` unbiased over rotations that are uniform (EDEN, Vargaftik et
    al., ICML 2022; DRIVE, NeurIPS 2021, at one bit). A constant row has no scale: ``-|c|`` takes its place, and the
    first code says whether c is negative.

    Args:
        x: float32 ``(N, D)``.
        rows, ids: which rows, and their global node ids below 2**32, int64 ``(n,)``.
        bits: one width of `ROTATED_WIDTHS`, or one a row (uint8).
        offsets: where each row's payload starts (int64), or None for rows one after another of one width.
        payload: uint8, one-dimensional.
        scales: float32 ``(n,)``, receives S.
        spreads: float32 ``(n, 2)``, receives the norm ``|x|``, 0 of a constant row, and ``max - min``.
        rotations: how many randomized Hadamard rotations, 1 or 2.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf, or its range or a sum of its elements overflows. On CUDA this and wrong
            entries are raised by :func:`gnnqlab.kernels.codec.rows.raise_refused`.
        ValueError: if widths, rows, ids or places do not fit.

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
    """Put ``S R' q`` into ``out[rows]``, or add it there.

    Args:
        payload, scales, bits, offsets: as `encode_rotated` wrote them.
        out: float32 ``(M, D)``.
        rows: target rows, int64 ``(n,)``, each at most once.
        ids, rotations, seed, epoch, stream: as `encode_rotated` had them; they are the rotation.
        accumulate: add instead of overwriting.

    Raises:
        ValueError: if widths, rows, ids or places do not fit.
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
        scales.zero_()
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
        if not refusal:
            return
    bits_n, offsets_n = _places(rows, out.shape, ids, bits if bits is not None else width, offsets, payload)
    reference.decode_rotated(
        payload, scales, bits_n, offsets_n, out, rows, ids, accumulate=accumulate, rotations=rotations, **noise
    )


def _native(matrix: Tensor, *others: Tensor) -> bool:
    """Whether the compiled kernel takes these: no gaps between elements of a row, and on CUDA not too many."""
    return (
        (matrix.device.type == "cpu" or matrix.shape[1] <= MOST_COLUMNS)
        and native.active(matrix.device)
        and (matrix.stride(1) == 1 or matrix.shape[1] == 1)
        and all(each.is_contiguous() for each in others)
    )


def _places(
    rows: Tensor, shape: torch.Size, ids: Tensor, bits: int | Tensor, offsets: Tensor | None, payload: Tensor
) -> tuple[Tensor, Tensor]:
    """Return width and offset of each row, both checked."""
    count, columns = rows.numel(), shape[1]
    bits_n = bits if isinstance(bits, Tensor) else torch.full((count,), bits, dtype=torch.uint8, device=rows.device)
    if not set(bits_n.unique().tolist()) <= set(ROTATED_WIDTHS):
        raise ValueError(f"widths must be one of {ROTATED_WIDTHS}, got {sorted(bits_n.unique().tolist())}")
    if offsets is None:
        offsets = torch.arange(count, device=rows.device) * int(row_bytes(columns, int(bits_n[0])))
    ends = offsets + row_bytes(columns, bits_n)
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
