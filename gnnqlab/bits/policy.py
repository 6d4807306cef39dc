"""The axis ``bits``: base class of policies that choose each row's bit-width, and the simple policies.

Sender and receiver evaluate the same policy for the same :class:`Rows`, so bit-widths need not be transmitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, Follower, Training
from gnnqlab.axis_part import AxisPart, RenamedMembers, Running, complete, not_predicted
from gnnqlab.bits.policy_prediction import PredictedWidths, PredictionContext
from gnnqlab.former_names import accepts_former_names
from gnnqlab.kernels.noise import stream, uniform16
from gnnqlab.settings import Former, OneOf, Range, check
from gnnqlab.worker_context import WorkerContext

if TYPE_CHECKING:
    from gnnqlab.bits.assigner.descent import Comparing

__all__ = [
    "USUAL", "WIDTHS", "BitPolicy", "Bits", "Fixed", "Period", "Rows", "Steered", "UniformRandom", "Widths", "in_force",
    "check_subset",
]  # fmt: skip

WIDTHS = (1, 2, 3, 4, 8, 16, 32)
"""Bit-widths of a row; 32 is unchanged float32. Each codec supports a subset of them."""
USUAL = (1, 2, 4, 8, 16, 32)
"""Bit-widths that divide a byte or fill whole bytes: all but 3 bits."""
Widths = Annotated[tuple[int, ...], OneOf(WIDTHS), Former("among"), Former("widths")]
"""Type of a setting that holds several bit-widths."""
Period = Annotated[int, Range(1, unit="epoch")]
"""Type of a setting that counts epochs."""
_ROUNDS = 2**32
"""Offset per change of settings, larger than any epoch, so that a number after a change never equals an earlier one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows of one message: one sender, one receiver, one layer, one direction."""

    layer: int
    direction: str
    """``forward`` (embeddings) or ``backward`` (their gradients)."""
    sender: int
    receiver: int
    ids: Tensor
    """Global node ids in wire order, int64 ``(n,)``."""
    seed: int
    round: int = 0
    """Number of the exchange of this layer and direction, from 0."""


def check_subset(known: Sequence[int], chosen: Any, *, to: str = "choose") -> tuple[int, ...]:
    """Check the set of bit-widths that a policy chooses or draws from, and return it as a tuple.

    Raises:
        TypeError: if it is not a sequence of whole numbers.
        ValueError: if it is empty, or a bit-width is not known.

    Example:
        >>> check_subset((2, 4, 8), [8, 2])
        (8, 2)
    """
    # A text is iterable too, but its characters are not bit-widths.
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
        raise TypeError(f"bit-widths to {to} from must be several, as {tuple(known)}, got {chosen!r}")
    widths = tuple(chosen)
    # 8.0 and True equal known bit-widths: they pass this check, and raise the TypeError below.
    if not widths or not all(isinstance(each, Integral | float) and each in known for each in widths):
        raise ValueError(f"bit-widths to {to} from must be among {tuple(known)}, got {widths}")
    if not all(isinstance(each, Integral) and not isinstance(each, bool) for each in widths):
        raise TypeError(f"bit-widths to {to} from must be whole numbers, got {widths}")
    return widths


class BitPolicy(Running, RenamedMembers, ABC):
    """Base class of bit policies on one worker; sender and receiver of a message get the same bit-widths."""

    renamed: ClassVar[dict[str, str]] = {"round": "version"}

    @property
    def by_settings(self) -> bool:
        """True if bit-widths follow from settings and epoch alone, so that another process can reproduce them."""
        return False

    @property
    @abstractmethod
    def choices(self) -> tuple[int, ...]:
        """All bit-widths that may be chosen, so that a system can be checked when it is made."""

    @abstractmethod
    def version(self, epoch: int) -> int:
        """Return the number of the current assignment: bit-widths change only when this number does."""

    @abstractmethod
    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        """Return one bit-width for all rows, or a uint8 tensor ``(n,)``."""

    def require_points(self) -> None:
        """Refuse points of a training without messages; ablations call it after a run."""


class Bits(AxisPart, BitPolicy):
    """Base class of recipe parts of the axis; its own bit-widths are those at the start of a training."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("choices", "version", "widths"),)
    renamed: ClassVar[dict[str, str]] = {**BitPolicy.renamed, "foresee": "predict"}

    @property
    def needs_every_row(self) -> str:
        """Reason why a sampler cannot leave rows out, or an empty text; ``System`` reads it."""
        return ""

    @property
    def weighs_rows(self) -> bool:
        """True if bit-widths follow from the codec's variance of each row; ``System`` and caches read it."""
        return False

    @property
    def of_halo_rows(self) -> bool:
        """True if bit-widths are chosen for halo rows only; exchanges of other rows read it."""
        return False

    @property
    def times_links(self) -> bool:
        """True if links are timed with messages of ``start`` bits; the memory forecast reads it."""
        return False

    @property
    def descent_rule(self) -> Comparing | None:
        """Rule that compares descent rates, which adaptive schedules share; ``None`` if there is none."""
        return None

    @property
    def start(self) -> int:
        """Bit-width before the first assignment."""
        return max(self.choices)

    def build(self, worker: WorkerContext) -> BitPolicy:
        """Build the policy of one worker; by default the part itself, with settings that can be replaced."""
        return Steered(self)

    def predict(self, context: PredictionContext) -> PredictedWidths:
        """Predict the bit-widths of an epoch; forecasts call it."""
        raise not_predicted("bits", self, "predict")


