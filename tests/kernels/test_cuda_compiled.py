"""What the CUDA compiler says of every kernel: no register spills, and enough warps at a time to hide memory.

Needs nvcc but no GPU. Warps count against the 65 536 registers and 64 warps (Hopper, Ampere) of a multiprocessor.
"""

from __future__ import annotations

import os
import shutil

import pytest

from gnnqlab.bench.compiled import FILES, Resources, compile_file, parse
from tests.cases import each

ARCHITECTURES = os.environ.get("GNNQLAB_ARCHITECTURES", "90").split(",")
"""A minute of compiling each; ``make gpu`` and a release ask for 80 (A100), 90 (H100) and 100 (B200)."""
LEAST_OCCUPANCY = 0.5


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None or not FILES, reason="slow: needs nvcc and the source tree")
@each("architecture", ARCHITECTURES)
@each("file", FILES)
def test_no_kernel_spills_and_enough_warps_fit(file: str, architecture: str) -> None:
    kernels = compile_file(file, architecture)
    assert kernels
    spilling = [kernel for kernel in kernels if kernel.spilled_bytes]
    assert not spilling
    crowded = [(kernel, kernel.occupancy) for kernel in kernels if kernel.occupancy < LEAST_OCCUPANCY]
    assert not crowded


def test_reports_are_read() -> None:
    report = """
ptxas info    : Compiling entry function '_Zfoo' for 'sm_90'
ptxas info    : Function properties for _Zfoo
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 65 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
"""
    (kernel,) = parse(report)
    assert kernel == Resources("_Zfoo", 65, 16, 20)
    assert kernel.occupancy == 3 * 8 / 64  # 72 registers: three blocks of 256 threads
