"""Matrices of integer codes as products take them, and what is counted of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from gnnqlab.kernels.dense.code_rows import QuantizedRows
from gnnqlab.kernels.noise import stream

__all__ = ["Codes", "Numbers", "Quantized"]


@dataclass(frozen=True, eq=False)
class Codes:
    """A matrix of int8 codes; row ``i`` stands for ``codes[i] * scales[i]``."""

    codes: Tensor
    """int8 ``(N, D)``; heads side by side."""
    scales: Tensor
    """float32 ``(N,)``."""
    shape: tuple[int, ...]
    """Of what it stands for."""
    stream: int
    """Of its noise."""
    step: float | None = None
    """The scale of a weight, which all its rows share."""
    bits: int = 8
    """Of a code, at most."""
    largest: float | None = None
    """The largest magnitude of the whole matrix, all workers' rows, where they share a scale."""

    @property
    def rows(self) -> QuantizedRows:
        return QuantizedRows(self.codes, self.scales)


@dataclass
class Quantized:
    """Elements that products took as codes, and those that were quantized for it (TANGO section 3.3, reuse)."""

    used: int = 0
    made: int = 0
    twice: int = 0
    """Elements of rows from other workers that a codec had rounded before they were quantized."""

    @property
    def avoided(self) -> int:
        """Elements that would have been quantized again if each product quantized what it takes."""
        return self.used - self.made


@dataclass
class Numbers:
    """The next number of each kind of operand in a pass."""

    next: dict[str, int] = field(default_factory=dict)

    def stream(self, kind: str) -> int:
        number = self.next.get(kind, 0)
        self.next[kind] = number + 1
        return stream(kind, number % 4096)
