"""The message codec beside the memory it has to move: memcpy, ``index_select`` and plain torch operations.

Encoding gathers half of the rows of a matrix that no cache holds: *ascending*, as a shard's send list is, and
*shuffled*, the worst case. Decoding scatters as many rows into a halo whose rows start at multiples of 64 bytes.
CDFGNN's linear codes are decoded like the others, so that they stand among the encoders alone; rotated ones have a
row beside memcpy both ways.

The framework's own row-wise codes, ``torch.ops.quantized.embedding_bag_{2bit,4bit,byte}_prepack`` and ``_unpack``,
stand beside ours of 2, 4 and 8 bits. They round to the nearest code, without noise and biased; they take and
give whole matrices, so they neither gather nor scatter; and a row of theirs fills whole bytes: 602 columns have none.
All figures count the float32 bytes of the messages, so memcpy's is what a second copy of them would cost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import interleaved, median, run_each, spread

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["codec"]

FLOATS = 1 << 25
"""Elements of the source matrix: 128 MiB."""

# Encoding against memcpy, by instruction set.
ENCODE_GOALS = {"avx512": {64: 0.75, 256: 1.1, 602: 0.8}, "avx2": {64: 0.65, 256: 0.95, 602: 0.8}, "scalar": {}}
GATHER_GOALS = {64: 1.5, 256: 1.5}  # against index_select
DECODE_GOALS = {128: {1: 2.0, 2: 2.0}, 256: {1: 2.2, 2: 2.0}}  # against memcpy, by threads
ROTATED_GOALS = {"avx512": 0.5, "avx2": 0.35, "scalar": None}  # encoding against memcpy, D = 256, one thread
TORCH_GOAL = 15.0
PREPACK = {2: "2bit", 4: "4bit", 8: "byte"}  # bits of a code: its word in torch.ops.quantized.embedding_bag_*
PREPACK_GOAL = 3.0
SETTINGS: dict[str, Any] = {"seed": 1, "epoch": 0, "stream": 0}


def codec(repeats: int = 15, threads: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    """Measure with one thread and with two pinned ones (where there are two cores).

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them; values in GB/s of float32 message bytes.
    """
    return run_each(__name__ + ":measure_threads", threads=threads, repeats=repeats)


def measure_threads(repeats: int) -> list[dict[str, Any]]:
    """All cases, with the threads of this process."""
    rows = []
    for columns in (64, 128, 256, 602):
        widths = (1, 2, 4, 8) if columns == 256 else (2,)
        for order in ("ascending", "shuffled"):
            rows += _encode_rows(columns, widths if order == "ascending" else (2,), order, repeats)
        rows += _decode_rows(columns, widths, repeats)
    return rows + _dropout_rows(256, repeats)


def _encode_rows(columns: int, widths: tuple[int, ...], order: str, repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels import native
    from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(FLOATS // columns, columns, generator=generator)
    chosen = torch.randperm(x.shape[0], generator=generator)[: x.shape[0] // 2]
    rows = chosen.sort().values if order == "ascending" else chosen
    message, copy = x[rows], torch.empty(rows.numel(), columns)
    contestants: dict[str, Callable[[], object]] = {
        "memcpy": lambda: copy.copy_(message),
        "index_select": lambda: torch.index_select(x, 0, rows, out=copy),
    }
    for bits in widths:
        contestants[f"{bits} bit"] = _encoder(x, rows, bits)
        contestants[f"linear, {bits} bit"] = _linear_encoder(x, rows, bits)
        if bits in ROTATED_WIDTHS:
            contestants[f"rotated, {bits} bit"] = _rotated_encoder(x, rows, bits, 2)
            contestants[f"rotated once, {bits} bit"] = _rotated_encoder(x, rows, bits, 1)
    in_torch = columns == 256 and order == "ascending"
    prepacked = _prepackable(columns, widths) if order == "ascending" else []
    for bits in prepacked:
        contestants[_prepack_name(bits)] = functools.partial(_quantized_op(bits, "prepack"), message)
    if in_torch:
        contestants["torch"] = lambda: _encode_in_torch(x, rows, 2)
    seconds = interleaved(contestants, repeats)
    case = f"encode, D = {columns}, {order} rows, {torch.get_num_threads()} thread(s)"
    lines = []
    for bits in widths:
        against = [("memcpy", ENCODE_GOALS[native.isa()]), ("index_select", GATHER_GOALS)]
        lines += [_versus(seconds, f"{bits} bit", rival, case, message, goals.get(columns)) for rival, goals in against]
        lines += [_versus(seconds, f"linear, {bits} bit", rival, case, message, None) for rival, _ in against]
        if bits in ROTATED_WIDTHS:
            goal = ROTATED_GOALS[native.isa()] if columns == 256 and torch.get_num_threads() == 1 else None
            for kind in ("rotated", "rotated once"):
                lines.append(_versus(seconds, f"{kind}, {bits} bit", "memcpy", case, message, goal))
    lines += [_versus(seconds, f"{b} bit", _prepack_name(b), case, message, PREPACK_GOAL) for b in prepacked]
    if in_torch:
        lines.append(_versus(seconds, "2 bit", "torch", case, message, TORCH_GOAL))
    return lines


def _decode_rows(columns: int, widths: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS, decode_rotated, encode_rotated
    from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, row_bytes

    count = FLOATS // columns // 2
    generator = torch.Generator().manual_seed(0)
    message = torch.randn(count, columns, generator=generator)
    copy, halo, every = torch.empty_like(message), _aligned_rows(count, columns), torch.arange(count)
    places = torch.randperm(count, generator=generator)
    contestants: dict[str, Callable[[], object]] = {"memcpy": lambda: copy.copy_(message)}
    for bits in widths:
        payload = torch.empty(count * int(row_bytes(columns, bits)), dtype=torch.uint8)
        params = torch.empty(count, 2)
        encode_rows(message, every, every, bits, None, payload, params, **SETTINGS)
        decode = functools.partial(decode_rows, payload, params, bits, None, halo, places)
        contestants[f"{bits} bit"] = decode
        contestants[f"{bits} bit, added"] = functools.partial(decode, accumulate=True)
        if _prepackable(columns, (bits,)):
            prepacked = _quantized_op(bits, "prepack")(message)
            contestants[_prepack_name(bits, "unpack")] = functools.partial(_quantized_op(bits, "unpack"), prepacked)
        if bits in ROTATED_WIDTHS:
            rotated, scales, key = torch.empty_like(payload), torch.empty(count), {"rotations": 2, **SETTINGS}
            encode_rotated(message, every, every, bits, None, rotated, scales, torch.empty(count, 2), **key)
            contestants[f"rotated, {bits} bit"] = functools.partial(
                decode_rotated, rotated, scales, bits, None, halo, places, every, accumulate=False, **key
            )
    seconds = interleaved(contestants, repeats)
    case = f"decode, D = {columns}, {torch.get_num_threads()} thread(s)"
    goal = DECODE_GOALS.get(columns, {}).get(torch.get_num_threads())
    lines = [
        _versus(seconds, name, "memcpy", case, message, None if "added" in name or "rotated" in name else goal)
        for name in contestants
        if name != "memcpy" and "unpack" not in name
    ]
    return lines + [
        _versus(seconds, f"{bits} bit", _prepack_name(bits, "unpack"), case, message, None)
        for bits in _prepackable(columns, widths)
    ]


def _dropout_rows(columns: int, repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.noise import dropout

    x = torch.randn(FLOATS // columns // 2, columns)
    ids = torch.arange(x.shape[0])
    seconds = interleaved(
        {
            "dropout": lambda: dropout(x, ids, p=0.5, **SETTINGS),
            "torch dropout": lambda: torch.nn.functional.dropout(x, p=0.5),
            "clone": lambda: x.clone(),
        },
        repeats,
    )
    case = f"dropout, D = {columns}, {torch.get_num_threads()} thread(s)"
    return [_versus(seconds, "dropout", rival, case, x, None) for rival in ("torch dropout", "clone")]


def _encoder(x: Tensor, rows: Tensor, bits: int) -> Callable[[], object]:
    import torch

    from gnnqlab.kernels.codec.rows import encode_rows, row_bytes

    payload = torch.empty(rows.numel() * int(row_bytes(x.shape[1], bits)), dtype=torch.uint8)
    params, ranges = torch.empty(rows.numel(), 2), torch.empty(rows.numel())
    return functools.partial(encode_rows, x, rows, rows, bits, None, payload, params, **SETTINGS, ranges=ranges)


def _rotated_encoder(x: Tensor, rows: Tensor, bits: int, rotations: int) -> Callable[[], object]:
    import torch

    from gnnqlab.kernels.codec.rotate import encode_rotated
    from gnnqlab.kernels.codec.rows import row_bytes

    payload = torch.empty(rows.numel() * int(row_bytes(x.shape[1], bits)), dtype=torch.uint8)
    scales, spreads = torch.empty(rows.numel()), torch.empty(rows.numel(), 2)
    key = {"rotations": rotations, **SETTINGS}
    return functools.partial(encode_rotated, x, rows, rows, bits, None, payload, scales, spreads, **key)


def _linear_encoder(x: Tensor, rows: Tensor, bits: int) -> Callable[[], object]:
    import torch

    from gnnqlab.kernels.codec.linear import encode_linear
    from gnnqlab.kernels.codec.rows import row_bytes

    payload = torch.empty(rows.numel() * int(row_bytes(x.shape[1], bits)), dtype=torch.uint8)
    params, ranges = torch.empty(rows.numel(), 2), torch.empty(rows.numel())
    return functools.partial(encode_linear, x, rows, bits, None, payload, params, ranges)


def _prepackable(columns: int, widths: tuple[int, ...]) -> list[int]:
    """The widths that the framework has for so many columns: it fills whole bytes alone."""
    return [bits for bits in widths if bits in PREPACK and columns * bits % 8 == 0]


def _prepack_name(bits: int, step: str = "prepack") -> str:
    return f"{PREPACK[bits]}_{step} (nearest)"


def _quantized_op(bits: int, step: str) -> Callable[[Tensor], Tensor]:
    """The framework's ``embedding_bag_*_prepack`` or ``_unpack`` of so many bits."""
    import torch

    op: Callable[[Tensor], Tensor] = getattr(torch.ops.quantized, f"embedding_bag_{PREPACK[bits]}_{step}")
    return op


