"""Random calls of the codec: shapes, strides, index types, widths and difficult values."""

from __future__ import annotations

import dataclasses
import random

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import noise
from gnnqlab.kernels.codec import rows as codec

VALUES = ("normal", "large", "small", "denormal", "zeros", "equal", "integers", "huge", "nearly equal", "bad")


@dataclasses.dataclass(frozen=True)
class Call:
    """Arguments of an encode call, and the rows into which it is decoded."""

    x: Tensor
    rows: Tensor
    ids: Tensor
    bits: int | Tensor
    offsets: Tensor | None
    params: torch.dtype
    payload_bytes: int | None = None
    accumulate: bool = False
    pad: int = 0
    settings: dict[str, int] = dataclasses.field(
        default_factory=lambda: {"seed": 2**62 + 12345, "epoch": 2**32 - 1, "stream": noise.stream("backward", 3, 2)}
    )


def encode(call: Call, device: torch.device | None = None) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return payload, parameters, ranges and the position of the first bad row (or -1)."""
    count = call.rows.numel()
    size = call.payload_bytes
    if size is None:
        assert isinstance(call.bits, int)
        size = count * codec.row_bytes(call.x.shape[1], call.bits)
    payload = torch.full((size,), 77, dtype=torch.uint8, device=device)
    params = torch.full((count, 2), 5.0, dtype=call.params, device=device)
    ranges, bad = torch.full((count,), 9.0, device=device), -1
    x, rows, ids, bits, offsets = (on(part, device) for part in (call.x, call.rows, call.ids, call.bits, call.offsets))
    try:
        codec.encode_rows(x, rows, ids, bits, offsets, payload, params, **call.settings, ranges=ranges)
        if device is not None:
            codec.raise_refused(device)
    except NonFiniteRow as error:
        bad = error.position
    return payload.cpu(), params.cpu(), ranges.cpu(), bad


def on(part, device: torch.device | None):
    """Return a tensor on another device; any other value is unchanged."""
    return part.to(device) if isinstance(part, Tensor) and device is not None else part


def decode(call: Call, *, accumulate: bool | None = None, device: torch.device | None = None) -> Tensor:
    """Decode the call's rows in reverse order into a wider matrix whose other elements must not change."""
    payload, params, _, _ = encode(call)
    count, columns = call.rows.numel(), call.x.shape[1]
    wide = torch.arange(count * (columns + call.pad), dtype=torch.float32).reshape(count, columns + call.pad)
    wide, payload, params = on(wide, device), on(payload, device), on(params, device)
    bits, offsets = on(call.bits, device), on(call.offsets, device)
    accumulate = call.accumulate if accumulate is None else accumulate
    rows = None if offsets is None else torch.arange(count, device=device).flip(0).to(call.rows.dtype)
    codec.decode_rows(payload, params, bits, offsets, wide[:, :columns], rows, accumulate=accumulate)
    return wide.cpu()


def same(got: tuple[Tensor, Tensor, Tensor, int], expected: tuple[Tensor, Tensor, Tensor, int]) -> bool:
    """Compare bytes; of a call with a bad row only its position is defined."""
    if expected[3] >= 0:
        return got[3] == expected[3]
    return got[3] < 0 and all(torch.equal(a, b) for a, b in zip(got[:3], expected[:3], strict=True))


def random_call(
    seed: int,
    *,
    rows: int | None = None,
    columns: int | None = None,
    dtype: torch.dtype | None = None,
    params: torch.dtype | None = None,
    values: str | None = None,
) -> Call:
    """Return a call that is a function of its seed, with the named parts fixed."""
    choose, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    columns = columns or choose.choice([1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 33, 48, 64, 65, 100, 130, 200, 257])
    count = choose.randint(0, 30) if rows is None else rows
    sources, pad = choose.randint(1, 40), choose.choice([0, 0, 1, 7, 16])
    wide = matrix(values or choose.choice(VALUES), sources, columns + pad, choose, generator)
    wide = wide.to(dtype or choose.choice([torch.float32, torch.float32, torch.bfloat16]))
    chosen = torch.randint(0, sources, (count,), generator=generator)
    ids = torch.randint(0, 2**32, (count,), generator=generator)
    if choose.random() < 0.7:  # mixed widths at scattered places
        bits = torch.tensor(codec.WIDTHS, dtype=torch.uint8)[torch.randint(0, 4, (count,), generator=generator)]
        sizes = codec.row_bytes(columns, bits) + torch.randint(0, 3, (count,), generator=generator)
        order = torch.randperm(count, generator=generator)
        offsets = torch.empty(count, dtype=torch.int64)
        offsets[order] = sizes[order].cumsum(0) - sizes[order]
        size = int(sizes.sum())
    else:
        bits, offsets = choose.choice(codec.WIDTHS), None
        size = count * codec.row_bytes(columns, bits)
    return Call(
        x=wide[:, :columns],
        rows=chosen.to(choose.choice([torch.int64, torch.int32])),
        ids=ids,
        bits=bits,
        offsets=offsets,
        params=params or choose.choice([torch.float32, torch.bfloat16]),
        payload_bytes=size,
        accumulate=choose.random() < 0.5,
        pad=choose.choice([0, 1, 7, 16]),
        settings={"seed": choose.getrandbits(63), "epoch": choose.getrandbits(32), "stream": choose.getrandbits(32)},
    )


def matrix(values: str, rows: int, columns: int, choose: random.Random, generator: torch.Generator) -> Tensor:
    """Return values of a kind, float32."""
    x = torch.randn(rows, columns, generator=generator)
    if values == "large":
        return x * 10.0 ** choose.uniform(0, 30)
    if values == "small":
        return x * 10.0 ** choose.uniform(-36, 0)
    if values == "denormal":
        return x * 1e-41
    if values == "zeros":
        return torch.where(x > 0, 0.0, -0.0)
    if values == "equal":
        return x[:, :1].expand(rows, columns).contiguous()
    if values == "integers":
        return (x * 3).round()
    if values == "huge":
        return (x * 1e38).clamp(-1.7e38, 1.7e38) * choose.choice([1.0, 1.99])
    if values == "nearly equal":
        return x[:, :1] + x * 1e-7
    if values == "bad" and choose.random() < 0.5:
        bad = choose.choice([float("nan"), float("inf"), -float("inf")])
        x[choose.randrange(rows), choose.randrange(columns)] = bad
    return x