def in_force(part: Bits, worker: WorkerContext) -> BitPolicy:
    """Build the policy of one worker from a recipe part, and check that it is complete.

    Example:
        >>> worker = WorkerContext(rank=0, workers=1, seed=0, ids=torch.arange(2), importance=torch.zeros(2))
        >>> in_force(Fixed(bits=4), worker).choices
        (4,)
    """
    complete(part, Bits)
    policy = part.build(worker)
    # A user's part may build an object of another class, which gets its own defaults.
    complete(policy, BitPolicy)
    return policy


class Steered(BitPolicy):
    """Holder of a policy that has settings only (``Fixed``, ``UniformRandom``), which can be replaced during a run.

    All workers replace it between the same two epochs.

    Example:
        >>> policy = Steered(Fixed(bits=8))
        >>> before = policy.version(epoch=3)
        >>> policy.steer(Fixed(bits=2))
        >>> policy.choices, policy.version(epoch=3) == before
        ((2,), False)
    """

    by_settings: ClassVar[bool] = True

    def __init__(self, settings: BitPolicy) -> None:
        self.settings = settings
        self.settings_version = 0
        """Version of the settings; 0: those at launch."""
        self._changes = 0

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [Follower(training.worker.named("bits"), self)]

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def version(self, epoch: int) -> int:
        return self._changes * _ROUNDS + self.settings.version(epoch)  # unique, as epochs are below _ROUNDS

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        return self.settings.widths(rows, epoch)

    def steer(self, settings: BitPolicy, *, version: int = 0) -> None:
        """Replace the settings; both ends of every message must do so between the same two epochs."""
        self.settings, self.settings_version = settings, version
        self._changes += 1


@dataclass(frozen=True, kw_only=True)
class Fixed(Bits):
    """The same bit-width for every row; 32 means float32."""

    steerable: ClassVar[tuple[str, ...]] = ("bits",)
    """Settings that may change while a run trains."""
    bits: Annotated[int, OneOf(WIDTHS)] = 32
    """Bits per element: 1, 2, 4, 8, 16 or 32 with a stochastic codec, also 3 with a rotated one, 32 with float32
    messages."""

    def __post_init__(self) -> None:
        check(self)

    def build(self, worker: WorkerContext) -> Steered:
        """Build the policy of one worker."""
        return Steered(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return (self.bits,)

    def version(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.bits

    def predict(self, context: PredictionContext) -> PredictedWidths:
        """Predict the one bit-width."""
        epoch = context.epoch or 0
        return PredictedWidths(widths=context.widths_of(self, epoch), epoch=epoch)


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class UniformRandom(Bits):
    """A bit-width per row drawn uniformly from a set, again in every period (AdaQP Table 6, "Uniform").

    The draw is a function of (seed, period number, layer, direction, round, sender, node id), so both ends repeat it.
    """

    steerable: ClassVar[tuple[str, ...]] = ("bit_widths", "period")
    """Settings that may change while a run trains."""
    bit_widths: Widths = (2, 4, 8)
    """Bit-widths to draw from."""
    period: Period = 50
    """Epochs between draws."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bit_widths", check_subset(WIDTHS, self.bit_widths, to="draw"))
        check(self)

    def build(self, worker: WorkerContext) -> Steered:
        """Build the policy of one worker."""
        return Steered(self)

    @property
    def choices(self) -> tuple[int, ...]:
        return self.bit_widths

    def version(self, epoch: int) -> int:
        return epoch // self.period

    def widths(self, rows: Rows, epoch: int) -> Tensor:
        is_backward = rows.direction == "backward"
        # Forward rows of a node have one sender, its owner; gradients of a halo node come from several workers.
        key = stream("bits", 2 * rows.layer + is_backward, rows.sender + 1 if is_backward else 0, rows.round)
        draw = uniform16(rows.ids, 1, seed=rows.seed, epoch=self.version(epoch), stream=key).flatten()  # (n,), 16 bits
        table = torch.tensor(self.bit_widths, dtype=torch.uint8, device=rows.ids.device)  # (k,)
        # Scale the 16-bit draw to an index in [0, len(among)) in integers, identical on CPU and GPU.
        return table[(draw.long() * len(self.bit_widths)) >> 16]  # (k,)[(n,)] -> uint8 (n,)

    def predict(self, context: PredictionContext) -> PredictedWidths:
        """Return the draw of an epoch, which follows from the seed; by default that of epoch 0."""
        epoch = context.epoch or 0
        assumes = ("the bit-widths drawn for epoch 0",) if context.epoch is None else ()
        return PredictedWidths(widths=context.widths_of(self, epoch), epoch=epoch, assumes=assumes)
