"""How fast this process can read, copy and multiply, at the sizes of what is held against it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from gnnqlab.theory.limits import Product

__all__ = ["Rates"]

_LEAST_S = 0.01
"""Seconds in which a rate is measured at least."""


@dataclass
class Rates:
    """Measured rates, one for each size or shape, each measured when it is first asked for.

    A rate is the best of some repeats in a row, short ones as many as fit into `_LEAST_S`: what else runs on the
    machine slows them down and speeds none up. What fits into a cache is read from there.
    """

    repeats: int = 7
    """At least."""
    timer: Callable[[], float] = time.perf_counter
    """Seconds; that of the clock by which what stands beside these rates was measured."""
    _known: dict[tuple[str, object], float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")

    def read_bytes_per_s(self, num_bytes: int) -> float:
        """Return the rate of a plain read (a sum of float32) of so many bytes."""

        def prepare() -> Callable[[], object]:
            x = torch.ones(_values(num_bytes))
            return lambda: x.sum()

        return num_bytes / self._best(("read", num_bytes), prepare)

    def copied_bytes_per_s(self, num_bytes: int) -> float:
        """Return the rate of a memcpy of so many bytes: each is read once and written once, and counted once."""

        def prepare() -> Callable[[], object]:
            x = torch.ones(_values(num_bytes))
            y = torch.empty_like(x)
            return lambda: y.copy_(x)

        return num_bytes / self._best(("copy", num_bytes), prepare)

    def flops_per_s(self, product: Product) -> float:
        """Return the rate of the framework's own float32 product of this shape, into memory that is there."""

        def prepare() -> Callable[[], object]:
            a, b = torch.ones(product.rows, product.inner), torch.ones(product.inner, product.columns)
            a = a.t().contiguous().t() if product.transposed == "a" else a
            b = b.t().contiguous().t() if product.transposed == "b" else b
            out = torch.empty(product.rows, product.columns)
            return lambda: torch.mm(a, b, out=out)

        return product.flops / self._best(("product", product), prepare)

    def _best(self, key: tuple[str, object], prepare: Callable[[], Callable[[], object]]) -> float:
        if key not in self._known:
            run = prepare()
            run()
            seconds: list[float] = []
            while len(seconds) < self.repeats or sum(seconds) < _LEAST_S:
                begun = self.timer()
                run()
                seconds.append(self.timer() - begun)
            self._known[key] = min(seconds)
        return self._known[key]


def _values(num_bytes: int) -> int:
    return max(1, -(-num_bytes // 4))
