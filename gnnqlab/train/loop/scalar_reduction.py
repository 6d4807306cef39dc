"""What adaptives want to know of all workers, put among the facts that travel with the gradients, and handed back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnnqlab.adaptive import Adaptive
from gnnqlab.train.loop.reduction import Slots, Summed

__all__ = ["ScalarReduction"]


class ScalarReduction:
    """Sums and maxima that a list of adaptives wants.

    Args:
        adaptives: in the same order on every worker.
        workers: P.

    Raises:
        ValueError: if one wants something else than a sum or a maximum.
    """

    def __init__(self, adaptives: Sequence[Adaptive], workers: int) -> None:
        self._adaptives = adaptives
        self._places: dict[str, list[tuple[int, str]]] = {"sum": [], "max": []}
        for index, adaptive in enumerate(adaptives):
            for name, how in adaptive.wants.items():
                if how not in self._places:
                    raise ValueError(
                        f"what is wanted must be a 'sum' or a 'max', got {how!r} for {name!r} of {adaptive.name}"
                    )
                self._places[how].append((index, name))
        self.slots = Slots(sums=len(self._places["sum"]), maxima=len(self._places["max"]), workers=workers)
        """Where they stand."""

    def say(self, epoch_s: float | None) -> tuple[list[float], list[float | None]]:
        """Return this worker's terms and values.

        Raises:
            ValueError: if an adaptive does not say a number that it wants.
        """
        said = [adaptive.says(epoch_s) for adaptive in self._adaptives]
        for adaptive, values in zip(self._adaptives, said):
            if set(values) != set(adaptive.wants):
                raise ValueError(f"{adaptive.name} must say {sorted(adaptive.wants)}, got {sorted(values)}")
        terms: list[float] = []
        for index, name in self._places["sum"]:
            term = said[index][name]
            if term is None:
                raise ValueError(f"{self._adaptives[index].name} must know its term of the sum {name!r}, got None")
            terms.append(term)
        return terms, [said[index][name] for index, name in self._places["max"]]

    def told(self, summed: Summed) -> list[Mapping[str, float | None]]:
        """Return what every adaptive is told."""
        told: list[dict[str, float | None]] = [{} for _ in self._adaptives]
        for how, values in (("sum", summed.sums), ("max", summed.maxima)):
            for (index, name), value in zip(self._places[how], values, strict=True):
                told[index][name] = value
        return list(told)
