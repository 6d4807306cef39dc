"""SYLVIE's policy: a base width that moves with the training, wider for nodes that matter more (sections IV-A, V-A).

Every worker moves the base alike, from values that all of them share, so no width ever travels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.bits.policy import Rows

__all__ = ["Orchestrated", "OrchestratedWidths", "by_importance"]

_WIDTHS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Orchestrated:
    """When the base width moves, and what it may be.

    The base starts at the smallest width. After epoch t > δ it is doubled where the loss falls more slowly than in
    epoch t - δ, and halved where it does not (Eq. 5).
    """

    steerable: ClassVar[tuple[str, ...]] = ("delta", "momentum")
    """Settings that may change while a run trains."""
    among: tuple[int, ...] = _WIDTHS
    """Widths to choose from; the base is one of them, nodes get it or a wider one."""
    delta: int = 5
    """δ: epochs between the two rates that are compared. The paper suggests 5 for quality, 20 for speed."""
    momentum: float = 0.9
    """λ of the running loss ``F_t = λ F_(t-1) + (1 - λ) L_t``, in [0, 1)."""
    formula: str = "text"
    """``text``: Eq. 5 as the paper explains it. ``printed``: with the sign of its formula, the other way round: wider
    while the loss falls faster and faster, so that smooth training stays with the smallest width."""
    by_node: bool = True
    """Whether nodes that matter more get wider messages; else all get the base (SYLVIE's time-adaptive half)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "among", tuple(sorted(self.among)))
        if not self.among or not set(self.among) <= set(_WIDTHS):
            raise ValueError(f"widths to choose from must be among {_WIDTHS}, got {self.among}")
        if self.delta < 1:
            raise ValueError(f"delta must be at least 1 epoch, got {self.delta}")
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum must lie in [0, 1), got {self.momentum}")
        if self.formula not in ("text", "printed"):
            raise ValueError(f"formula must be 'text' or 'printed', got {self.formula!r}")

    @property
    def choices(self) -> tuple[int, ...]:
        return self.among

    def widens(self, earlier: float, rate: float) -> bool:
        """Return whether Eq. 5 asks for a wider base (and for fresh rows); else for a narrower one.

        Args:
            earlier: how fast the loss fell δ epochs ago, positive while it falls.
            rate: how fast it falls now. The paper prints the negatives of both (erratum SY-1).

        Example:
            >>> Orchestrated().widens(2.0, 1.0), Orchestrated(formula="printed").widens(2.0, 1.0)
            (True, False)
        """
        return rate > earlier if self.formula == "printed" else rate < earlier

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.among[0]


def by_importance(p: Tensor, base: int, among: tuple[int, ...]) -> Tensor:
    """Return each node's width: the base, or a wider one the more its importance p says so.

    With k widths from the base on, node v gets the i-th where ``1 - 2^-i <= p_v < 1 - 2^-(i+1)``, the last where p is
    larger: the less important half gets the base, the next quarter the next width, and so on.

    Differs: the paper names the candidates (base 1: 1, 2, 4, 8; base 8: 8 alone) but no thresholds.

    Args:
        p: importance in [0, 1], ``(n,)``.
        base: smallest width to give.
        among: widths, ascending.

    Returns:
        uint8 ``(n,)``.

    Example:
        >>> p = torch.tensor([0.0, 0.4, 0.5, 0.7, 0.75, 0.9, 1.0])
        >>> by_importance(p, 1, (1, 2, 4, 8)).tolist(), by_importance(p, 8, (1, 2, 4, 8)).tolist()
        ([1, 1, 2, 2, 4, 8, 8], [8, 8, 8, 8, 8, 8, 8])
    """
    candidates = [width for width in among if width >= base]
    edges = torch.tensor([1 - 2.0 ** -(step + 1) for step in range(len(candidates) - 1)])
    level = torch.bucketize(p.float(), edges.to(p.device), right=True)
    return torch.tensor(candidates, dtype=torch.uint8, device=p.device)[level]


class OrchestratedWidths:
    """The widths in force on one worker.

    Args:
        settings: when the base moves.
        ids: global ids of the nodes this worker owns or has in its halo, int64 ``(n,)``.
        p: their importance, ``(n,)``.
    """

    def __init__(self, settings: Orchestrated, ids: Tensor, p: Tensor) -> None:
        self.settings, self.version = settings, 0
        self.base = settings.among[0]
        self._steered = 0
        self._ids, order = ids.cpu().sort()
        self._p = p.cpu()[order]
        self._p_of: dict[int, tuple[Tensor, Tensor]] = {}
        """The ids of a message and their importance, by identity: all layers ask about the same few tensors."""
        self._widths_of: dict[tuple[int, int], Tensor] = {}

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def round(self, epoch: int) -> int:
        """Return a number for the settings and base in force: a base that returns has its old one again."""
        return self._steered * len(_WIDTHS) + self.settings.among.index(self.base)

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        if not self.settings.by_node or self.base == self.settings.among[-1]:
            return self.base
        key = (id(rows.ids), self.base)
        if key not in self._widths_of:
            self._widths_of[key] = by_importance(self._importance(rows.ids), self.base, self.settings.among)
        return self._widths_of[key]

    def _importance(self, ids: Tensor) -> Tensor:
        if id(ids) not in self._p_of:
            p = self._p[torch.searchsorted(self._ids, ids.cpu())].to(ids.device)
            self._p_of[id(ids)] = (ids, p)  # kept together, so that no other tensor can have this id
        return self._p_of[id(ids)][1]

    def move(self, *, wider: bool) -> bool:
        """Take the next wider or narrower base; return whether there is one."""
        among = self.settings.among
        place = among.index(self.base) + (1 if wider else -1)
        if not 0 <= place < len(among):
            return False
        self.base = among[place]
        return True

    def steer(self, settings: Orchestrated, *, version: int = 0) -> None:
        """Put other settings in force; all workers must do so between the same two epochs."""
        self.settings, self.version = settings, version
        self._steered += 1
        self._widths_of.clear()
