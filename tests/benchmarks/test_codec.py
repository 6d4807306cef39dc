"""The codec benchmark has the common format; its figures are not checked here."""

from __future__ import annotations

import torch

from benchmarks.kernels import codec
from tests.benchmarks.answers import FIELDS, here


def test_rows_have_the_agreed_form(monkeypatch):
    monkeypatch.setattr(codec, "FLOATS", 1 << 16)
    rows = here(codec.codec)(repeats=1)
    assert all(set(row) == FIELDS and row["value"] > 0 and row["ratio"] > 0 for row in rows)
    named = {f"{word}_{step} (nearest)" for word in ("2bit", "4bit", "byte") for step in ("prepack", "unpack")}
    assert {row["rival"] for row in rows} == {"memcpy", "index_select", "torch", "torch dropout", "clone"} | named
    for row in rows:
        if "(nearest)" in row["rival"]:  # as many bits as our codec, and the same step as in our case
            bits = {"2bit": "2 bit", "4bit": "4 bit", "byte": "8 bit"}[row["rival"].split("_")[0]]
            assert row["figure"].startswith(bits) and ("unpack" in row["rival"]) == row["case"].startswith("decode")
    assert all((row["reached"] is None) == (row["goal"] is None) for row in rows)


def test_plain_torch_rival_rounds_to_the_same_two_codes():
    x, rows = torch.tensor([[0.0, 0.5, 1.5, 3.0]]), torch.tensor([0])
    (packed,) = codec._encode_in_torch(x, rows, bits=2)
    codes = [int(packed[0, 0]) >> shift & 3 for shift in (0, 2, 4, 6)]
    assert codes[0] == 0 and codes[1] in (0, 1) and codes[2] in (1, 2) and codes[3] == 3


def test_halo_rows_are_aligned():
    rows = codec._aligned_rows(3, 5)
    assert rows.shape == (3, 5) and all(row.data_ptr() % 64 == 0 for row in rows)


def test_prepack_rounds_to_the_nearest_of_as_many_levels():
    x = torch.rand(5, 32, generator=torch.Generator().manual_seed(0))
    for bits in codec.PREPACK:
        values = codec._quantized_op(bits, "unpack")(codec._quantized_op(bits, "prepack")(x))
        step = (x.amax(1, keepdim=True) - x.amin(1, keepdim=True)) / (2**bits - 1)
        # Half a step, and the rounding error of a scale and a zero-point in 16 bits, both below one: 2**-11 each.
        assert ((values - x).abs() <= step / 2 + 2 * 2**-11).all() and (values - x).abs().max() > step.min() / 4
