"""The message codec compared with memcpy, ``index_select`` and plain PyTorch operations.

Encoding gathers half of the rows of a matrix larger than any cache: *ascending*, as in a shard's send list, and
*shuffled*, the worst case. Decoding scatters the rows into a halo whose rows start at multiples of 64 bytes.
CDFGNN's linear codes are decoded like the others, so only their encoder is measured; rotated codes are compared with
memcpy in both directions.

Codes of 2, 4 and 8 bits are also compared with PyTorch's row-wise codes,
``torch.ops.quantized.embedding_bag_{2bit,4bit,byte}_prepack`` and ``_unpack``. These round to the nearest code, without
noise and with bias; they convert whole matrices, so they neither gather nor scatter; and their rows fill whole bytes,
which excludes 602 columns. All rates count the float32 bytes of the messages, so memcpy is the cost of a second copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.kernels.pinned import Pair, by_threads, compare

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["codec"]

FLOATS = 1 << 25
"""Elements of the source matrix: 128 MiB."""

# Encoding compared with memcpy, by instruction set.
ENCODE_GOALS = {"avx512": {64: 0.75, 256: 1.1, 602: 0.8}, "avx2": {64: 0.65, 256: 0.95, 602: 0.8}, "scalar": {}}
GATHER_GOALS = {64: 1.5, 256: 1.5}  # compared with index_select
DECODE_GOALS = {128: {1: 2.0, 2: 2.0}, 256: {1: 2.2, 2: 2.0}}  # compared with memcpy, by threads
ROTATED_GOALS = {"avx512": 0.5, "avx2": 0.35, "scalar": None}  # encoding compared with memcpy, D = 256, one thread
TORCH_GOAL = 15.0  # least speed-up over the same operations in PyTorch
PREPACK = {2: "2bit", 4: "4bit", 8: "byte"}  # bits of a code: its word in torch.ops.quantized.embedding_bag_*
PREPACK_GOAL = 3.0
SETTINGS: dict[str, Any] = {"seed": 1, "epoch": 0, "stream": 0}  # noise key of all contestants


@by_threads()
def codec(repeats: int = 15) -> list[dict[str, Any]]:
    """Measure with one thread and with two pinned ones (if there are two cores).

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; values in GB/s of float32 message bytes.
    """
    rows = []
    for columns in (64, 128, 256, 602):
        # all bit-widths only for one number of columns, to bound the time
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
    x = torch.randn(FLOATS // columns, columns, generator=generator)  # 128 MiB, larger than any cache
    shuffled_rows = torch.randperm(x.shape[0], generator=generator)[: x.shape[0] // 2]  # half of the rows
    rows = shuffled_rows.sort().values if order == "ascending" else shuffled_rows  # ascending, as in a send list
    # the message, gathered once for memcpy and the prepack rivals
    message, copy = x[rows], torch.empty(rows.numel(), columns)
    contestants: dict[str, Callable[[], object]] = {
        "memcpy": lambda: copy.copy_(message),
        "index_select": lambda: torch.index_select(x, 0, rows, out=copy),
    }
    pairs = []
    copy_goal, gather_goal = ENCODE_GOALS[native.isa()].get(columns), GATHER_GOALS.get(columns)
    for bits in widths:
        names = [f"{kind}{bits} bit" for kind in ("", "linear, ", "rotated, ", "rotated once, ")]
        contestants |= dict(zip(names, _encoders(x, rows, bits)))
        pairs += [
            Pair(names[0], names[0], "memcpy", goal=copy_goal),
            Pair(names[0], names[0], "index_select", goal=gather_goal),
            Pair(names[1], names[1], "memcpy"),
            Pair(names[1], names[1], "index_select"),
        ]
        if bits in ROTATED_WIDTHS:
            # the goal is for one thread and D = 256
            goal = ROTATED_GOALS[native.isa()] if columns == 256 and torch.get_num_threads() == 1 else None
            pairs += [Pair(name, name, "memcpy", goal=goal) for name in names[2:]]
    for bits in _prepackable(columns, widths) if order == "ascending" else ():
        contestants[_prepack_name(bits)] = functools.partial(_quantized_op(bits, "prepack"), message)
        pairs.append(Pair(f"{bits} bit", f"{bits} bit", _prepack_name(bits), goal=PREPACK_GOAL))
    if columns == 256 and order == "ascending":
        contestants["torch"] = lambda: _encode_in_torch(x, rows, 2)  # plain PyTorch, for one shape only
        pairs.append(Pair("2 bit", "2 bit", "torch", goal=TORCH_GOAL))
    return _compare_codecs(f"encode, D = {columns}, {order} rows", contestants, pairs, repeats, message)


def _decode_rows(columns: int, widths: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS, decode_rotated, encode_rotated
    from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, row_bytes

    count = FLOATS // columns // 2
    generator = torch.Generator().manual_seed(0)
    message = torch.randn(count, columns, generator=generator)
    copy, halo, all_rows = torch.empty_like(message), _aligned_rows(count, columns), torch.arange(count)
    places = torch.randperm(count, generator=generator)  # random order of the halo rows
    contestants: dict[str, Callable[[], object]] = {"memcpy": lambda: copy.copy_(message)}
    pairs, goal = [], DECODE_GOALS.get(columns, {}).get(torch.get_num_threads())
    for bits in widths:
        payload = torch.empty(count * int(row_bytes(columns, bits)), dtype=torch.uint8)
        params = torch.empty(count, 2)
        encode_rows(message, all_rows, all_rows, bits, None, payload, params, **SETTINGS)
        name, decode = f"{bits} bit", functools.partial(decode_rows, payload, params, bits, None, halo, places)
        # overwrite, and add to the halo
        contestants |= {name: decode, f"{name}, added": functools.partial(decode, accumulate=True)}
        pairs += [Pair(name, name, "memcpy", goal=goal), Pair(f"{name}, added", f"{name}, added", "memcpy")]
        if bits in ROTATED_WIDTHS:
            rotated_payload, scales, key = torch.empty_like(payload), torch.empty(count), {"rotations": 2, **SETTINGS}
            # scales only: rotated codes have no zero-point
            encode_rotated(
                message, all_rows, all_rows, bits, None, rotated_payload, scales, torch.empty(count, 2), **key
            )
            contestants[f"rotated, {name}"] = functools.partial(
                decode_rotated, rotated_payload, scales, bits, None, halo, places, all_rows, accumulate=False, **key
            )
            pairs.append(Pair(f"rotated, {name}", f"rotated, {name}", "memcpy"))
    for bits in _prepackable(columns, widths):
        rival = _prepack_name(bits, "unpack")
        contestants[rival] = functools.partial(_quantized_op(bits, "unpack"), _quantized_op(bits, "prepack")(message))
        pairs.append(Pair(f"{bits} bit", f"{bits} bit", rival))
    return _compare_codecs(f"decode, D = {columns}", contestants, pairs, repeats, message)


def _dropout_rows(columns: int, repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.noise import dropout

    x = torch.randn(FLOATS // columns // 2, columns)
    ids = torch.arange(x.shape[0])
    contestants: dict[str, Callable[[], object]] = {
        "dropout": lambda: dropout(x, ids, p=0.5, **SETTINGS),
        "torch dropout": lambda: torch.nn.functional.dropout(x, p=0.5),
        "clone": lambda: x.clone(),
    }  # compulsory cost of a dropout: read and write each row
    pairs = [Pair("dropout", "dropout", rival) for rival in ("torch dropout", "clone")]
    return _compare_codecs(f"dropout, D = {columns}", contestants, pairs, repeats, x)


def _compare_codecs(
    case: str, contestants: dict[str, Callable[[], object]], pairs: list[Pair], repeats: int, message: Tensor
) -> list[dict[str, Any]]:
    """Return the rows of some pairs in GB/s of a message's float32 bytes."""
    import torch

    amount = message.numel() * message.element_size() / 1e9  # GB of float32 per message
    case += f", {torch.get_num_threads()} thread(s)"
    return compare(case, contestants, pairs, repeats, amount=amount, unit="GB/s")


