"""Phases of a pass, forward and backward: timing of a model's own computations between exchanges.

A computation runs in a phase of the epoch's timer. In the backward pass PyTorch runs autograd nodes one by one: the
phase starts again before the node that created the result, and ends before a node that created an input. Time outside
named computations is counted as ``other``.

The overhead is a few microseconds per computation, some hundredths of a millisecond per epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from torch import Tensor

__all__ = ["PassClock", "run_in_phase"]

T = TypeVar("T")

_TIMED = "_gnnqlab_timed"
"""Attribute of a tensor whose autograd node starts a phase itself; views and sums of the tensor do not have it."""


class PassClock(Protocol):
    """Interface of the epoch's phase timer; implemented by ``gnnqlab.train.loop.phase_timer.PhaseTimer``."""

    def enter(self, phase: str) -> str:
        """Start a phase, and return the one that was running."""

    def enter_hook(self, phase: str) -> Callable[[object], None]:
        """Return a hook that starts a phase when called; its argument is ignored."""


def run_in_phase(clock: PassClock | None, phase: str, compute: Callable[..., T], *inputs: Any) -> T:
    """Return ``compute(*inputs)``; its time, forward and backward, is counted as a phase.

    Args:
        clock: phase timer of the epoch; ``None``: nothing is measured.
        phase: name of the phase, for instance ``products``.
        compute: the function; its result may be a tuple of tensors.
        inputs: its arguments; the backward phase ends at the autograd nodes of tensors among them.
    """
    if clock is None:
        return compute(*inputs)
    for x in inputs:
        # The node of a timed input starts its own phase. Leaves (parameters) have no node, and a hook would persist.
        if isinstance(x, Tensor) and x.grad_fn is not None and not hasattr(x, _TIMED):
            x.grad_fn.register_prehook(clock.enter_hook("other"))
    outer_phase = clock.enter(phase)
    try:
        out = compute(*inputs)
    finally:
        # Also after an error, so that the phase of the caller continues.
        clock.enter(outer_phase)
    for result in out if isinstance(out, tuple) else (out,):
        if isinstance(result, Tensor) and result.grad_fn is not None:
            result.grad_fn.register_prehook(clock.enter_hook(phase))
            setattr(result, _TIMED, True)  # its own backward phase starts at this node
    return out
