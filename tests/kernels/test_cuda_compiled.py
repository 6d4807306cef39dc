"""The CUDA compiler's report of every kernel: no register spills, and enough resident warps to hide memory latency.

Needs nvcc but no GPU. Warps count against the 65 536 registers and 64 warps (Hopper, Ampere) of a multiprocessor.
"""

from __future__ import annotations

import os
import shutil

import pytest

from benchmarks.kernels import compiled
from benchmarks.kernels.compiled import FILES, Resources, kernels_of, parse
from tests.cases import each

ARCHITECTURES = os.environ.get("GNNQLAB_ARCHITECTURES", "90").split(",")
"""H100; the library is built for ``80,90,100``. Without the report of a build each is compiled here."""
MIN_OCCUPANCY = 0.5


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None or not FILES, reason="slow: needs nvcc and the source tree")
@each("architecture", ARCHITECTURES)
@each("file", FILES)
def test_no_kernel_spills_and_enough_warps_fit(file: str, architecture: str) -> None:
    kernels = kernels_of(file, architecture)
    assert kernels
    spilling = [kernel for kernel in kernels if kernel.spilled_bytes]
    assert not spilling
    crowded = [(kernel, kernel.occupancy) for kernel in kernels if kernel.occupancy < MIN_OCCUPANCY]
    assert not crowded


def test_reports_are_read() -> None:
    report = """
ptxas info    : Compiling entry function '_Zfoo' for 'sm_90'
ptxas info    : Function properties for _Zfoo
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 65 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
"""
    (kernel,) = parse(report)
    assert parse(report, "90") == [kernel] and parse(report, "80") == []
    assert kernel == Resources("_Zfoo", 65, 16, 20)
    assert kernel.occupancy == 3 * 8 / 64  # 72 registers: three blocks of 256 threads


def test_up_to_date_build_report_is_read_instead_of_recompiling(tmp_path, monkeypatch) -> None:
    told = tmp_path / "told.txt"
    line = "ptxas info    : Compiling entry function '{}' for 'sm_{}'\n"
    line += "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used {} registers\n"
    kernels = [("_Za", 80, 20), ("_Za", 90, 30)]
    told.write_text("# a.cu.o\n" + "".join(line.format(*kernel) for kernel in kernels) + "# b.cu.o\n")
    monkeypatch.setattr(compiled, "compile_file", lambda file, architecture: [f"{file} compiled for {architecture}"])
    assert kernels_of("a.cu", "90", report=told) == [Resources("_Za", 30, 0, 0)]
    assert kernels_of("a.cu", "100", report=told) == ["a.cu compiled for 100"]  # not one of the build
    assert kernels_of("b.cu", "90", report=told) == ["b.cu compiled for 90"]
    os.utime(told, (0, 0))  # older than the sources
    assert kernels_of("a.cu", "90", report=told) == ["a.cu compiled for 90"]
