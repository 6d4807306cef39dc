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
"""Method of a pass -> name of the operation in its events."""


class _Pass(Protocol):
    observers: Observers
    epoch: int
    _hops: int


Kind = TypeVar("Kind")


def reporting(kind: type[Kind]) -> type[Kind]:
    """Return a subclass of a pass that reports each operation; the pass itself makes no extra call."""
    methods = {name: _reported(getattr(kind, name), operation) for name, operation in OPERATIONS.items()}
    return type(f"Reporting{kind.__name__}", (kind,), methods)


def _reported(method: Callable[..., Any], operation: str) -> Callable[..., Any]:
    @wraps(method)
    def run(self: _Pass, *args: Any, **kwargs: Any) -> Any:
        to = self.observers
        inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor | SparseInput | nn.Module)]
        place = to.rank, self.epoch, self._hops, operation, tuple(inputs)
        if to.operation_started:
            to.emit(to.operation_started, OperationStarted(*place))
        output = method(self, *args, **kwargs)
        if to.operation_ended:
            to.emit(to.operation_ended, OperationEnded(*place, output))
        return output

    return run
