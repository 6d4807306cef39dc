"""Scalars all-reduced for callbacks, together with the gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnnqlab.adaptive import Adaptive
from gnnqlab.train.loop.reduction import ReducedFacts, Slots

__all__ = ["ScalarReduction"]


class ScalarReduction:
    """Sums and maxima that callbacks request.

    Args:
        adaptives: the callbacks, in the same order on every worker.
        workers: P.

    Raises:
        ValueError: if a callback requests anything but a sum or a maximum.
    """

    def __init__(self, adaptives: Sequence[Adaptive], workers: int) -> None:
        self._adaptives = adaptives
        self._places: dict[str, list[tuple[int, str]]] = {"sum": [], "max": []}
        # Callbacks and their requests have the same order on all workers, so a slot means the same on each.
        for index, callback in enumerate(adaptives):
            for name, kind in callback.reductions.items():
                if kind not in self._places:
                    raise ValueError(
                        f"a requested reduction must be 'sum' or 'max', got {kind!r} for {name!r} of {callback.name}"
                    )
                self._places[kind].append((index, name))
        self.slots = Slots(sums=len(self._places["sum"]), maxima=len(self._places["max"]), workers=workers)
        """Layout of the scalars in the summed buffer."""

    def collect_local(self, epoch_s: float | None) -> tuple[list[float], list[float | None]]:
        """Return this worker's terms of the sums and values for the maxima.

        Raises:
            ValueError: if a callback does not return the values that it requests.
        """
        local_values = [callback.values_to_reduce(epoch_s) for callback in self._adaptives]
        # Without this check an unrequested value would be dropped, and a missing one fail without its callback's name.
        for callback, values in zip(self._adaptives, local_values):
            if set(values) != set(callback.reductions):
                raise ValueError(f"{callback.name} must return {sorted(callback.reductions)}, got {sorted(values)}")
        terms: list[float] = []
        for index, name in self._places["sum"]:
            term = local_values[index][name]
            if term is None:
                raise ValueError(f"{self._adaptives[index].name} must return a number for the sum {name!r}, got None")
            terms.append(term)
        return terms, [local_values[index][name] for index, name in self._places["max"]]

    def unpack(self, summed: ReducedFacts) -> list[Mapping[str, float | None]]:
        """Return the reduced values of every callback, by name."""
        reduced_values: list[dict[str, float | None]] = [{} for _ in self._adaptives]
        for kind, values in (("sum", summed.sums), ("max", summed.maxima)):
            for (index, name), value in zip(self._places[kind], values, strict=True):
                reduced_values[index][name] = value
        return list(reduced_values)
