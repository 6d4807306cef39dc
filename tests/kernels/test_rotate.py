"""Rotated rows: every instruction set gives the bytes of the reference, and the operators do what they claim."""

from __future__ import annotations

import math

import pytest
import torch

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS, decode_rotated, encode_rotated
from gnnqlab.kernels.codec.rows import row_bytes
from tests.cases import each
from tests.kernels.backends import AVAILABLE, EVERY, use

CHECKS = ("test_schema", "test_faketensor")
KEY = {"seed": 2**40 + 7, "epoch": 3, "stream": (1 << 28) + 5}


def rows_of(columns: int, count: int = 24) -> torch.Tensor:
    """Return rows of very different norms, with constants, spikes and zeros among them."""
    x = (
        torch.randn(count, columns, generator=torch.Generator().manual_seed(columns))
        * torch.logspace(-9, 9, count)[:, None]
    )
    x[3], x[4], x[5], x[6] = 2.5, -1e-7, 0.0, 0.0
    x[6, columns // 2] = -3.0
    x[7, ::2] = 0.0
    return x


def there_and_back(x: torch.Tensor, rotations: int, gaps: bool = False, device: str = "cpu") -> list[torch.Tensor]:
    """Return payload, scales, spreads, decoded and added rows; every width in one call."""
    count, columns = x.shape
    if gaps:
        x = torch.cat([x, torch.full((count, 3), math.nan)], dim=1)[:, :columns]
    rows, ids = torch.arange(count).flip(0), torch.arange(count) * 71 + 5
    widths = torch.tensor(ROTATED_WIDTHS, dtype=torch.uint8).repeat(count // 4)
    sizes = row_bytes(columns, widths)
    offsets = sizes.cumsum(0) - sizes + 1
    payload = torch.full((int(sizes.sum()) + 2,), 0xAA, dtype=torch.uint8)
    scales, spreads, out = torch.zeros(count), torch.zeros(count, 2), torch.full((count, columns + 5), 0.5)
    x, rows, ids, widths, offsets, payload, scales, spreads, out = (
        each.to(device) for each in (x, rows, ids, widths, offsets, payload, scales, spreads, out)
    )
    encode_rotated(x, rows, ids, widths, offsets, payload, scales, spreads, rotations=rotations, **KEY)
    for added in (False, True):
        decode_rotated(
            payload, scales, widths, offsets, out[:, :columns], rows, ids, accumulate=added, rotations=rotations, **KEY
        )
    return [each.cpu() for each in (payload, scales, spreads, out)]


@each("columns", [1, 2, 3, 7, 8, 16, 31, 40, 64, 100, 130, 256, 300, 602, 4099])
@each("rotations", [1, 2])
def test_bytes_are_the_same_everywhere(columns, rotations):
    x = rows_of(columns)
    with native.use("reference"):
        expected = there_and_back(x, rotations)
    assert expected[0][0] == 0xAA == expected[0][-1] and (expected[3][:, columns:] == 0.5).all(), "bounds"
    for isa in AVAILABLE:
        with use(isa):
            for gaps in (False, True):
                found = there_and_back(x, rotations, gaps)
                for name, one, other in zip(("payload", "scales", "spreads", "rows"), found, expected, strict=True):
                    assert torch.equal(one, other), (isa, name, gaps)


def test_rows_that_no_backend_encodes():
    for backend in EVERY:
        for value in (math.nan, -math.inf, 3e38):
            x = rows_of(48)
            x[8, 47], x[8, 5] = value, -value
            with use(backend), pytest.raises(NonFiniteRow) as refused:
                there_and_back(x, 1)
            assert refused.value.position == 24 - 1 - 8


def test_rotation_operators_pass_opcheck():
    x, ids = rows_of(33), torch.arange(24)
    payload, scales, spreads = torch.zeros(24 * 9, dtype=torch.uint8), torch.zeros(24), torch.zeros(24, 2)
    key = tuple(KEY.values())
    torch.library.opcheck(
        torch.ops.gnnqlab.encode_rotated,
        (x, ids, ids, None, 2, None, payload, scales, spreads, 1, *key),
        test_utils=CHECKS,
    )
    encode_rotated(x, ids, ids, 2, None, payload, scales, spreads, rotations=1, **KEY)
    torch.library.opcheck(
        torch.ops.gnnqlab.decode_rotated,
        (payload, scales, None, 2, None, torch.zeros(24, 33), ids, ids, True, 1, *key),
        test_utils=CHECKS,
    )
