"""The axis ``bits``: who chooses each row's bit-width.

Sender and receiver ask the same policy about the same :class:`Rows` and get the same answer, so no width
ever travels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, Follower, Training
from gnnqlab.axis_part import AxisPart, Running, complete, not_predicted
from gnnqlab.bits.policy_preview import PolicyPreview, PreviewedWidths
from gnnqlab.kernels.noise import stream, uniform16
from gnnqlab.settings import OneOf, Option, Range, check
from gnnqlab.worker_context import WorkerContext

__all__ = [
    "USUAL", "WIDTHS", "BitPolicy", "Bits", "Fixed", "Period", "Rows", "Steered", "UniformRandom", "Widths", "in_force",
    "check_subset",
]  # fmt: skip

WIDTHS = (1, 2, 3, 4, 8, 16, 32)
"""Bit-widths of a row; 32 is float32 as it stands. A codec says which of them it writes."""
USUAL = (1, 2, 4, 8, 16, 32)
"""Those that codes of whole parts of a byte have: all but 3 bits."""
Widths = Annotated[tuple[int, ...], OneOf(WIDTHS), Option("widths")]
"""Type of a setting that holds several."""
Period = Annotated[int, Range(1, unit="epoch")]
"""Type of a setting that counts epochs."""
_ROUNDS = 2**32
"""More rounds than one policy has epochs, so that a round after a change is never one from before it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of one message: from one sender to one receiver, at one layer, in one direction."""

    layer: int
    direction: str
    """``forward`` (embeddings) or ``backward`` (their gradients)."""
    sender: int
    receiver: int
    ids: Tensor
    """Global node ids in wire order, int64 ``(n,)``."""
    seed: int
    round: int = 0
    """Which exchange of the layer and direction, from 0."""


def check_subset(known: Sequence[int], among: Any, *, to: str = "choose") -> tuple[int, ...]:
    """Return the widths that a policy was told to choose from, or draw from.

    Raises:
        TypeError: if they are not several whole numbers.
        ValueError: if there are none, or one is not known.

    Example:
        >>> check_subset((2, 4, 8), [8, 2])
        (8, 2)
    """
    if isinstance(among, str) or not isinstance(among, Iterable):
        raise TypeError(f"widths to {to} from must be several, as {tuple(known)}, got {among!r}")
    widths = tuple(among)
    if not widths or not all(isinstance(each, Integral | float) and each in known for each in widths):
        raise ValueError(f"widths to {to} from must be among {tuple(known)}, got {widths}")
    if not all(isinstance(each, Integral) and not isinstance(each, bool) for each in widths):
        raise TypeError(f"widths to {to} from must be whole numbers, got {widths}")
    return widths


class BitPolicy(Running, ABC):
    """Base class of what chooses the width of every row on one worker, equal on both sides of a message."""

    @property
    def by_settings(self) -> bool:
        """Return True if widths follow from settings and epoch alone, so that another process can repeat them."""
        return False

    @property
    @abstractmethod
    def choices(self) -> tuple[int, ...]:
        """Every width that may be chosen, so that a system can be checked when it is made."""

    @abstractmethod
    def round(self, epoch: int) -> int:
        """Return which assignment is in force: widths change only when this number does."""

    @abstractmethod
    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        """Return one width for all rows, or a uint8 tensor ``(n,)``."""

    def require_points(self) -> None:
        """Refuse points of a training at which no rows were sent; ablations call it after a run."""


class Bits(AxisPart, BitPolicy):
    """Base class of recipe parts of the axis; its own widths are those that training begins with."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("choices", "round", "widths"),)

    @property
    def needs_every_row(self) -> str:
        """Return why a sampler cannot leave rows out, or an empty text; ``System`` reads it."""
        return ""

    @property
    def weighs_rows(self) -> bool:
        """Return True if widths follow from the variance that the codec has of a row; ``System`` and caches read it."""
        return False

    @property
    def of_halo_rows(self) -> bool:
        """Return True if widths are chosen for halo rows alone; exchanges of other rows read it."""
        return False

    @property
    def times_links(self) -> bool:
        """Return True if links are timed with messages of ``start`` bits; the forecast of memory reads it."""
        return False

    @property
    def start(self) -> int:
        """Return the width of rows before a first assignment."""
        return max(self.choices)

    def build(self, worker: WorkerContext) -> BitPolicy:
        """Return the policy in force on one worker; by default the part, with settings that can be replaced."""
        return Steered(self)

    def foresee(self, outlook: PolicyPreview) -> PreviewedWidths:
        """Return the widths of an epoch as they can be known before it; forecasts call it."""
        raise not_predicted("bits", self, "foresee")


