"""Problems that `make wheel` finds in an sdist or a wheel; building one takes minutes and is no test."""

from __future__ import annotations

import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

from tests.release.whole import ROOT, problems_of_sdist, problems_of_wheel, wanted

KERNELS = b"\0gnnqlab_spmm_scalar\0gnnqlab_spmm_avx2\0gnnqlab_spmm_avx512\0"
LIBRARY = "gnnqlab/kernels/_lib/libgnnqlab_cpu.so"


def wheel(folder: Path, *, tag: str = "manylinux_2_24_x86_64", without: str = "", kernels: bytes = KERNELS) -> Path:
    file = folder / f"gnnqlab-0.1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name in wanted() - {without}:
            archive.writestr(name, "")
        archive.writestr(LIBRARY, kernels)
        archive.writestr("gnnqlab-0.1.0.dist-info/METADATA", "")
    return file


def test_a_whole_wheel_has_no_problems(tmp_path: Path) -> None:
    file = wheel(tmp_path)
    assert problems_of_wheel(file, cuda=False) == []
    assert problems_of_wheel(file, cuda=True) == [f"{file.name} lacks gnnqlab/kernels/_lib/libgnnqlab_cuda.so"]
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("gnnqlab/left_over.py", "")
    assert problems_of_wheel(file, cuda=False) == [f"{file.name} must not hold gnnqlab/left_over.py"]


def test_missing_parts_of_a_wheel_are_named(tmp_path: Path) -> None:
    for name in ("gnnqlab/notebooks/00_index.ipynb", "gnnqlab/py.typed", "gnnqlab/cli/kept_help.json"):
        (problem,) = problems_of_wheel(wheel(tmp_path, without=name), cuda=False)
        assert problem.endswith(f" lacks {name}")
    (problem,) = problems_of_wheel(wheel(tmp_path, tag="linux_x86_64"), cuda=False)
    assert "manylinux" in problem
    (problem,) = problems_of_wheel(wheel(tmp_path, kernels=KERNELS.replace(b"avx512", b"avx9")), cuda=False)
    assert problem.endswith("got 1 for scalar, 1 for avx2, 0 for avx512")


def test_an_sdist_holds_the_sources_and_no_makefile(tmp_path: Path) -> None:
    file = tmp_path / "gnnqlab-0.1.0.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for name in ("Makefile", "pyproject.toml", "README.md"):
            archive.addfile(tarfile.TarInfo(f"gnnqlab-0.1.0/{name}"), io.BytesIO())
    lacks, foreign = problems_of_sdist(file)
    assert foreign == f"{file.name} must not hold Makefile"
    assert "LICENSE" in lacks and "cuda_ext/CMakeLists.txt" in lacks and "notebooks/00_index.ipynb" in lacks
    assert "pyproject.toml" not in lacks and "cuda_ext/tests/codec_fuzz.cpp" in lacks


def test_cuda_is_off_by_default_in_wheel_builds() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    assert build["cmake"]["define"]["GNNQLAB_CUDA"] == "OFF"
