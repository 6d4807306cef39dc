"""Loaded kernels: choice of backend and instruction set, and the time to import the operators."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gnnqlab.kernels import native
from tests.slow_down import HANG_S

from .backends import AVAILABLE, EVERY

SOURCES = Path(__file__).parents[2] / "cuda_ext"

needs_library = pytest.mark.skipif(not AVAILABLE, reason=f"no compiled kernels: {native.status()['reason']}")


@pytest.mark.parametrize("isa", native.ISAS)
def test_tests_of_kernels_run_on_every_instruction_set(isa):
    if isa not in AVAILABLE:
        pytest.skip(f"no {isa}: {native.status()['reason']}")
    assert isa in EVERY


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=HANG_S
    )


def test_reference_can_be_forced_and_is_restored():
    before = native.active(torch.device("cpu"))
    with native.use("reference"):
        assert not native.active(torch.device("cpu"))
        assert native.status()["backend"] == "reference"
    assert native.active(torch.device("cpu")) == before


def test_environment_forces_the_reference():
    done = run(
        "import torch; from gnnqlab.kernels import native; print(native.active(torch.device('cpu')))",
        GNNQLAB_KERNELS="reference",
    )
    assert done.stdout.strip() == "False", done.stderr


@needs_library
def test_environment_forces_an_instruction_set():
    done = run("from gnnqlab.kernels import native; print(native.isa())", GNNQLAB_ISA="scalar")
    assert done.stdout.strip() == "scalar", done.stderr


@needs_library
def test_unknown_instruction_set_is_refused():
    done = run("from gnnqlab.kernels import native; native.isa()", GNNQLAB_ISA="sse9")
    assert "GNNQLAB_ISA must be one of ('avx512', 'avx2', 'scalar'), got 'sse9'" in done.stderr


@needs_library
def test_missing_instruction_set_is_refused(monkeypatch):
    monkeypatch.setattr(native, "_has_isa", lambda name: name == "scalar")
    with pytest.raises(
        RuntimeError, match="isa must be an instruction set of this processor, got 'avx512'; it has scalar"
    ):
        native.use("native", isa="avx512")


def test_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="backend must be one of"):
        native.use("fast")


def test_missing_library_warns_once_and_runs_the_reference():
    code = """
import warnings, pathlib, torch
from gnnqlab.kernels import native, noise
native.library_path = lambda name: pathlib.Path("/nowhere", name)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        noise.dropout(torch.ones(2, 3), torch.arange(2), p=0.5, seed=0, epoch=0, stream=0)
print(len(caught), caught[0].category.__name__, caught[0].message)
"""
    done = run(code, GNNQLAB_KERNELS="", GNNQLAB_ISA="")
    assert done.stdout.startswith("1 RuntimeWarning gnnqlab runs its plain-PyTorch reference kernels on cpu"), (
        done.stderr
    )
    assert "was not built" in done.stdout


def test_missing_library_refuses_forced_native():
    code = """
import pathlib, torch
from gnnqlab.kernels import native
native.library_path = lambda name: pathlib.Path("/nowhere", name)
native.active(torch.device("cpu"))
"""
    assert "native kernels were requested but" in run(code, GNNQLAB_KERNELS="native").stderr


@needs_library
def test_one_openmp_runtime():
    # In a separate process: other tests load packages that bring an OpenMP runtime.
    done = run("from gnnqlab.kernels import native; print(len(native.status()['openmp']))")
    assert done.stdout.strip() in ("0", "1"), done.stdout


def test_runtimes_are_found_beside_a_mapped_file_whose_path_is_not_utf8(tmp_path):
    before = native.openmp_runtimes()
    path = os.fsencode(tmp_path) + b"/J\xfcrgen"  # Latin-1, as old archives leave it
    with open(path, "wb+") as file:
        file.write(b"x")
        file.flush()
        with mmap.mmap(file.fileno(), 1):
            assert native.openmp_runtimes() == before


def test_operators_import_without_dynamo():
    code = """
import sys, torch
from gnnqlab.kernels import noise
from gnnqlab.kernels.codec import rows
x = torch.randn(4, 8, requires_grad=True)
noise.dropout(x, torch.arange(4), p=0.5, seed=0, epoch=0, stream=0).sum().backward()
torch.ops.gnnqlab.dropout(x, torch.arange(4), 5, 0, 0, 0).sum().backward()
print("torch._dynamo" in sys.modules)
"""
    done = run(code)
    assert done.stdout.strip() == "False", done.stderr


@needs_library
def test_no_undefined_or_foreign_symbols():
    """The library needs only the C library and OpenMP, not torch, so no torch version can break it."""
    done = subprocess.run(["readelf", "-d", native.status()["library"]], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("readelf is not installed")
    needed = [line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if "NEEDED" in line]
    assert not [name for name in needed if name.startswith(("libtorch", "libc10", "libpython"))], needed


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("c++")), reason="slow: needs cmake and a C++ compiler")
@pytest.mark.skipif(not SOURCES.exists(), reason="slow: needs the source tree")
def test_random_calls_stay_in_bounds(tmp_path):
    """Run the address sanitizer over random calls in buffers of exact size, and compare the instruction sets."""
    # The sanitizer must be the first library of a process, which a preloaded one prevents.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for command in (
        [
            "cmake",
            "-S",
            str(SOURCES),
            "-B",
            str(tmp_path),
            "-DCMAKE_BUILD_TYPE=None",
            "-DCMAKE_CXX_FLAGS=-O1",  # halves the time to compile
            "-DGNNQLAB_SANITIZE=ON",
            f"-DGNNQLAB_ISAS={';'.join(sorted({'scalar', *AVAILABLE}))}",  # others would be compiled and not called
        ],
        ["cmake", "--build", str(tmp_path), "--target", "codec_fuzz", "--parallel", "2"],
        [str(tmp_path / "codec_fuzz"), "20000", "1"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=HANG_S)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "no difference" in done.stdout


def test_the_library_is_found_in_either_folder_of_an_editable_install(tmp_path, monkeypatch):
    import gnnqlab.kernels

    built = tmp_path / "_lib" / "libgnnqlab_some.so"
    built.parent.mkdir()
    built.touch()
    monkeypatch.setattr(gnnqlab.kernels, "__path__", [*gnnqlab.kernels.__path__, str(tmp_path)])
    assert native.library_path("libgnnqlab_some.so") == built
    assert native.library_path("libgnnqlab_none.so").parent.name == "_lib"
