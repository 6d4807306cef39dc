"""Schedules that use yesterday's rows: what is posted in one epoch is used in the next (PipeGCN; SYLVIE section V-B).

An exchange has a whole epoch to arrive in, both ways. The first epoch is synchronous, so that the second one has
rows to start from; evaluation always is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.exchange.schedule import Came, Overlapped, Place, Step

__all__ = ["AdaptivePipeline", "Pipeline", "Pipelined"]


@dataclass(frozen=True, kw_only=True)
class Pipelined:
    """Halo rows and their gradients are one epoch old (PipeGCN, Wan et al. 2022).

    Smoothing replaces what came by ``m <- γ m + (1 - γ) what came`` at the receiver, m starting at what came first.

    Differs: the first epoch is synchronous, where PipeGCN starts from rows of zeros; so m needs no correction.
    """

    lag: ClassVar[int] = 1
    feature_smoothing: float = 0.0
    """γ in [0, 1) for halo rows; 0: none. PipeGCN-F has 0.95."""
    gradient_smoothing: float = 0.0
    """γ in [0, 1) for their gradients; 0: none. PipeGCN-G has 0.95."""

    def __post_init__(self) -> None:
        for name in ("feature_smoothing", "gradient_smoothing"):
            value = getattr(self, name)
            if not 0.0 <= value < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), got {value}")

    @property
    def needs_every_row(self) -> str:
        """Why a sampler cannot leave rows out; empty if it can."""
        return "smoothing averages a row with what came for it before" if self._smooths else ""

    @property
    def _smooths(self) -> bool:
        return self.feature_smoothing > 0 or self.gradient_smoothing > 0

    def runner(self) -> Pipeline:
        return Pipeline({"forward": self.feature_smoothing, "backward": self.gradient_smoothing})


@dataclass(frozen=True, kw_only=True)
class AdaptivePipeline:
    """Yesterday's rows while training goes well, fresh ones when it does not (SYLVIE section V-B).

    Whoever watches the training sets :attr:`Pipeline.fresh` between epochs, on all workers alike. A fresh epoch comes
    at the latest after ``bound`` others.
    """

    lag: ClassVar[int] = 1
    bound: int = 10
    """Most epochs in a row that use rows of the epoch before, at least 1."""

    def __post_init__(self) -> None:
        if self.bound < 1:
            raise ValueError(f"bound must be at least 1 epoch, got {self.bound}; schedule Overlapped has no staleness")

    def runner(self) -> Pipeline:
        return Pipeline({"forward": 0.0, "backward": 0.0})


class Pipeline:
    """Keeps what is under way for each place until the next epoch takes it.

    Args:
        smoothing: γ by direction.
    """

    def __init__(self, smoothing: dict[str, float]) -> None:
        self.fresh = False
        """Whether steps wait for their own rows, as in the first epoch; set between two epochs."""
        self._smoothing = smoothing
        self._under_way: dict[Place, Came] = {}
        self._means: dict[Place, Tensor] = {}
        self._held: list[tuple[Step, Place]] = []

    def run(self, step: Step, place: Place) -> None:
        earlier = self._under_way.pop(place, None)
        if earlier is None or self.fresh:
            if earlier is not None:
                earlier.arrive()  # nobody uses it, but it holds buffers
            Overlapped().run(step)
        else:
            step.prepare()
            step.independent()
            step.take(earlier, self._smoothed(place, earlier))
            if place[1] == "backward":
                self._held.append((step, place))
            else:
                step.post()  # into buffers that are free only now
            step.dependent()
        self._under_way[place] = step.came

    def release(self) -> Sequence[tuple[Step, Place]]:
        """Return the backward steps of this epoch, to be posted now.

        The sum of weight gradients is what an epoch ends with and everybody waits for, while these rows have an epoch
        to arrive in: on one link they would only stand before it.
        """
        held, self._held = self._held, []
        return held

    def drain(self) -> None:
        for came in self._under_way.values():
            came.arrive()
        self._under_way.clear()

    def _smoothed(self, place: Place, earlier: Came) -> Tensor | None:
        smoothing = self._smoothing[place[1]]
        if smoothing == 0.0:
            return None
        rows = earlier.finish()
        before = self._means.get(place)
        self._means[place] = rows.clone() if before is None else torch.lerp(rows, before, smoothing)
        return self._means[place]
