"""Widths that grow while training goes on, by a plan made before it (after VARCO, Cerviño et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gnnqlab.bits.policy import WIDTHS, Bits, Period, Rows, Steered, Widths, check_subset
from gnnqlab.bits.policy_preview import PolicyPreview, PreviewedWidths
from gnnqlab.settings import check
from gnnqlab.worker_context import WorkerContext

__all__ = ["Growing"]


@dataclass(frozen=True, kw_only=True)
class Growing(Bits):
    """Every row in the k-th width of a plan during the k-th period, then in the last one.

    VARCO's claim is that messages may be coarse at first if the ratio of compression falls to 1 over the training: then
    it converges to what full communication would, with fewer bytes than any fixed ratio.

    Differs: VARCO sends a random subset of a row's columns and sets the others to zero; here a row is sent whole, in
    fewer bits. So what arrives is unbiased at every width, and the ratio moves in powers of two instead of linearly.

    Example:
        >>> plan = Growing(among=(1, 1, 8), period=10)
        >>> [plan.widths(None, epoch) for epoch in (0, 19, 20, 500)]
        [1, 1, 8, 8]
    """

    steerable: ClassVar[tuple[str, ...]] = ("among", "period")
    """Settings that may change while a run trains."""
    among: Widths = (1, 2, 4, 8, 16, 32)
    """The plan: one width a period, none smaller than the one before; repeat a width that is to stay longer."""
    period: Period = 10
    """Epochs in a period."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "among", check_subset(WIDTHS, self.among))
        if list(self.among) != sorted(self.among):
            raise ValueError(f"widths of a growing plan must not shrink, got {self.among}")
        check(self)

    def build(self, worker: WorkerContext) -> Steered:
        """Return the policy in force on one worker."""
        return Steered(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.among))

    def round(self, epoch: int) -> int:
        return min(epoch // self.period, len(self.among) - 1)

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.among[self.round(epoch)]

    def foresee(self, outlook: PolicyPreview) -> PreviewedWidths:
        """Return the width of an epoch; by default of the first one, where the plan is narrowest."""
        epoch = outlook.epoch or 0
        assumes: tuple[str, ...] = ()
        if outlook.epoch is None and len(self.choices) > 1:
            assumes = (f"the width of epoch 0, {self.among[0]}, which grows to {self.among[-1]}",)
        return PreviewedWidths(widths=outlook.ask(self, epoch), epoch=epoch, assumes=assumes)
