"""TANGO's rule for the bits of codes: relative error (SC 2023, Eq. 4), its target, and the choice of bits.

The rule is applied to the quantized output of a model's first layer in the first epoch. Letters: N rows, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from torch import Tensor

from gnnqlab.adaptive import DECISIONS, Adaptive, Entry, Sharing, State

__all__ = ["CHOICES", "EPSILON", "TARGET", "BitChoice", "fewest", "relative_error"]

EPSILON, TARGET = 0.0005, 0.3
"""Values of the paper (section 3.2)."""
CHOICES = (8, 6, 4, 2)
"""Bits to choose from."""
_ELEMENTS = "elements"


def relative_error(x: Tensor, rounded: Tensor, *, epsilon: float = EPSILON) -> float:
    """Return the mean of ``|x - q| / (|x| + |q| + epsilon)``, in [0, 1).

    Differs: the paper adds x, q and epsilon without magnitudes. For negative x that denominator can be zero or close
    to zero, so the mean has no bound, while the text gives [0, 1]. With magnitudes it lies in [0, 1], and for positive
    elements both are equal.

    Args:
        x: the original values, any shape.
        rounded: the values of their codes.

    Example:
        >>> import torch
        >>> relative_error(torch.tensor([1.0, -1.0]), torch.tensor([1.0, -3.0]), epsilon=0.0)
        0.25
    """
    if x.shape != rounded.shape or x.numel() == 0:
        raise ValueError(
            f"x and rounded must have one shape and elements, got {tuple(x.shape)}, {tuple(rounded.shape)}"
        )
    x, rounded = x.double(), rounded.double()
    sizes = x.abs() + rounded.abs() + epsilon
    return float(((x - rounded).abs() / sizes.clamp(min=1e-300)).mean())  # with epsilon 0, 0 / 0 counts as 0


def fewest(errors: Mapping[int, float], *, target: float = TARGET) -> int:
    """Return the fewest bits with an error of at most the target; the most bits if there are none.

    Example:
        >>> fewest({8: 0.1, 6: 0.2, 4: 0.4, 2: 0.9}), fewest({8: 0.5, 6: 0.6})
        (6, 8)
    """
    return min((bits for bits, error in errors.items() if error <= target), default=max(errors))


class _HasBits(Protocol):
    bits: int


def _error(bits: int) -> str:
    return f"error at {bits} bits"


class BitChoice(Adaptive):
    """Callback that chooses the bits after the first epoch, by the mean error of all workers' first layer outputs.

    Sums of errors and numbers of elements are all-reduced together with the weight gradients, so all workers choose the
    same bits; with one scale per row also those of a single process, up to float32 sums. The choice is final, also
    after resuming.

    Args:
        products: products whose ``bits`` are set; their initial value is the maximum.
    """

    name = "product-bits"
    reductions: Mapping[str, Sharing] = MappingProxyType(
        {_ELEMENTS: "sum", **{_error(bits): "sum" for bits in CHOICES}}
    )

    def __init__(self, products: _HasBits) -> None:
        self.products = products
        self.settled = False
        self._sums = dict.fromkeys(self.reductions, 0.0)  # of one epoch
        self._decisions: list[Entry] = []

    def take(self, elements: int, sums: Mapping[int, float]) -> None:
        """Add sums of relative errors, by bits, over ``elements`` elements."""
        self._sums[_ELEMENTS] += elements
        for bits, total in sums.items():
            self._sums[_error(bits)] += total

    def values_to_reduce(self, epoch_s: float | None) -> Mapping[str, float | None]:
        # Sums, not means, are all-reduced: workers with more elements weigh more. The next epoch starts from 0.
        sums, self._sums = self._sums, dict.fromkeys(self.reductions, 0.0)
        return sums

    def after_epoch(self, epoch: int, loss: float, shared: Mapping[str, float | None]) -> None:
        if self.settled:
            return  # one choice for the whole training, also after resuming
        self.settled, sums = True, {name: value or 0.0 for name, value in shared.items()}
        if sums[_ELEMENTS] == 0:
            reason = "no layer aggregated, so there was no error to choose by"
        else:
            errors = {bits: sums[_error(bits)] / sums[_ELEMENTS] for bits in CHOICES}
            self.products.bits = fewest(errors)  # equal sums, so equal bits, on all workers
            words = ", ".join(f"{error:.3f} at {bits}" for bits, error in errors.items())
            reason = f"the relative error of the first layer's output is {words} bits; at most {TARGET} is allowed"
        decision = f"products of {self.products.bits}-bit codes"
        self._decisions.append((DECISIONS, {"epoch": epoch + 1, "what": decision, "why": reason}))

    def entries(self) -> Sequence[Entry]:
        decisions, self._decisions = self._decisions, []
        return decisions

    def state(self) -> State:
        return State({"bits": self.products.bits, "settled": self.settled})

    def load(self, facts: dict[str, int], tensors: Mapping[str, Tensor]) -> None:
        self.products.bits, self.settled = facts["bits"], bool(facts["settled"])
