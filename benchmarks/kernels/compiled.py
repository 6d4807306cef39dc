"""Resource usage of every CUDA kernel by the compiler's report, without a GPU: registers, spills, occupancy.

The build stores the report next to the library as ``libgnnqlab_cuda.txt``; sources that are missing in it are compiled,
and their reports cached in ``build/compiled`` under a checksum of the compiler and the sources.

Occupancy is limited by the 65 536 registers and 64 warps (Ampere, Hopper) of a multiprocessor; shared memory is
ignored.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.atomic import write_text
from gnnqlab.kernels.native import library_path

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FILES", "Resources", "compile_file", "compiled_kernels", "kernels_of", "parse", "short_name"]

SOURCES = Path(__file__).parents[2] / "cuda_ext"
FILES = sorted(path.name for path in SOURCES.glob("cuda/*.cu") if path.name != "library.cu")
"""Sources with kernels; empty if the package was installed without its sources."""
REPORT = "libgnnqlab_cuda.txt"
# per multiprocessor: registers, warps; threads per warp; warps per block here
REGISTERS, WARPS, WARP_SIZE, BLOCK_WARPS = 65_536, 64, 32, 8


@dataclass(frozen=True)
class Resources:
    """Resources of one kernel."""

    kernel: str
    registers: int
    stack_bytes: int
    spilled_bytes: int
    """Bytes of spill stores and loads."""

    @property
    def occupancy(self) -> float:
        """Share of a multiprocessor's warps that can be resident; registers are allocated in units of 8 per thread.

        Example:
            >>> Resources("k", registers=65, stack_bytes=0, spilled_bytes=0).occupancy  # 3 blocks of 8 warps, of 64
            0.375
        """
        block = -(-self.registers // 8) * 8 * WARP_SIZE * BLOCK_WARPS  # registers of a block
        return min(REGISTERS // block * BLOCK_WARPS, WARPS) / WARPS  # whole blocks only


def parse(report: str, architecture: str = "") -> list[Resources]:
    """Return the kernels in a report of ``ptxas -v``, of all architectures or of one."""
    pattern = re.compile(
        r"Compiling entry function '(\w+)' for 'sm_"
        + (architecture or r"\w+")
        + r"'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        r".*?Used (\d+) registers",
        re.DOTALL,
    )
    return [
        Resources(name, int(registers), int(stack), int(stores) + int(loads))  # stores and loads both access memory
        for name, stack, stores, loads, registers in pattern.findall(report)
    ]


def kernels_of(file: str, architecture: str = "90", *, report: Path | None = None) -> list[Resources]:
    """Return the resources of one source's kernels from the report of the build, else by compiling it now.

    Args:
        file: one of `FILES`.
        architecture: number, as in ``sm_90``.
        report: report of the build; by default the one next to the library.

    Raises:
        RuntimeError: if there is no report and ``nvcc`` is missing or fails.
    """
    path = library_path(REPORT) if report is None else report
    if _is_current(path):  # a report older than a source is stale
        for part in path.read_text(encoding="utf-8").split("# ")[1:]:
            if part.startswith(f"{file}.o\n") and (kernels := parse(part, architecture)):
                return kernels
    return compile_file(file, architecture)


def _is_current(report: Path) -> bool:
    """Return True if a report exists and no source has changed since."""
    # headers and kernels
    sources = [path for folder in ("core", "cuda") for path in (SOURCES / folder).iterdir()] if FILES else []
    return report.is_file() and all(path.stat().st_mtime <= report.stat().st_mtime for path in sources)


def compile_file(file: str, architecture: str = "90") -> list[Resources]:
    """Compile one source for an architecture, discard the code and return the resources of its kernels.

    Args:
        file: one of `FILES`.
        architecture: number, as in ``sm_90``: 80 for the A100, 90 for the H100, 100 for the B200.

    Raises:
        RuntimeError: if there is no ``nvcc``, or it fails.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise RuntimeError("nvcc must be in PATH to compile kernels, got none; install the CUDA toolkit")
    # -cubin: compile only; ptxas -v prints the resources to stderr
    command = [nvcc, "-std=c++17", "-O3", "--fmad=false", f"-arch=sm_{architecture}", "-cubin", "-Xptxas", "-v"]
    report = SOURCES.parent / "build" / "compiled" / f"{file}-{_checksum(command, file)}.txt"
    if report.is_file():  # the same compiler, options and sources
        return parse(report.read_text(encoding="utf-8"))
    command += ["-I", str(SOURCES), str(SOURCES / "cuda" / file), "-o", "/dev/null"]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode != 0:
        raise RuntimeError(f"nvcc must compile {file} for sm_{architecture}, got\n{process.stderr[-2000:]}")
    report.parent.mkdir(parents=True, exist_ok=True)
    write_text(report, process.stderr)
    return parse(process.stderr)


def _checksum(command: Sequence[str], file: str) -> str:
    """Return a checksum of everything that a report depends on: compiler, options, the source, and all headers."""
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    checksum = hashlib.sha256("\0".join([version, *command]).encode())
    # every kernel may include every header
    headers = [path for path in SOURCES.rglob("*") if path.suffix in (".h", ".cuh")]
    for path in [SOURCES / "cuda" / file, *sorted(headers)]:
        checksum.update(b"\0" + path.read_bytes())
    return checksum.hexdigest()[:16]


def compiled_kernels(architecture: str = "90", *, files: Sequence[str] | None = None) -> pd.DataFrame:
    """Tabulate the kernels' ``registers``, ``stack (B)``, ``spilled (B)`` and ``occupancy (%)`` by the compiler.

    Args:
        architecture: number, as in ``sm_90``.
        files: some of `FILES`; all by default.

    Returns:
        By ``kernel``; empty without ``nvcc`` or sources.
    """
    import pandas as pd

    columns = ["kernel", "file", "registers", "stack (B)", "spilled (B)", "occupancy (%)"]
    chosen_files = list(FILES if files is None else files) if shutil.which("nvcc") else []
    with ThreadPoolExecutor(2) as pool:  # two processes of nvcc at a time
        resources = list(pool.map(lambda file: kernels_of(file, architecture), chosen_files))
    lines = [
        (short_name(name), file, kernel.registers, kernel.stack_bytes, kernel.spilled_bytes, 100 * kernel.occupancy)
        for file, kernels in zip(chosen_files, resources)
        for kernel, name in zip(kernels, _demangle([kernel.kernel for kernel in kernels]))
    ]
    return pd.DataFrame(lines, columns=columns).set_index("kernel")


def short_name(name: str) -> str:
    """Return a kernel's own name and template arguments, without namespaces and parameters.

    Example:
        >>> short_name("void gnnqlab::encode<gnnqlab::Bfloat16, 1>(gnnqlab::EncodeCall, int)")
        'encode<Bfloat16, 1>'
    """
    text = re.sub(r"\((?:anonymous namespace|unsigned int|int|bool)\)(?:::)?", "", name)  # casts in demangled names
    text = re.sub(r"\b\w+::", "", text.removeprefix("void "))
    return text.partition("(")[0].strip()


def _demangle(names: Sequence[str]) -> list[str]:
    tool = shutil.which("cu++filt") or shutil.which("c++filt")  # nvcc's tool, or that of binutils
    if tool is None or not names:
        return list(names)
    process = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, timeout=60)
    lines = process.stdout.splitlines()
    # without a tool, names stay mangled
    return lines if process.returncode == 0 and len(lines) == len(names) else list(names)