def _encoders(x: Tensor, rows: Tensor, bits: int) -> list[Callable[[], object]]:
    """Return encoders: of min-max codes, of linear codes and, at their widths, of codes rotated twice and once."""
    import torch

    from gnnqlab.kernels.codec.linear import encode_linear
    from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS, encode_rotated
    from gnnqlab.kernels.codec.rows import encode_rows, row_bytes

    count = rows.numel()

    def buffers() -> tuple[Tensor, Tensor, Tensor]:
        # payload, (Z, S) and one float32 per row
        payload = torch.empty(count * int(row_bytes(x.shape[1], bits)), dtype=torch.uint8)
        return payload, torch.empty(count, 2), torch.empty(count)

    payload, params, ranges = buffers()
    encoders: list[Callable[[], object]] = [
        functools.partial(encode_rows, x, rows, rows, bits, None, payload, params, **SETTINGS, ranges=ranges),
        functools.partial(encode_linear, x, rows, bits, None, *buffers()),
    ]
    for rotations in (2, 1) if bits in ROTATED_WIDTHS else ():
        payload, spreads, scales = buffers()
        key = {"rotations": rotations, **SETTINGS}
        encoders.append(functools.partial(encode_rotated, x, rows, rows, bits, None, payload, scales, spreads, **key))
    return encoders