def _encode_in_torch(x: Tensor, rows: Tensor, bits: int, chunk: int = 2048) -> list[Tensor]:
    """The same result but for its noise, by torch operations in place on pieces that fit the cache."""
    import torch

    packed, levels, per_byte = [], 2**bits - 1, 8 // bits
    shifts = torch.arange(per_byte, dtype=torch.uint8) * bits
    for piece in rows.split(chunk):
        values = torch.index_select(x, 0, piece)
        low, high = torch.aminmax(values, dim=1, keepdim=True)
        values.sub_(low).mul_(levels / (high - low)).add_(torch.rand_like(values)).floor_().clamp_(max=levels)
        codes = values.to(torch.uint8).unflatten(1, (-1, per_byte))
        packed.append(codes.bitwise_left_shift_(shifts).sum(dim=2, dtype=torch.uint8))
    return packed


def _aligned_rows(count: int, columns: int) -> Tensor:
    """Zeros whose rows start at multiples of 64 bytes."""
    import torch

    stride = -(-columns // 16) * 16
    block = torch.zeros(count * stride + 16)
    first = -(block.data_ptr() // 4) % 16
    return block[first : first + count * stride].view(count, stride)[:, :columns]


def _versus(
    seconds: dict[str, list[float]], ours: str, rival: str, case: str, message: Tensor, goal: float | None
) -> dict[str, Any]:
    gigabytes = message.numel() * message.element_size() / 1e9
    value, rival_value = median(seconds[ours]), median(seconds[rival])
    figure = f"{ours} ({spread(seconds[ours])}; rival {spread(seconds[rival])})"
    return row(case, figure, gigabytes / value, "GB/s", rival, gigabytes / rival_value, rival_value / value, goal)
