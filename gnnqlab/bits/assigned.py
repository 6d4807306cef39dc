"""AdaQP's policy: widths assigned row by row from traced ranges, anew every period (AdaQP section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from gnnqlab.bits.policy import WIDTHS, Rows

__all__ = ["Assigned", "AssignedWidths"]


@dataclass(frozen=True, kw_only=True)
class Assigned:
    """What the assigner may choose, how it weighs variance against time, and when it chooses.

    Until the first assignment every row travels in ``start`` bits.
    """

    steerable: ClassVar[tuple[str, ...]] = ("among", "lam", "group_size", "period")
    """Settings that may change while a run trains."""
    needs_every_row: ClassVar[str] = "it weighs the range of each row in one epoch"
    """Why a sampler cannot leave rows out."""
    among: tuple[int, ...] = (2, 4, 8)
    """Widths to choose from."""
    lam: float = 0.5
    """λ in [0, 1]: 1 minds only variance, 0 only time (Eq. 12)."""
    group_size: int = 100
    """Rows that share a width."""
    period: int = 50
    """Epochs between assignments; the first one follows epoch ``first``."""
    start: int = 8
    """Width of every row before the first assignment."""
    first: int = 1
    """Epoch whose ranges the first assignment uses."""
    when: str = "background"
    """``background``: solved beside the next epoch and applied after it; ``blocking``: training waits (the paper)."""
    as_released: bool = False
    """Weight rows with (Σα)², as the published code does, in place of Σα²."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "among", tuple(sorted(self.among)))
        for name in ("group_size", "period"):
            if not isinstance(getattr(self, name), int):
                raise TypeError(f"{name} must be a whole number, got {getattr(self, name)!r}")
        if isinstance(self.lam, bool) or not isinstance(self.lam, int | float):
            raise TypeError(f"lam must be a number in [0, 1], got {self.lam!r}")
        if not self.among or not set(self.among) <= set(WIDTHS):
            raise ValueError(f"widths to choose from must be among {WIDTHS}, got {self.among}")
        if not 0.0 <= self.lam <= 1.0:
            raise ValueError(f"lam must lie in [0, 1], got {self.lam}")
        if self.group_size < 1 or self.period < 1:
            raise ValueError(f"group_size and period must be at least 1, got {self.group_size} and {self.period}")
        if self.start not in WIDTHS:
            raise ValueError(f"start must be one of {WIDTHS}, got {self.start}")
        if self.first < 0:
            raise ValueError(f"first must not be negative, got {self.first}")
        if self.when not in ("background", "blocking"):
            raise ValueError(f"when must be 'background' or 'blocking', got {self.when!r}")

    @property
    def choices(self) -> tuple[int, ...]:
        return tuple(sorted({*self.among, self.start}))

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.start

    def assigns_after(self, epoch: int) -> bool:
        """Whether the ranges of this epoch are used for an assignment."""
        return epoch == self.first or (epoch > self.first and (epoch + 1) % self.period == 0)


class AssignedWidths:
    """The assignment in force on one worker: a :class:`BitPolicy` whose answers are installed."""

    def __init__(self, settings: Assigned) -> None:
        self.settings = settings
        self.asked = False
        """Whether settings have changed, so that a new period begins: the next assignment is due at once."""
        self.version = 0
        """Version of the settings; 0: those of the launch."""
        self._table: dict[tuple[int, str, int, int], Tensor] = {}
        self._installed = 0

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def round(self, epoch: int) -> int:
        return self._installed

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        key = (rows.layer, rows.direction, rows.sender, rows.receiver)
        return self._table.get(key, self.settings.start)

    @property
    def table(self) -> dict[tuple[int, str, int, int], Tensor]:
        """The assignment in force: (layer, direction, sender, receiver) -> width of every row, uint8 ``(n,)``."""
        return dict(self._table)

    def steer(self, settings: Assigned, *, version: int = 0) -> None:
        """Change the settings, on all workers between the same two epochs; a new period begins.

        Widths in force stay until the assignment that is due now.
        """
        self.settings, self.version, self.asked = settings, version, True

    def assigns_after(self, epoch: int) -> bool:
        """Whether the ranges of this epoch are used: by the calendar, or because the settings have changed."""
        return self.asked or self.settings.assigns_after(epoch)

    def install(self, table: dict[tuple[int, str, int, int], Tensor]) -> None:
        """Put an assignment in force; both ends of every message must do so between the same two epochs.

        Args:
            table: (layer, direction, sender, receiver) -> width of every row in plan order, uint8 ``(n,)``.
        """
        self._table = table
        self._installed += 1

    def reinstall(self, table: dict[tuple[int, str, int, int], Tensor], installed: int) -> None:
        """Put back the assignment of an earlier training, the ``installed``-th of its own."""
        self._table, self._installed = table, installed
