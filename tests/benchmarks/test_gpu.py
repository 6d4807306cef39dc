"""The GPU benchmark refuses to run without a GPU; its computations are tested on the CPU with another clock."""

from __future__ import annotations

import pytest
import torch

from benchmarks.kernels import gpu, pinned
from benchmarks.kernels.spmm import power_law
from benchmarks.registry import measure
from gnnqlab.kernels.sparse.aggregate import spmm
from tests.benchmarks.answers import FIELDS


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_refusal_without_a_device() -> None:
    with pytest.raises(RuntimeError, match="must find a CUDA device and its kernels, got no CUDA device"):
        measure("gpu")


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "DEVICE", "cpu")
    monkeypatch.setattr(gpu, "FLOATS", 1 << 16)
    monkeypatch.setattr(gpu, "event_seconds", pinned.interleaved)


def check(rows: list[dict[str, object]]) -> None:
    fields = {*FIELDS, "kernel", "variant"}
    assert rows and all(set(row) == fields and row["value"] > 0 and row["ratio"] > 0 for row in rows)


def test_codec_and_noise(on_cpu: None) -> None:
    rows = gpu._codec_rows(1)
    check(rows)
    ceilings = [row for row in rows if row["goal"] == gpu.COPY_GOAL]
    assert {row["rival"] for row in ceilings} == {"device copy"} and len(ceilings) == 2 * (3 + 4)
    # 512 of 1024 rows, 64 columns: the floats, 16 bytes of codes, 8 of parameters, row numbers and ids of 8 bytes each.
    encode, gather = rows[0], rows[3]
    assert encode["value"] * gather["value"] == pytest.approx(512 * (64 * 4 + 16 + 8 + 16) / 1e9)
    check(gpu._noise_rows(1))


def test_sums_and_attention(on_cpu: None) -> None:
    adj = power_law(300, 3000)
    check(gpu._sum_rows("small", adj, 1))
    check(gpu._attention_rows(adj, 3))
    x = torch.randn(300, 8)
    torch.testing.assert_close(gpu.cusparse(adj, x, torch.full_like(x, torch.nan))(), spmm(adj, x))


def test_products_of_codes(on_cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "COLUMNS", 64)
    rows = gpu._code_rows(power_law(60, 600), 1)
    check(rows)
    assert {"torch._int_mm, integers", "torch float32 product", "torch bfloat16 product"} <= {
        row["rival"] for row in rows
    }
    assert len(rows) == 3 + 2 * 7 + 5


@pytest.mark.gpu
def test_events_measure_the_device() -> None:
    x = torch.randn(1024, device="cuda")
    cycles, most_hz = 20_000_000, 4e9  # no device has a faster clock, and such a call returns to the host at once
    seconds = gpu.event_seconds({"sleep": lambda: torch.cuda._sleep(cycles), "sine": lambda: x.sin()}, 5)
    assert min(seconds["sleep"]) > cycles / most_hz and min(seconds["sine"]) > 0
