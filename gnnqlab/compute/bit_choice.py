"""Who chooses the bits of products while a model trains, by TANGO's rule (SC 2023, section 3.2, Eq. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from torch import Tensor

from gnnqlab.adaptive import DECISIONS, Adaptive, Entry, Sharing, State
from gnnqlab.compute.bit_rule import CHOICES, TARGET, fewest

__all__ = ["BitChoice"]

_ELEMENTS = "elements"


class _OfBits(Protocol):
    bits: int


def _error(bits: int) -> str:
    return f"error at {bits} bits"


class BitChoice(Adaptive):
    """Settles the bits after the first epoch, by the mean error of what all workers' first layers came to.

    Sums of errors and numbers of elements travel with the weight gradients, so all workers settle on the same bits, and
    with a scale a row on those of one process, up to float32 sums. What was settled stays, after resuming too.

    Args:
        products: whose bits they are; those it has are the most.
    """

    name = "product-bits"
    wants: Mapping[str, Sharing] = MappingProxyType({_ELEMENTS: "sum", **{_error(bits): "sum" for bits in CHOICES}})

    def __init__(self, products: _OfBits) -> None:
        self.products = products
        self.settled = False
        self._sums = dict.fromkeys(self.wants, 0.0)
        self._decisions: list[Entry] = []

    def take(self, elements: int, sums: Mapping[int, float]) -> None:
        """Take the sums of relative errors over so many elements, by bits."""
        self._sums[_ELEMENTS] += elements
        for bits, total in sums.items():
            self._sums[_error(bits)] += total

    def says(self, epoch_s: float | None) -> Mapping[str, float | None]:
        said, self._sums = self._sums, dict.fromkeys(self.wants, 0.0)
        return said

    def after_epoch(self, epoch: int, loss: float, shared: Mapping[str, float | None]) -> None:
        if self.settled:
            return
        self.settled, told = True, {name: value or 0.0 for name, value in shared.items()}
        if told[_ELEMENTS] == 0:
            why = "no layer looked at neighbours, so there was no error to choose by"
        else:
            errors = {bits: told[_error(bits)] / told[_ELEMENTS] for bits in CHOICES}
            self.products.bits = fewest(errors)
            words = ", ".join(f"{error:.3f} at {bits}" for bits, error in errors.items())
            why = f"the first layer's output errs by {words} bits, and {TARGET} is allowed"
        what = f"products of {self.products.bits}-bit codes"
        self._decisions.append((DECISIONS, {"epoch": epoch + 1, "what": what, "why": why}))

    def entries(self) -> Sequence[Entry]:
        decided, self._decisions = self._decisions, []
        return decided

    def state(self) -> State:
        return State({"bits": self.products.bits, "settled": self.settled})

    def load(self, facts: dict[str, int], tensors: Mapping[str, Tensor]) -> None:
        self.products.bits, self.settled = facts["bits"], bool(facts["settled"])
