"""Reports of a pass's operations to the observers of the pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from torch import Tensor, nn

from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.observe import Observers, OperationEnded, OperationStarted

__all__ = ["reported"]

P = ParamSpec("P")
Result = TypeVar("Result")


class _Pass(Protocol):
    observers: Observers
    epoch: int
    _hops: int


Self = TypeVar("Self", bound=_Pass)


def reported(
    operation: str,
) -> Callable[[Callable[Concatenate[Self, P], Result]], Callable[Concatenate[Self, P], Result]]:
    """Decorate a method of a pass: observers receive an event before and after it; without one it is called alone."""

    def around(method: Callable[Concatenate[Self, P], Result]) -> Callable[Concatenate[Self, P], Result]:
        @wraps(method)
        def run(self: Self, *args: P.args, **kwargs: P.kwargs) -> Result:
            to = self.observers
            if not (to.operation_started or to.operation_ended):
                return method(self, *args, **kwargs)
            inputs = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor | SparseInput | nn.Module)]
            place = to.rank, self.epoch, self._hops, operation, tuple(inputs)
            if to.operation_started:
                to.emit(to.operation_started, OperationStarted(*place))
            output = method(self, *args, **kwargs)
            if to.operation_ended:
                to.emit(to.operation_ended, OperationEnded(*place, output))
            return output

        return run

    return around
