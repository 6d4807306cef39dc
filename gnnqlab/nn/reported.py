"""Passes that report their operations to observers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

from torch import Tensor, nn

from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.observe import Observers, OperationEnded, OperationStarted

__all__ = ["reporting"]

OPERATIONS = {
    "linear": "linear",
    "affine": "affine",
    "aggregate": "aggregate",
    "convolve": "convolve",
    "attend": "attend",
    "activate": "activate",
    "activate_both": "activate_both",
    "join": "join",
    "dropout": "dropout",
    "_look": "prepare",
}
"""Method of a pass -> name of the operation in events."""


class _Pass(Protocol):
    observers: Observers
    epoch: int
    _hops: int


Kind = TypeVar("Kind")


def reporting(kind: type[Kind]) -> type[Kind]:
    """Return a subclass of a pass that reports each operation; an unobserved pass has no overhead."""
    methods = {name: _reported(getattr(kind, name), operation) for name, operation in OPERATIONS.items()}
    return type(f"Reporting{kind.__name__}", (kind,), methods)


def _reported(method: Callable[..., Any], operation: str) -> Callable[..., Any]:
    @wraps(method)
    def run(self: _Pass, *args: Any, **kwargs: Any) -> Any:
        observers = self.observers
        inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor | SparseInput | nn.Module)]
        # Read before the call, which may advance the layer: both events of an operation have the same one.
        fields = observers.rank, self.epoch, self._hops, operation, tuple(inputs)
        if observers.operation_started:
            observers.emit(observers.operation_started, OperationStarted(*fields))
        output = method(self, *args, **kwargs)
        if observers.operation_ended:
            observers.emit(observers.operation_ended, OperationEnded(*fields, output))
        return output

    return run
