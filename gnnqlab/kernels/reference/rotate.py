"""The rotated codec in plain PyTorch: randomized Hadamard transform, Lloyd-Max levels, and an unbiased scale.

Letters: m rows of one bit-width, D columns, P columns of a window. A row is rotated by *passes*, ``x <- H (s x)``: s
are random signs and H is the orthonormal Hadamard matrix of order P, on adjacent windows of P columns, P the largest
power of two up to D and `WIDEST`. If P does not divide D, a further pass has one window at the end of the row:
overlapping windows rotate every column without padding, so a row has exactly D codes.

float32, every operation rounded separately, butterflies in the order of their strides; squares and products with levels
are summed in float64, where each is exact, in 16 lanes, so that the compiled kernels can give identical bytes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gnnqlab.kernels.reference.codec import SMALLEST_RANGE, pack, unpack
from gnnqlab.kernels.reference.noise import philox

__all__ = [
    "LEVELS", "WIDEST", "decode_rotated", "encode_rotated", "lane_sums", "passes", "rotate", "rotate_back", "row_signs",
]  # fmt: skip

WIDEST = 4096
"""Largest number of columns of a window: 16 KiB of float32 fit into a first-level cache."""

LEVELS = {
    1: (0.7978845608028654,),
    2: (0.4527800346364921, 1.510417608499096),
    3: (0.24509417894422184, 0.7560052812058781, 1.343909278505002, 2.1519457045369887),
    4: (
        0.12839502985114673, 0.38804829949029046, 0.6567591185324635, 0.9423404564869587,
        1.2562311973471756, 1.6180463860218834, 2.069017226531378, 2.732589570995156,
    ),
}  # fmt: skip
"""Bits -> optimal positive levels for a standard normal distribution (Lloyd 1982, Max 1960): each is the mean of the
values nearest to it, ``l = E[z | t < z < t']``, with ``t`` half way between levels. They are the limit of Lloyd's
iteration in float64, where both conditions hold within 1e-12."""

_LANES = 16


def passes(columns: int, rotations: int) -> list[tuple[int, int, int, int]]:
    """Return the passes over a row: (number of the signs, first column, columns of a window, number of windows).

    Example:
        >>> passes(256, 1), passes(5, 1)
        ([(0, 0, 256, 1)], [(0, 0, 4, 1), (1, 1, 4, 1)])
    """
    size = min(WIDEST, 1 << (columns.bit_length() - 1))  # largest power of two up to D, at most WIDEST
    windows = columns // size
    plan = [(0, 0, size, windows)]
    if windows * size < columns:
        plan.append((1, columns - size, size, 1))  # the last columns, overlapping the window before them
    return [
        (2 * turn + number, first, width, count) for turn in range(rotations) for number, first, width, count in plan
    ]


def row_signs(ids_m: Tensor, columns: int, number: int, *, seed: int, epoch: int, stream: int) -> Tensor:
    """Generate the signs of a pass, +1 or -1, float32 ``(m, D)``: bit ``c % 32`` of word ``c % 128 // 32`` of a block.

    The Philox block is ``c // 128 + number 2^20``: a row is either rotated or rounded stochastically, so no bit is used
    twice.
    """
    # (B,): a Philox block of 128 bits has the signs of 128 columns.
    blocks = torch.arange(-(-columns // 128), device=ids_m.device) + (number << 20)
    rows_mB, blocks_mB = torch.broadcast_tensors(ids_m.long()[:, None], blocks)  # (m, 1), (B,) -> (m, B)
    words = philox((rows_mB, blocks_mB, torch.full_like(rows_mB, epoch), torch.full_like(rows_mB, stream)), seed)
    # 4 x (m, B) -> (m, B, 4, 32), flattened to the columns.
    bits = torch.stack(words, dim=-1)[..., None] >> torch.arange(32, device=ids_m.device) & 1
    return 1.0 - 2.0 * bits.flatten(1)[:, :columns].float()


def rotate(x_mD: Tensor, ids_m: Tensor, rotations: int, **noise: int) -> Tensor:
    """Compute ``R x`` of each row."""
    y_mD = x_mD.clone()
    for number, first, size, windows in passes(x_mD.shape[1], rotations):
        span = slice(first, first + size * windows)
        signs = row_signs(ids_m, x_mD.shape[1], number, **noise)[:, span]
        y_mD[:, span] = _hadamard(y_mD[:, span] * signs, size)  # y <- H (s y)
    return y_mD


def rotate_back(y_mD: Tensor, ids_m: Tensor, rotations: int, **noise: int) -> Tensor:
    """Compute ``R' y`` of each row, the inverse of `rotate`."""
    x_mD = y_mD.clone()
    # H is symmetric and orthonormal, and signs are their own inverse: the same passes in reverse order.
    for number, first, size, windows in reversed(passes(y_mD.shape[1], rotations)):
        span = slice(first, first + size * windows)
        signs = row_signs(ids_m, y_mD.shape[1], number, **noise)[:, span]
        x_mD[:, span] = _hadamard(x_mD[:, span], size) * signs
    return x_mD


def encode_rotated(
    x_ND: Tensor,
    rows_n: Tensor,
    ids_n: Tensor,
    bits_n: Tensor,
    offsets_n: Tensor,
    payload: Tensor,
    scales_n: Tensor,
    spreads_n2: Tensor,
    *,
    rotations: int,
    **noise: int,
) -> Tensor:
    """Write codes, scales and spreads; return a mask of invalid rows, bool ``(n,)``.

    See :func:`gnnqlab.kernels.codec.rotate.encode_rotated`.
    """
    bad_n = torch.zeros(rows_n.numel(), dtype=torch.bool, device=x_ND.device)
    for bits in bits_n.unique().tolist():
        group_m = (bits_n == bits).nonzero()[:, 0]
        x_mD = x_ND[rows_n[group_m]]
        least_m, most_m = x_mD.amin(dim=1) + 0.0, x_mD.amax(dim=1) + 0.0  # -0 becomes +0
        range_m = most_m - least_m
        energy_m = lane_sums(x_mD.double().square())  # |x|^2, float64
        y_mD = rotate(x_mD, ids_n[group_m], rotations, **noise)
        # A rotated row is close to normal, with deviation |x| / sqrt(D): Lloyd-Max levels of that distribution.
        codes_mD, levels_mD = _codes(y_mD, (energy_m / x_mD.shape[1]).sqrt().float(), bits)
        scale_m = (energy_m / lane_sums(y_mD.double() * levels_mD.double())).float()  # S = |x|^2 / <R x, q>
        # A constant row is stored without rotation, by the sign and the magnitude of its elements.
        constant_m = range_m < SMALLEST_RANGE
        bad_n[group_m] = ~torch.isfinite(range_m) | ~(constant_m | torch.isfinite(scale_m))
        # A constant row stores its sign in the first code and its magnitude as a negative scale.
        codes_mD[constant_m] = 0
        codes_mD[constant_m, 0] = (least_m[constant_m] < 0).long()
        packed_mB = pack(codes_mD, bits)
        # (m, 1) + (B,) -> (m, B) positions in the payload.
        payload[offsets_n[group_m][:, None] + torch.arange(packed_mB.shape[1], device=payload.device)] = packed_mB
        scales_n[group_m] = torch.where(constant_m, -least_m.abs(), scale_m)
        norm_m = torch.where(constant_m, 0.0, energy_m.sqrt().float())
        spreads_n2[group_m] = torch.stack([norm_m, range_m], dim=1)
    return bad_n


def decode_rotated(
    payload: Tensor,
    scales_n: Tensor,
    bits_n: Tensor,
    offsets_n: Tensor,
    out_MD: Tensor,
    rows_n: Tensor,
    ids_n: Tensor,
    *,
    accumulate: bool,
    rotations: int,
    **noise: int,
) -> None:
    """Write (or add) the rows to ``out[rows]``; see :func:`gnnqlab.kernels.codec.rotate.decode_rotated`."""
    columns = out_MD.shape[1]
    for bits in bits_n.unique().tolist():
        group_m = (bits_n == bits).nonzero()[:, 0]
        columns_B = torch.arange(-(-columns * bits // 8), device=payload.device)  # (B,), B = ceil(D b / 8)
        codes_mD = unpack(payload[offsets_n[group_m][:, None] + columns_B], bits, columns).long()
        positive_levels = torch.tensor(LEVELS[bits], dtype=torch.float32, device=payload.device)
        levels_mD = torch.cat([-positive_levels.flip(0), positive_levels])[codes_mD]  # codes ascend with the levels
        scale_m1 = scales_n[group_m][:, None]  # (m,) -> (m, 1)
        values_mD = rotate_back(levels_mD, ids_n[group_m], rotations, **noise) * scale_m1
        constant_m1 = torch.where(codes_mD[:, :1] == 1, scale_m1, -scale_m1)  # the scale is -|c|
        values_mD = torch.where(scale_m1 > 0, values_mD, constant_m1)  # other rows have S > 0
        target_m = rows_n[group_m]
        out_MD[target_m] = out_MD[target_m] + values_mD if accumulate else values_mD


def _codes(y_mD: Tensor, deviation_m: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return codes, int64, and their levels; the thresholds between levels are scaled by the row's deviation."""
    levels = torch.tensor(LEVELS[bits], dtype=torch.float64)
    thresholds = ((levels[1:] + levels[:-1]) / 2).float().tolist()
    place_mD = torch.zeros_like(y_mD, dtype=torch.int64)
    for threshold in thresholds:
        place_mD += y_mD.abs() > (deviation_m * threshold)[:, None]  # number of thresholds below |y|
    value_mD = levels.float().to(y_mD.device)[place_mD]
    # Codes ascend with the levels: negative values have the lower half, mirrored.
    half, negative_mD = 1 << (bits - 1), y_mD < 0
    return torch.where(negative_mD, half - 1 - place_mD, half + place_mD), torch.where(negative_mD, -value_mD, value_mD)


def _hadamard(x_mD: Tensor, size: int) -> Tensor:
    """Multiply every window of a row by the orthonormal Hadamard matrix of its size."""
    stride, y = 1, x_mD
    while stride < size:
        # One butterfly stage: pairs of columns at distance ``stride``.
        low, high = y.reshape(x_mD.shape[0], -1, 2, stride).unbind(2)
        y = torch.stack([low + high, low - high], dim=2)
        stride *= 2
    # One multiplication at the end makes H orthonormal.
    return y.reshape(x_mD.shape) * torch.tensor(1 / math.sqrt(size), dtype=torch.float32, device=x_mD.device)


def lane_sums(terms_mD: Tensor) -> Tensor:
    """Sum rows in their own dtype: column c is added to lane ``c % 16``, then the halves of the lanes are added."""
    # (m, D) -> (m, lines, 16); zeros do not change a sum.
    lines = torch.nn.functional.pad(terms_mD, (0, -terms_mD.shape[1] % _LANES)).unflatten(1, (-1, _LANES))
    lanes = lines[:, 0]
    # The order of float sums is part of the definition: first by lane, then halves.
    for line in range(1, lines.shape[1]):
        lanes = lanes + lines[:, line]
    while lanes.shape[1] > 1:
        lanes = lanes[:, : lanes.shape[1] // 2] + lanes[:, lanes.shape[1] // 2 :]  # (m, 2 k) -> (m, k)
    return lanes[:, 0]
