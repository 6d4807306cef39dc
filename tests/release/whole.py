"""Checks that an sdist and a wheel contain all files that they must, and nothing else."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["problems_of_sdist", "problems_of_wheel", "wanted"]

ROOT = Path(__file__).parents[2]
ISAS = ("scalar", "avx2", "avx512")
_SYMBOL = re.compile(rb"\0gnnqlab_(\w+)_(scalar|avx2|avx512)(?=\0)")
_PARTS_OF_A_CHECKOUT = ("Makefile", "tests/", "CONTRIBUTING.md", "constraints.txt")


def wanted() -> set[str]:
    """Return the files of the package as a wheel has them, without compiled ones."""
    package = (ROOT / "gnnqlab").rglob("*")
    files = {str(file.relative_to(ROOT)) for file in package if file.is_file() and "__pycache__" not in file.parts}
    books = {f"gnnqlab/notebooks/{book.name}" for book in (ROOT / "notebooks").glob("*.ipynb")}
    books.add("gnnqlab/notebooks/glossary.md")  # to which copies of the notebooks link
    return {file for file in files if not file.startswith("gnnqlab/kernels/_lib/")} | books


def problems_of_sdist(file: Path) -> list[str]:
    """Return the problems of an sdist: missing files that its wheel needs, or files that only a checkout can use."""
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {re.sub("^gnnqlab/notebooks/", "notebooks/", name) for name in wanted()}
    needed |= {str(source.relative_to(ROOT)) for source in (ROOT / "cuda_ext").rglob("*") if source.is_file()}
    needed |= {"pyproject.toml", "README.md", "LICENSE"}
    foreign = [name for name in names if name.startswith(_PARTS_OF_A_CHECKOUT) or name.endswith(".so")]
    return [*_said(file, "lacks", needed - names), *_said(file, "must not hold", foreign)]


def problems_of_wheel(file: Path, *, cuda: bool) -> list[str]:
    """Return the problems of a wheel: files, tag, instruction sets."""
    with zipfile.ZipFile(file) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/") and ".dist-info/" not in name}
        libraries = {f"gnnqlab/kernels/_lib/libgnnqlab_{kind}.so" for kind in ("cpu", *(["cuda"] if cuda else []))}
        cpu = "gnnqlab/kernels/_lib/libgnnqlab_cpu.so"
        symbols = _SYMBOL.findall(archive.read(cpu)) if cpu in names else []
    problems = [
        *_said(file, "lacks", (wanted() | libraries) - names),
        *_said(file, "must not hold", names - wanted() - libraries),
    ]
    if "manylinux" not in file.name or not file.name.split("-")[2:4] == ["py3", "none"]:
        problems.append(f"{file.name} must be for every Python 3 and for manylinux")
    sets = {isa: {name for name, its in symbols if its.decode() == isa} for isa in ISAS}
    if not sets["scalar"] or len({frozenset(names) for names in sets.values()}) > 1:
        counts = ", ".join(f"{len(names)} for {isa}" for isa, names in sets.items())
        problems.append(f"{file.name} must have the same kernels for all instruction sets, got {counts}")
    return problems


def _said(file: Path, verb: str, names: Iterable[str]) -> list[str]:
    return [f"{file.name} {verb} {', '.join(sorted(names))}"] if names else []
