"""Kernels by name, and no table without a compiler."""

from __future__ import annotations

from benchmarks.kernels import compiled
from benchmarks.kernels.compiled import Resources, compiled_kernels


def test_without_a_compiler_the_table_is_empty(monkeypatch) -> None:
    monkeypatch.setattr(compiled.shutil, "which", lambda name: None)
    table = compiled_kernels()
    assert table.empty and "registers" in table.columns


def test_a_line_for_each_kernel(monkeypatch) -> None:
    names = {"nvcc": "/bin/nvcc"}
    monkeypatch.setattr(compiled.shutil, "which", names.get)
    monkeypatch.setattr(compiled, "kernels_of", lambda file, architecture: [Resources(file[0], 33, 0, 16)])
    table = compiled_kernels(files=["a.cu", "b.cu"])
    assert table.index.tolist() == ["a", "b"]
    assert table.loc["a"].tolist() == ["a.cu", 33, 0, 16, 75.0]  # 40 registers: six blocks of eight warps
