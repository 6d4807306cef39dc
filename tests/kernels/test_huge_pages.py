"""Memory for large results: an ordinary tensor, for pages of any size."""

from __future__ import annotations

import torch

from gnnqlab.kernels import huge_pages as rooms
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from tests.kernels.backends import on_native
from tests.kernels.backends import use as on_backend


@on_native
def test_large_results_ask_for_large_pages_and_small_and_huge_ones_do_not(backend: str, monkeypatch) -> None:
    asked: list[int] = []
    real = rooms._large_pages
    monkeypatch.setattr(rooms, "_large_pages", lambda place, size: asked.append(size) or real(place, size))
    with on_backend(backend):
        small, large = (
            empty_in_huge_pages(torch.ones(1), 3, 5),
            empty_in_huge_pages(torch.ones(1), 1 << 12, 1 << 12, dtype=torch.bfloat16),
        )
        empty_in_huge_pages(torch.ones(1), 1 << 14, 1 << 13)  # 512 MB, to which no byte is written
    assert small.shape == (3, 5) and large.dtype == torch.bfloat16 and large.is_contiguous()
    assert asked == [large.nbytes]
    large.fill_(3.0)
    assert float(large[-1, -1]) == 3.0 and float(large[0, 0]) == 3.0


def test_reference_backend_allocates_without_huge_pages(monkeypatch) -> None:
    monkeypatch.setattr(rooms, "_large_pages", None)
    with on_backend("reference"):
        assert empty_in_huge_pages(torch.ones(1), 1 << 12, 1 << 11).shape == (4096, 2048)
