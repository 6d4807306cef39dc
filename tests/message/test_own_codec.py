"""Codecs of a user: two methods, with or without the base class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import gnnqlab as gq
from gnnqlab.errors import NonFiniteRow
from gnnqlab.message import Codec
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.codecs.equal_rows import RowNoise
from tests.cases import each

NOISE = Noise(3, 1, 7)


@dataclass(frozen=True)
class Half(Codec):
    """Rows rounded to float16."""

    def encode_rows(self, rows: Tensor, bits: int, noise: Any) -> Tensor:
        return rows.half()

    def decode_rows(self, encoded: Tensor, bits: int, noise: Any) -> Tensor:
        return encoded.view(torch.float16)


@dataclass(frozen=True)
class PlainHalf:
    """The same in NumPy, without the base class."""

    def encode_rows(self, rows, bits, noise):
        return rows.numpy().astype(np.float16)

    def decode_rows(self, encoded, bits, noise):
        return encoded.numpy().view(np.float16)


@dataclass(frozen=True)
class Steps(Codec):
    """A byte per element and a scale of four bytes per row; 255 steps at 8 bits, 15 at 4, stochastic rounding."""

    widths = (4, 8)

    def encode_rows(self, rows: Tensor, bits: int, noise: RowNoise) -> np.ndarray:
        most = 2**bits - 1
        scale = rows.abs().amax(1, keepdim=True).clamp_min(1e-30) * 2 / most
        codes = torch.floor(rows / scale + most / 2 + noise.uniform(rows.shape[1])).clamp(0, most).to(torch.uint8)
        if bits == 4:
            codes = codes[:, ::2] + 16 * codes[:, 1::2]
        return np.hstack([codes.numpy(), scale.numpy().view(np.uint8)])

    def decode_rows(self, encoded: Tensor, bits: int, noise: RowNoise) -> Tensor:
        codes, scale = encoded[:, :-4], encoded[:, -4:].contiguous().view(torch.float32)
        if bits == 4:
            codes = torch.stack([codes % 16, codes // 16], dim=2).flatten(1)
        return (codes.float() - (2**bits - 1) / 2) * scale


def sent(codec: Codec, x: Tensor, widths: int | Tensor, *, accumulate: bool = False) -> Tensor:
    """Return the rows that the receiver decodes."""
    rows = torch.arange(len(x))
    layout = codec.layout(widths, *x.shape)
    segment, out, rows = (
        torch.zeros(layout.num_bytes, dtype=torch.uint8),
        torch.ones_like(x),
        layout.to_wire_order(rows),
    )
    codec.encode(x, rows, rows, layout, segment, NOISE)
    codec.decode(segment, layout, out, rows, accumulate=accumulate, ids=rows, noise=NOISE)
    return out


def test_rows_of_several_widths_have_their_parameters_in_one_message() -> None:
    codec, x = Steps(), torch.randn(60, 10, generator=torch.Generator().manual_seed(1))
    widths = torch.tensor([4, 8, 4], dtype=torch.uint8).repeat(20)
    assert [codec.param_bytes(bits, 10) for bits in codec.widths] == [4, 4]
    assert codec.layout(widths, 60, 10).num_bytes == 60 * 4 + 40 * 5 + 20 * 10
    step = 2 * x.abs().amax(1, keepdim=True) / (2.0 ** widths.float()[:, None] - 1)
    got = sent(codec, x, widths)
    assert ((got - x).abs() <= step * 1.001).all() and not torch.equal(got, x)
    assert torch.equal(sent(codec, x, widths, accumulate=True), 1 + got)
    assert sent(codec, x[:0], 8).shape == (0, 10)


@each("codec", [Half(), PlainHalf()])
def test_a_system_completes_and_trains_it(codec: Any) -> None:
    system = replace(gq.systems.vanilla(), codec=codec, bits=gq.bits.Fixed(bits=16))
    assert (system.codec.widths, system.codec.param_bytes(16, 7)) == ((16,), 0)
    assert gq.systems.System.from_json(system.to_json()) == system
    exact, short = (
        gq.simulate("sbm:60,3,6", system=of, workers=2, layers=2, hidden=8, epochs=3).losses
        for of in (gq.systems.vanilla(), system)
    )
    assert short == pytest.approx(exact, rel=1e-3) and short != exact


def test_rows_that_cannot_be_encoded_are_named() -> None:
    x = torch.tensor([[1.0, 2.0], [1e6, 2.0]])
    for bad in (x, torch.tensor([[1.0, 2.0], [float("nan"), 2.0]])):
        with pytest.raises(NonFiniteRow) as refused:
            sent(Half(), bad, 16)
        assert refused.value.position == 1


@dataclass(frozen=True)
class WithoutDecoding(Codec):
    """Has only one method of the pair."""

    def encode_rows(self, rows: Tensor, bits: int, noise: Any) -> Tensor:
        return rows


@dataclass(frozen=True)
class WithoutParameters:
    """Encodes whole messages, but has no method for their size."""

    widths = (16,)

    def layout(self, widths, num_rows, columns):
        """Never called."""

    def encode(self, x, rows, ids, layout, segment, noise):
        """Never called."""

    def decode(self, segment, layout, out, rows, *, accumulate, ids=None, noise=None):
        """Never called."""


@each(
    ("codec", "lacks"),
    [(WithoutDecoding(), "without decode_rows"), (WithoutParameters(), "without param_bytes")],
)
def test_one_without_a_method_is_refused_when_the_system_is_made(codec: Any, lacks: str) -> None:
    with pytest.raises(ValueError, match=rf"codec must be a part of that axis.*with encode_rows and.*{lacks}; choose"):
        replace(gq.systems.vanilla(), codec=codec, bits=gq.bits.Fixed(bits=16))


@dataclass(frozen=True)
class Ragged(Half):
    """Two more bytes per row if not all rows are zero."""

    def encode_rows(self, rows: Tensor, bits: int, noise: Any) -> Tensor:
        more = 0 if not rows.any() else 2
        return torch.zeros(len(rows), 2 * rows.shape[1] + more, dtype=torch.uint8)


@dataclass(frozen=True)
class Narrow(Half):
    """Fewer bytes than its bit-width takes."""

    widths = (16,)

    def encode_rows(self, rows: Tensor, bits: int, noise: Any) -> Tensor:
        return torch.zeros(len(rows), rows.shape[1], dtype=torch.uint8)


@each(
    ("codec", "why"),
    [
        (
            Ragged(),
            r"encode_rows of Ragged must return 6 bytes for each of 2 rows at 16 bits, got torch.uint8 \(2, 8\)",
        ),
        (Narrow(), "must return at least the 6 bytes of 3 elements at 16 bits, got 3; list the bit-widths"),
    ],
)
def test_bytes_that_disagree_are_refused(codec: Codec, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sent(codec, torch.ones(2, 3), 16)