def _prepackable(columns: int, widths: tuple[int, ...]) -> list[int]:
    """Return the bit-widths that PyTorch supports for this number of columns: rows must fill whole bytes."""
    return [bits for bits in widths if bits in PREPACK and columns * bits % 8 == 0]


def _prepack_name(bits: int, step: str = "prepack") -> str:
    return f"{PREPACK[bits]}_{step} (nearest)"


def _quantized_op(bits: int, step: str) -> Callable[[Tensor], Tensor]:
    """Return PyTorch's ``embedding_bag_*_prepack`` or ``_unpack`` for a bit-width."""
    import torch

    op: Callable[[Tensor], Tensor] = getattr(torch.ops.quantized, f"embedding_bag_{PREPACK[bits]}_{step}")
    return op


def _encode_in_torch(x: Tensor, rows: Tensor, bits: int, chunk: int = 2048) -> list[Tensor]:
    """Encode with PyTorch operations, in place, on chunks that fit the cache; equal to our codes up to the noise."""
    import torch

    chunks, levels, per_byte = [], 2**bits - 1, 8 // bits
    shifts = torch.arange(per_byte, dtype=torch.uint8) * bits
    for piece in rows.split(chunk):
        values = torch.index_select(x, 0, piece)  # (chunk, D)
        low, high = torch.aminmax(values, dim=1, keepdim=True)
        # min-max codes with noise, as in AdaQP Eq. 4
        values.sub_(low).mul_(levels / (high - low)).add_(torch.rand_like(values)).floor_().clamp_(max=levels)
        codes = values.to(torch.uint8).unflatten(1, (-1, per_byte))  # (chunk, D / per_byte, per_byte)
        chunks.append(codes.bitwise_left_shift_(shifts).sum(dim=2, dtype=torch.uint8))  # sum of shifted codes: one byte
    return chunks


def _aligned_rows(count: int, columns: int) -> Tensor:
    """Return zeros ``(count, columns)`` whose rows start at multiples of 64 bytes."""
    import torch

    stride = -(-columns // 16) * 16  # floats per row, rounded up to 64 bytes
    block = torch.zeros(count * stride + 16)  # 16 floats of slack to align the first row
    offset = -(block.data_ptr() // 4) % 16  # floats until the next multiple of 64 bytes
    return block[offset : offset + count * stride].view(count, stride)[:, :columns]