def in_force(part: Bits, worker: WorkerContext) -> BitPolicy:
    """Return the policy in force on one worker: what a part builds there.

    Example:
        >>> worker = WorkerContext(rank=0, workers=1, seed=0, ids=torch.arange(2), importance=torch.zeros(2))
        >>> in_force(Fixed(bits=4), worker).choices
        (4,)
    """
    complete(part, Bits)
    policy = part.build(worker)
    complete(policy, BitPolicy)
    return policy


class Steered(BitPolicy):
    """A policy of settings alone (``Fixed``, ``UniformRandom``) in a place where it can be replaced.

    All workers do so between the same two epochs.

    Example:
        >>> policy = Steered(Fixed(bits=8))
        >>> before = policy.round(epoch=3)
        >>> policy.steer(Fixed(bits=2))
        >>> policy.choices, policy.round(epoch=3) == before
        ((2,), False)
    """

    by_settings: ClassVar[bool] = True

    def __init__(self, settings: BitPolicy) -> None:
        self.settings = settings
        self.version = 0
        """Version of the settings; 0: those of the launch."""
        self._changes = 0

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [Follower(training.worker.named("bits"), self)]

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def round(self, epoch: int) -> int:
        return self._changes * _ROUNDS + self.settings.round(epoch)

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        return self.settings.widths(rows, epoch)

    def steer(self, settings: BitPolicy, *, version: int = 0) -> None:
        """Put other settings in force; both ends of every message must do so between the same two epochs."""
        self.settings, self.version = settings, version
        self._changes += 1


@dataclass(frozen=True, kw_only=True)
class Fixed(Bits):
    """Every row in the same number of bits; 32 means float32."""

    steerable: ClassVar[tuple[str, ...]] = ("bits",)
    """Settings that may change while a run trains."""
    bits: Annotated[int, OneOf(WIDTHS)] = 32
    """Bits per element: 1, 2, 4, 8, 16 or 32 with a stochastic codec, 3 too with a rotated one, 32 with float32
    messages."""

    def __post_init__(self) -> None:
        check(self)

    def build(self, worker: WorkerContext) -> Steered:
        """Return the policy in force on one worker."""
        return Steered(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return (self.bits,)

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.bits

    def foresee(self, outlook: PolicyPreview) -> PreviewedWidths:
        """Return the one width there is."""
        epoch = outlook.epoch or 0
        return PreviewedWidths(widths=outlook.ask(self, epoch), epoch=epoch)


@dataclass(frozen=True, kw_only=True)
class UniformRandom(Bits):
    """Each row's width drawn uniformly from a set, anew every period (AdaQP Table 6, "Uniform").

    The draw is a function of (seed, round, layer, direction, sender, global node id), so both sides make it.
    """

    steerable: ClassVar[tuple[str, ...]] = ("among", "period")
    """Settings that may change while a run trains."""
    among: Widths = (2, 4, 8)
    """Widths to draw from."""
    period: Period = 50
    """Epochs between draws."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "among", check_subset(WIDTHS, self.among, to="draw"))
        check(self)

    def build(self, worker: WorkerContext) -> Steered:
        """Return the policy in force on one worker."""
        return Steered(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return self.among

    def round(self, epoch: int) -> int:
        return epoch // self.period

    def widths(self, rows: Rows, epoch: int) -> Tensor:
        backward = rows.direction == "backward"
        key = stream("bits", 2 * rows.layer + backward, rows.sender + 1 if backward else 0, rows.round)
        draw = uniform16(rows.ids, 1, seed=rows.seed, epoch=self.round(epoch), stream=key).flatten()
        table = torch.tensor(self.among, dtype=torch.uint8, device=rows.ids.device)
        return table[(draw.long() * len(self.among)) >> 16]

    def foresee(self, outlook: PolicyPreview) -> PreviewedWidths:
        """Return the draw of an epoch, which is known beforehand; by default the first one."""
        epoch = outlook.epoch or 0
        assumes = ("the widths drawn for epoch 0",) if outlook.epoch is None else ()
        return PreviewedWidths(widths=outlook.ask(self, epoch), epoch=epoch, assumes=assumes)
