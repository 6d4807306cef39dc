"""The calls of the compute-sanitizer runs, on the CPU."""

from __future__ import annotations

from tests.kernels.every_kernel import COLUMNS, every_kernel


def test_every_kernel_is_called(device: str) -> None:
    assert every_kernel(device) == len(COLUMNS) * (4 * 4 + 4 * 2 + 2 * 6 + 25) + 4 * 18 + 9
