"""SYLVIE's policy: a base width that moves with the training, wider for nodes that matter more (sections IV-A, V-A).

Every worker moves the base alike, from values that all of them share, so no width ever travels.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.adaptive import Adaptive, Entry, State, Training
from gnnqlab.bits.assigner.descent import Watch
from gnnqlab.bits.policy import BitPolicy, Bits, Period, Rows, check_subset
from gnnqlab.bits.policy_preview import PolicyPreview, PreviewedWidths
from gnnqlab.settings import OneOf, Option, Range, check
from gnnqlab.worker_context import WorkerContext

__all__ = ["HALVES", "QUARTERS", "Orchestrated", "OrchestratedWidths", "Orchestrator", "by_importance"]

_WIDTHS = (1, 2, 4, 8)
HALVES = (1 / 2, 3 / 4, 7 / 8)
"""Half of the nodes get a wider row than the base, a quarter one wider still: on base 1, evenly spread, 2.5 bits."""
QUARTERS = (3 / 4, 15 / 16, 63 / 64)
"""A quarter, a sixteenth: on base 1 1.44 bits a row, about the 1.45 that SYLVIE's Table XII implies."""


@dataclass(frozen=True, kw_only=True)
class Orchestrated(Bits):
    """When the base width moves, and what it may be.

    The base starts at the smallest width. After epoch t > δ it is doubled where the loss falls more slowly than in
    epoch t - δ, and halved where it does not (Eq. 5).
    """

    steerable: ClassVar[tuple[str, ...]] = ("delta", "momentum")
    """Settings that may change while a run trains."""
    among: Annotated[tuple[int, ...], OneOf(_WIDTHS), Option("widths")] = _WIDTHS
    """Widths to choose from; the base is one of them, nodes get it or a wider one."""
    delta: Period = 5
    """δ: epochs between the two rates that are compared. The paper suggests 5 for quality, 20 for speed."""
    momentum: Annotated[float, Range(0, 1, open_high=True)] = 0.9
    """λ of the running loss ``F_t = λ F_(t-1) + (1 - λ) L_t``, in [0, 1)."""
    formula: Annotated[str, OneOf(("text", "printed"))] = "text"
    """``text``: Eq. 5 as the paper explains it. ``printed``: with the sign of its formula, the other way round: wider
    while the loss falls faster and faster, so that smooth training stays with the smallest width."""
    thresholds: Annotated[tuple[float, ...], Range(0, 1)] = HALVES
    """Importance p in [0, 1], ascending, from which a node gets the first, second ... width above the base; as many as
    there are widths above the smallest, or more. Differs: the paper has a mask but no thresholds (erratum SY-2)."""
    by_node: bool = True
    """Whether nodes that matter more get wider messages; else all get the base (SYLVIE's time-adaptive half)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "among", tuple(sorted(check_subset(_WIDTHS, self.among))))
        object.__setattr__(self, "thresholds", tuple(self.thresholds))
        check(self)
        if sorted(self.thresholds) != list(self.thresholds) or len(self.thresholds) < len(self.among) - 1:
            raise ValueError(
                f"thresholds must ascend and be {len(self.among) - 1} or more for the widths {self.among}, got "
                f"{self.thresholds}; for instance {HALVES[: len(self.among) - 1]}"
            )

    def build(self, worker: WorkerContext) -> OrchestratedWidths:
        """Return the widths in force on one worker, which adapt as the orchestrator says."""
        return OrchestratedWidths(self, worker.ids, worker.importance)

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

    def foresee(self, outlook: PolicyPreview) -> PreviewedWidths:
        """Return the widths that stand on a base; by default on the smallest, with which training starts.

        Raises:
            ValueError: if the base is none of the widths.
        """
        base = self.among[0] if outlook.base is None else outlook.base
        if base not in self.among:
            raise ValueError(f"base must be one of the widths to choose from, {self.among}, got {base}")
        epoch = outlook.epoch or 0
        where = ", where it starts; nobody knows how the loss will move it" if outlook.base is None else ""
        return PreviewedWidths(
            widths=outlook.ask(_AtBase(self, base, outlook), epoch),
            epoch=epoch,
            base=base,
            assumes=(f"a base width of {base}{where}",),
        )


@dataclass(frozen=True)
class _AtBase(BitPolicy):
    """The policy while its base stays where it is."""

    settings: Orchestrated
    base: int
    outlook: PolicyPreview

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        if not self.settings.by_node or self.base == self.settings.among[-1]:
            return self.base
        p, settings = self.outlook.importance(rows.ids), self.settings
        return by_importance(p, self.base, settings.among, settings.thresholds)


def by_importance(p: Tensor, base: int, among: tuple[int, ...], thresholds: tuple[float, ...] = HALVES) -> Tensor:
    """Return each node's width: the base, or a wider one the more its importance p says so.

    With k widths from the base on, node v gets the base below the first of k - 1 thresholds, the next width from there
    on, and so on. By halves the less important half gets the base, the next quarter the next width.

    Differs: the paper names the candidates (base 1: 1, 2, 4, 8; base 8: 8 alone) but no thresholds.

    Args:
        p: importance in [0, 1], ``(n,)``.
        base: smallest width to give.
        among: widths, ascending.
        thresholds: ascending; those that a higher base leaves without a width are not looked at.

    Returns:
        uint8 ``(n,)``.

    Example:
        >>> p = torch.tensor([0.0, 0.4, 0.5, 0.7, 0.75, 0.9, 1.0])
        >>> by_importance(p, 1, (1, 2, 4, 8)).tolist(), by_importance(p, 8, (1, 2, 4, 8)).tolist()
        ([1, 1, 2, 2, 4, 8, 8], [8, 8, 8, 8, 8, 8, 8])
        >>> by_importance(p, 1, (1, 2, 4, 8), QUARTERS).tolist()
        [1, 1, 1, 1, 2, 2, 8]
    """
    candidates = [width for width in among if width >= base]
    edges = torch.tensor(thresholds[: len(candidates) - 1])
    level = torch.bucketize(p.float(), edges.to(p.device), right=True)
    return torch.tensor(candidates, dtype=torch.uint8, device=p.device)[level]


class OrchestratedWidths(BitPolicy):
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
        self._p_of: MutableMapping[Tensor, Tensor] = WeakTensorKeyDictionary()
        """The ids of a message, by identity -> their importance: all layers ask about the same few tensors."""
        self._widths_of: MutableMapping[Tensor, dict[int, Tensor]] = WeakTensorKeyDictionary()
        """The ids of a message, by identity -> base -> widths."""

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        watch = Watch.of(self.settings, training)
        return [watch, Orchestrator(self, watch, name=training.worker.named("base-width"))]

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def round(self, epoch: int) -> int:
        """Return a number for the settings and base in force: a base that returns has its old one again."""
        return self._steered * len(_WIDTHS) + self.settings.among.index(self.base)

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        if not self.settings.by_node or self.base == self.settings.among[-1]:
            return self.base
        known = self._widths_of.setdefault(rows.ids, {})
        if self.base not in known:
            p, settings = self._importance(rows.ids), self.settings
            known[self.base] = by_importance(p, self.base, settings.among, settings.thresholds)
        return known[self.base]

    def _importance(self, ids: Tensor) -> Tensor:
        if ids not in self._p_of:
            self._p_of[ids] = self._p[torch.searchsorted(self._ids, ids.cpu())].to(ids.device)
        return self._p_of[ids]

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


class Orchestrator(Adaptive):
    """Moves the base width after an epoch: a wider one where Eq. 5 asks for it, else a narrower one.

    Args:
        widths: whose base.
        watch: has judged the epoch before it is asked.
    """

    def __init__(self, widths: OrchestratedWidths, watch: Watch, *, name: str = "base-width") -> None:
        self.name = name
        self.widths = widths
        self.decisions: list[Entry] = []
        """Until they are read."""
        self._watch = watch

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        verdict = self._watch.verdict
        if verdict.rates is not None and self.widths.move(wider=verdict.careful):
            self.decisions.append(verdict.entry(epoch, f"base width {self.widths.base}"))

    def entries(self) -> Sequence[Entry]:
        decided, self.decisions[:] = list(self.decisions), []
        return decided

    def state(self) -> State:
        return State({"base": self.widths.base})

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.widths.base = facts["base"]

    def steer(self, settings: Orchestrated, *, version: int) -> None:
        self.widths.steer(settings, version=version)
