"""Names what a pass spends its time on, forward and backward: a model's own computations between the exchanges.

A computation runs in its phase of the epoch's clock. Its backward pass belongs to PyTorch, which runs it node by node:
the phase opens again ahead of the node that made the result, and ends ahead of one that made an input. What no
computation names stays with the phase ``other``.

Some microseconds a computation, in all some hundredths of a millisecond an epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from torch import Tensor

__all__ = ["PassClock", "timed"]

T = TypeVar("T")

_TIMED = "_gnnqlab_timed"
"""Attribute of a tensor whose backward pass opens a phase by itself. A view of it, or a sum, does not have it."""


class PassClock(Protocol):
    """The clock of an epoch, as far as a pass uses it; ``gnnqlab.train.loop.phase_timer.PhaseTimer`` is one."""

    def enter(self, phase: str) -> str:
        """Open a phase from here on; return the one that was open."""

    def enter_hook(self, phase: str) -> Callable[[object], None]:
        """Return what opens a phase from then on, whatever it is given."""


def timed(clock: PassClock | None, phase: str, compute: Callable[..., T], *inputs: Any) -> T:
    """Return ``compute(*inputs)``, its seconds and those of its backward pass counted as a phase.

    Args:
        clock: of the epoch; without one nothing is measured.
        phase: for instance ``products``.
        compute: what is to be done; its result may be a tuple of tensors.
        inputs: what it is done to; where tensors among them need gradients, the backward pass ends with these.
    """
    if clock is None:
        return compute(*inputs)
    for x in inputs:
        # What made a timed input opens its own phase. Of a parameter a hook would stay for good.
        if isinstance(x, Tensor) and x.grad_fn is not None and not hasattr(x, _TIMED):
            x.grad_fn.register_prehook(clock.enter_hook("other"))
    around = clock.enter(phase)
    try:
        out = compute(*inputs)
    finally:
        clock.enter(around)
    for each in out if isinstance(out, tuple) else (out,):
        if isinstance(each, Tensor) and each.grad_fn is not None:
            each.grad_fn.register_prehook(clock.enter_hook(phase))
            setattr(each, _TIMED, True)
    return out
