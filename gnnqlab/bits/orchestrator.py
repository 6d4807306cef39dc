"""SYLVIE's policy: a base bit-width that follows the loss, and more bits for important nodes (sections IV-A, V-A).

The numbers of errata (SY-1, SY-2) are those of ``gq.errata()``.

Every worker moves the base in the same way, from values that all workers share, so no bit-width is transmitted.
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
from gnnqlab.bits.policy_prediction import PredictedWidths, PredictionContext
from gnnqlab.former_names import accepts_former_names
from gnnqlab.settings import Former, OneOf, Range, check
from gnnqlab.worker_context import WorkerContext

__all__ = ["HALVES", "QUARTERS", "Orchestrated", "OrchestratedWidths", "Orchestrator", "by_importance", "replay_base"]

_WIDTHS = (1, 2, 4, 8)
HALVES = (1 / 2, 3 / 4, 7 / 8)
"""Half of the nodes get more bits than the base, a quarter at least two steps more, an eighth three: 2.5 bits on
average with base 1, if importance is spread evenly."""
QUARTERS = (3 / 4, 15 / 16, 63 / 64)
"""A quarter of the nodes get more bits than the base, a sixteenth two steps more, a 64th three: 1.44 bits on average
with base 1, about the 1.45 that SYLVIE's Table XII implies."""


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class Orchestrated(Bits):
    """Settings of the base bit-width: its set and the rule that moves it.

    The base starts at the smallest bit-width. After epoch t > δ it takes the next larger one if the loss falls more
    slowly than in epoch t - δ, and the next smaller one otherwise (Eq. 5).
    """

    steerable: ClassVar[tuple[str, ...]] = ("delta", "momentum")
    """Settings that may change while a run trains."""
    bit_widths: Annotated[tuple[int, ...], OneOf(_WIDTHS), Former("among"), Former("widths")] = _WIDTHS
    """Bit-widths to choose from; the base is one of them, and nodes get the base or more bits."""
    delta: Period = 5
    """δ: epochs between the two rates that are compared. The paper suggests 5 for quality, 20 for speed."""
    momentum: Annotated[float, Range(0, 1, open_high=True)] = 0.9
    """λ of the running loss ``F_t = λ F_(t-1) + (1 - λ) L_t``, in [0, 1)."""
    formula: Annotated[str, OneOf(("text", "printed"))] = "text"
    """``text``: Eq. 5 as the paper explains it. ``printed``: with the opposite sign, as in its formula: more bits
    while the loss falls faster and faster, so that smooth training stays at the smallest bit-width."""
    thresholds: Annotated[tuple[float, ...], Range(0, 1)] = HALVES
    """Importance p in [0, 1], ascending, from which a node gets the first, second ... bit-width above the base; at
    least one per bit-width above the smallest. The paper has a mask but no thresholds (erratum SY-2)."""
    by_node: bool = True
    """True if important nodes get more bits; otherwise all nodes get the base, which changes with the epochs only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bit_widths", tuple(sorted(check_subset(_WIDTHS, self.bit_widths))))
        object.__setattr__(self, "thresholds", tuple(self.thresholds))
        check(self)
        if sorted(self.thresholds) != list(self.thresholds) or len(self.thresholds) < len(self.bit_widths) - 1:
            raise ValueError(
                f"thresholds must ascend and be {len(self.bit_widths) - 1} or more for bit-widths {self.bit_widths}, "
                f"got {self.thresholds}; for instance {HALVES[: len(self.bit_widths) - 1]}"
            )

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot have this policy, or an empty string."""
        if not self.by_node or system.exchange.ranks_nodes:
            return ""
        kind = type(system.exchange).__name__
        return f"important nodes get more bits, but exchange {kind} has no boundary nodes; set by_node=False"

    def build(self, worker: WorkerContext) -> OrchestratedWidths:
        """Build the policy of one worker, whose base the orchestrator moves."""
        return OrchestratedWidths(self, worker.ids, worker.importance)

    @property
    def choices(self) -> tuple[int, ...]:
        return self.bit_widths

    def widens(self, earlier: float, rate: float) -> bool:
        """Return True if Eq. 5 selects a larger base, False if a smaller one; ``AdaptivePipeline`` follows it too.

        Args:
            earlier: fall of the loss per second δ epochs ago, positive while it falls.
            rate: fall of the loss per second now. The paper prints the negatives of both (erratum SY-1).

        Example:
            >>> Orchestrated().widens(2.0, 1.0), Orchestrated(formula="printed").widens(2.0, 1.0)
            (True, False)
        """
        # Eq. 5 with both readings of its sign (erratum SY-1).
        return rate > earlier if self.formula == "printed" else rate < earlier

    def version(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.bit_widths[0]

    @property
    def descent_rule(self) -> Orchestrated:
        return self

    def predict(self, context: PredictionContext) -> PredictedWidths:
        """Predict the bit-widths for one base; by default for that to which the traced losses have moved it.

        If they are too few for a decision, it is the smallest one, with which training starts.

        Raises:
            ValueError: if the base is not among the bit-widths.
        """
        epoch, losses, base, reason = context.epoch or 0, context.losses, context.base, ""
        if base is None and len(losses) <= self.delta + 2:  # the first decision follows epoch δ + 1
            base, reason = self.bit_widths[0], ", where it starts; how the loss will move it is unknown"
        elif base is None:
            bases = replay_base(losses, self)
            base = bases[-1] if context.epoch is None else bases[min(epoch, len(bases) - 1)]
            reason = f", as decided about the losses of {len(losses)} traced epochs"
        if base not in self.bit_widths:
            raise ValueError(f"base must be one of the bit-widths {self.bit_widths}, got {base}")
        return PredictedWidths(
            widths=context.widths_of(_AtBase(self, base, context), epoch),
            epoch=epoch,
            base=base,
            assumes=(f"a base bit-width of {base}{reason}",),
        )


@dataclass(frozen=True)
class _AtBase(BitPolicy):
    """The policy at a fixed base."""

    settings: Orchestrated
    base: int
    context: PredictionContext

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def version(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        if not self.settings.by_node or self.base == self.settings.bit_widths[-1]:
            return self.base
        p, settings = self.context.importance(rows.ids), self.settings
        return by_importance(p, self.base, settings.bit_widths, settings.thresholds)


def by_importance(p: Tensor, base: int, bit_widths: tuple[int, ...], thresholds: tuple[float, ...] = HALVES) -> Tensor:
    """Return the bit-width of each node: the base, or more bits for nodes whose importance p reaches thresholds.

    A node whose p is at least the first i thresholds gets the i-th bit-width above the base, at most the largest. With
    ``HALVES`` the less important half gets the base, the next quarter the next bit-width.

    Differs: the paper names the candidates (base 1: 1, 2, 4, 8; base 8: 8 alone) but no thresholds.

    Args:
        p: importance in [0, 1], ``(n,)``.
        base: smallest bit-width to use.
        bit_widths: bit-widths, ascending.
        thresholds: ascending; a higher base has fewer candidates and ignores the last ones.

    Returns:
        uint8 ``(n,)``.

    Example:
        >>> p = torch.tensor([0.0, 0.4, 0.5, 0.7, 0.75, 0.9, 1.0])
        >>> by_importance(p, 1, (1, 2, 4, 8)).tolist(), by_importance(p, 8, (1, 2, 4, 8)).tolist()
        ([1, 1, 2, 2, 4, 8, 8], [8, 8, 8, 8, 8, 8, 8])
        >>> by_importance(p, 1, (1, 2, 4, 8), QUARTERS).tolist()
        [1, 1, 1, 1, 2, 2, 8]
    """
    candidates = [width for width in bit_widths if width >= base]
    edges = torch.tensor(thresholds[: len(candidates) - 1])  # (k - 1,)
    level = torch.bucketize(p.float(), edges.to(p.device), right=True)  # (n,), 0: the base
    return torch.tensor(candidates, dtype=torch.uint8, device=p.device)[level]  # (k,)[(n,)] -> (n,)


class OrchestratedWidths(BitPolicy):
    """Policy of one worker: current base and bit-widths by importance.

    Args:
        settings: the set of bit-widths and the rule that moves the base.
        ids: global ids of this worker's owned and halo nodes, int64 ``(n,)``.
        p: their importance, ``(n,)``.
    """

    def __init__(self, settings: Orchestrated, ids: Tensor, p: Tensor) -> None:
        self.settings, self.settings_version = settings, 0
        self.base = settings.bit_widths[0]
        self._steered = 0
        self._ids, order = ids.cpu().sort()  # sorted, for searchsorted
        self._p = p.cpu()[order]  # (n,), in the order of `_ids`
        # Weak keys: an entry is freed together with the message's id tensor.
        self._p_of: MutableMapping[Tensor, Tensor] = WeakTensorKeyDictionary()
        """Ids of a message, by identity -> their importance: all layers share the same few id tensors."""
        self._widths_of: MutableMapping[Tensor, dict[int, Tensor]] = WeakTensorKeyDictionary()
        """Ids of a message, by identity -> base -> bit-widths."""

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        watch = Watch.from_training(self.settings, training)
        return [watch, Orchestrator(self, watch, name=training.worker.named("base-width"))]

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def version(self, epoch: int) -> int:
        """Return a number for the current settings and base; equal settings and base have equal numbers."""
        return self._steered * len(_WIDTHS) + self.settings.bit_widths.index(self.base)

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        if not self.settings.by_node or self.base == self.settings.bit_widths[-1]:
            return self.base
        # The base returns to earlier values, so bit-widths are computed once per id tensor and base.
        widths_of_base = self._widths_of.setdefault(rows.ids, {})
        if self.base not in widths_of_base:
            p, settings = self._importance(rows.ids), self.settings
            widths_of_base[self.base] = by_importance(p, self.base, settings.bit_widths, settings.thresholds)
        return widths_of_base[self.base]

    def _importance(self, ids: Tensor) -> Tensor:
        if ids not in self._p_of:
            # Every row of a message is an owned or halo node of this worker, so its id is found: (n,) -> (n,).
            self._p_of[ids] = self._p[torch.searchsorted(self._ids, ids.cpu())].to(ids.device)
        return self._p_of[ids]

    def move(self, *, wider: bool) -> bool:
        """Take the next larger or smaller base; return False if there is none."""
        bit_widths = self.settings.bit_widths
        index = bit_widths.index(self.base) + (1 if wider else -1)
        if not 0 <= index < len(bit_widths):  # at the smallest or largest bit-width already
            return False
        self.base = bit_widths[index]
        return True

    def steer(self, settings: Orchestrated, *, version: int = 0) -> None:
        """Apply new settings; all workers must do so between the same two epochs."""
        self.settings, self.settings_version = settings, version
        self._steered += 1  # a new number of the policy, even with an equal base
        self._widths_of.clear()


class Orchestrator(Adaptive):
    """Callback that moves the base bit-width after each epoch, up or down by Eq. 5.

    Args:
        widths: policy with the base.
        watch: compares the rates of the loss; runs first in each epoch.
    """

    def __init__(self, widths: OrchestratedWidths, watch: Watch, *, name: str = "base-width") -> None:
        self.name = name
        self.widths = widths
        self.decisions: list[Entry] = []
        """Decisions that have not been read yet."""
        self._watch = watch

    def after_epoch(self, epoch: int, loss: float, shared: object) -> None:
        verdict = self._watch.verdict
        # The watch precedes this callback, so its verdict is that of this epoch.
        if verdict.rates is not None and self.widths.move(wider=verdict.careful):
            self.decisions.append(verdict.entry(epoch, f"base width {self.widths.base}"))

    def entries(self) -> Sequence[Entry]:
        unread_entries, self.decisions[:] = list(self.decisions), []
        return unread_entries

    def state(self) -> State:
        return State({"base": self.widths.base})

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.widths.base = facts["base"]

    def steer(self, settings: Orchestrated, *, version: int) -> None:
        self.widths.steer(settings, version=version)


def replay_base(losses: Sequence[float], settings: Orchestrated, *, epoch_s: float = 1.0) -> list[int]:
    """Return the base of each epoch of a training with recorded losses, by the callbacks of a training.

    Args:
        losses: loss of each epoch; effects of rounding on it are ignored.
        settings: rule and bit-widths.
        epoch_s: seconds of every epoch; equal for all, so that the decisions depend on the losses only.

    Example:
        >>> levels_off = [0.9**epoch for epoch in range(60)]
        >>> [replay_base(levels_off, Orchestrated(formula=each))[-1] for each in ("text", "printed")]
        [8, 1]
    """
    no_nodes = torch.zeros(0, dtype=torch.int64)  # the base depends on losses only, not on nodes
    widths, watch = OrchestratedWidths(settings, no_nodes, no_nodes), Watch(settings)
    orchestrator, bases = Orchestrator(widths, watch), []
    for epoch, loss in enumerate(losses):
        bases.append(widths.base)
        watch.after_epoch(epoch, loss, {"epoch_s": epoch_s})
        orchestrator.after_epoch(epoch, loss, {})
    return bases
