"""Bit-widths that grow during training by a fixed plan (after VARCO, Cerviño et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gnnqlab.bits.policy import WIDTHS, Bits, Period, Rows, Steered, Widths, check_subset
from gnnqlab.bits.policy_prediction import PredictedWidths, PredictionContext
from gnnqlab.former_names import accepts_former_names
from gnnqlab.settings import check
from gnnqlab.worker_context import WorkerContext

__all__ = ["Growing"]


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class Growing(Bits):
    """The k-th bit-width of a plan for every row during the k-th period; after the plan, its last bit-width.

    VARCO's claim: messages may be coarse at first if the compression ratio falls to 1 over the training. It then
    converges to the result of full communication, with fewer bytes than any fixed ratio.

    Differs: VARCO sends a random subset of a row's columns and sets the others to zero; here a row is sent whole, in
    fewer bits. So decoded rows are unbiased at every bit-width, and the ratio changes by powers of two, not linearly.

    Example:
        >>> plan = Growing(bit_widths=(1, 1, 8), period=10)
        >>> [plan.widths(None, epoch) for epoch in (0, 19, 20, 500)]
        [1, 1, 8, 8]
    """

    steerable: ClassVar[tuple[str, ...]] = ("bit_widths", "period")
    """Settings that may change while a run trains."""
    bit_widths: Widths = (1, 2, 4, 8, 16, 32)
    """The plan: one bit-width per period, none smaller than the one before; repeat one to keep it for longer."""
    period: Period = 10
    """Epochs in a period."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bit_widths", check_subset(WIDTHS, self.bit_widths))
        if list(self.bit_widths) != sorted(self.bit_widths):
            raise ValueError(f"widths of a growing plan must not shrink, got {self.bit_widths}")
        check(self)

    def build(self, worker: WorkerContext) -> Steered:
        """Build the policy of one worker."""
        return Steered(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.bit_widths))  # without repetitions, still ascending

    def version(self, epoch: int) -> int:
        return min(epoch // self.period, len(self.bit_widths) - 1)  # after the plan, its last bit-width

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.bit_widths[self.version(epoch)]

    def predict(self, context: PredictionContext) -> PredictedWidths:
        """Predict the bit-width of an epoch; by default of epoch 0, the smallest of the plan."""
        epoch = context.epoch or 0
        assumes: tuple[str, ...] = ()
        if context.epoch is None and len(self.choices) > 1:
            assumes = (f"the bit-width of epoch 0, {self.bit_widths[0]}, which grows to {self.bit_widths[-1]}",)
        return PredictedWidths(widths=context.widths_of(self, epoch), epoch=epoch, assumes=assumes)
