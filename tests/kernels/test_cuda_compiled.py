"""What the CUDA compiler says of every kernel: no register spills, and enough warps at a time to hide memory.

Needs nvcc but no GPU. Warps count against the 65 536 registers and 64 warps (Hopper, Ampere) of a multiprocessor.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "cuda_ext"
NVCC = shutil.which("nvcc")
ARCHITECTURES = ("80", "90", "100")
FILES = sorted(path.name for path in SOURCES.glob("cuda/*.cu") if path.name != "library.cu")
REGISTERS, WARPS, WARP_SIZE, BLOCK_WARPS = 65_536, 64, 32, 8
LEAST_OCCUPANCY = 0.5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NVCC is None or not FILES, reason="slow: needs nvcc and the source tree"),
]


@dataclass(frozen=True)
class Resources:
    """What one kernel takes."""

    kernel: str
    registers: int
    stack_bytes: int
    spilled_bytes: int

    @property
    def occupancy(self) -> float:
        """Share of a multiprocessor's warps that can be there at once; registers come by 8 a thread."""
        block = -(-self.registers // 8) * 8 * WARP_SIZE * BLOCK_WARPS
        return min(REGISTERS // block * BLOCK_WARPS, WARPS) / WARPS


def parse(report: str) -> list[Resources]:
    """The kernels of ``ptxas -v``."""
    pattern = re.compile(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        r".*?Used (\d+) registers",
        re.DOTALL,
    )
    return [
        Resources(name, int(registers), int(stack), int(stores) + int(loads))
        for name, stack, stores, loads, registers in pattern.findall(report)
    ]


@functools.cache
def compiled(file: str, architecture: str) -> list[Resources]:
    command = [str(NVCC), "-std=c++17", "-O3", "--fmad=false", f"-arch=sm_{architecture}", "-cubin", "-Xptxas", "-v"]
    command += ["-I", str(SOURCES), str(SOURCES / "cuda" / file), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    return parse(done.stderr)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_no_kernel_spills_and_enough_warps_fit(file: str, architecture: str) -> None:
    kernels = compiled(file, architecture)
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
