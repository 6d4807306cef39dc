"""The axis ``cache``: skip rows that changed little; their receiver reuses its copy.

A cache works between plan and codec. The sender stores a replica of the *receiver's* copy of each row; both are updated
with the same decoded message, so rounding errors never accumulate.

Letters: N rows of this worker, n rows of a route, k of them sent, D columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from gnnqlab.axis_part import AxisPart, Running, not_predicted
from gnnqlab.message.direction import of_direction
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.partition.plan import Plan

__all__ = [
    "BlockChooser",
    "Cache",
    "Chooser",
    "Held",
    "NoCache",
    "RunningCache",
    "Unchanged",
    "needs_fading_errors",
    "needs_rows_of_this_epoch",
]


Held = dict[tuple[str, int], Tensor]
"""(``send`` or ``receive``, peer) -> the receiver's copy of a route's rows, float32 ``(n, D)``."""


class Chooser(ABC):
    """Base class of components that select the rows to send, on one worker, for one exchange key."""

    @property
    def epsilon(self) -> float | None:
        """Selection threshold, if there is one; recorded with the messages."""
        return None

    @property
    @abstractmethod
    def differences(self) -> bool:
        """True to send differences to the receiver's copy, False to send the rows themselves."""

    @abstractmethod
    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> Tensor | None:
        """Return the positions of the rows to send, ascending, int64; ``None``: all.

        Args:
            x: float32 ``(N, D)``.
            rows: indices of the candidate rows in ``x``, int64 ``(n,)``.
            held: the receiver's copy of them, ``(n, D)``.
        """

    def changes(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor | None, Tensor] | None:
        """Return the positions and the differences ``(k, D)`` of the rows to send, in one pass over the rows.

        ``None``: not supported; channels then call :meth:`choose`.
        """
        return None


class BlockChooser(Protocol):
    """Interface that decides, on the owner of a block, in which epochs the block is sent."""

    def refreshes(self, x: Tensor, held: Tensor | None, epoch: int) -> bool:
        """Return True if the block must be sent now, and record that it is.

        Args:
            x: block, float32 ``(n, D)``.
            held: copy that receivers have; ``None``: none yet.
            epoch: current epoch.
        """


class RunningCache(Running, ABC):
    """Base class of the run-time state of a cache on one worker."""

    @abstractmethod
    def build(self) -> Any:
        """Create the :class:`Chooser` of one exchange key; ``None``: every row is sent and no copy is stored."""

    def held_at(self, place: ExchangeKey) -> Held | None:
        """Return the storage of a key's rows that its callbacks save in checkpoints.

        ``None``, the default: :func:`gnnqlab.message.caches.row_cache_state.at_work` stores and saves them.
        """
        return None

    def chooser_at(self, place: ExchangeKey) -> BlockChooser:
        """Return the chooser of a key's block; called for caches with ``of_blocks``."""
        raise NotImplementedError(f"{type(self).__name__} selects rows, not blocks")

    def selection_at(self, place: ExchangeKey, plan: Plan) -> Any:
        """Return a selection of the cache's own in place of a :class:`Chooser`, else ``None``.

        `ChannelFactory` calls it.

        Returns:
            An instance of :class:`gnnqlab.message.channels.selection.AllRowsOfRoute` or of a subclass.
        """
        return None


class Cache(AxisPart, RunningCache):
    """Base class of the parts of this axis; a part without run-time state is its own :class:`RunningCache`."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("build",),)
    of_blocks: ClassVar[bool] = False
    """True if the cache skips whole blocks, which only a broadcast exchange sends; read by exchanges."""

    @property
    def assumes(self) -> str:
        """Assumption of :meth:`share`, as text, or an empty string; read by forecasts."""
        return ""

    def at_work(self) -> RunningCache:
        """Create the run-time state of one worker."""
        return self

    def expected_share(self) -> float:
        """Return the share of rows that are sent, if known before training; forecasts call it."""
        raise not_predicted("cache", self, "expected_share")

    def share(self, direction: str, epoch: int | None) -> float:
        """Return the expected share of rows sent in one direction in an epoch; ``None``: in a typical epoch."""
        return float(self.expected_share())

    def biased(self, direction: str) -> str:
        """Return the reason why messages are biased, or an empty string; :mod:`gnnqlab.systems.unbiased` calls it."""
        return ""


def needs_rows_of_this_epoch(system: Any) -> str:
    """Return the reason why a system cannot cache rows, or an empty string; a cache needs all rows of this epoch."""
    if system.schedule.lag:
        return (
            "a cache needs the rows of the current epoch, but this schedule uses those of an earlier one; choose "
            "schedule Synchronous() or Overlapped()"
        )
    if system.sampler.p < 1.0:
        return "a cache stores every row at its receiver, but this sampler omits some; choose sampler AllRows()"
    return ""


def needs_fading_errors(system: Any, directions: tuple[str, ...] = ("forward", "backward")) -> str:
    """Return the reason why errors of a message cannot be sent with the next one, or an empty string.

    Below the codec's bit-width ``min_contractive_bits`` the errors would grow from epoch to epoch.

    Args:
        directions: directions in which errors are sent.
    """
    for direction in directions:
        codec, bits = (of_direction(part, direction) for part in (system.codec, system.bits))
        limit, min_bits = codec.min_contractive_bits, min(bits.choices)  # the policy may choose its smallest bit-width
        if min_bits < limit:
            return (
                f"each message includes the error of the one before, and at {min_bits} bit {type(codec).__name__} has "
                "errors of up to twice the row's range, which grow from epoch to epoch; choose bits of at least "
                f"{limit}, or codec Rotated() or Linear()"
            )
    return ""


@dataclass(frozen=True)
class NoCache(Cache):
    """Send every row in every epoch."""

    def build(self) -> None:
        return None

    def expected_share(self) -> float:
        """Return the share of rows that are sent: 1."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Unchanged(Cache):
    """Skip rows that changed by no more than a relative tolerance since they were last sent.

    Row x is sent if ``|x - h| > tolerance |h|`` in the Euclidean norm, h the receiver's copy, for embeddings and
    gradients. With tolerance 0 only unchanged rows are skipped, which changes no result if messages are float32.

    Example:
        >>> import torch
        >>> held = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
        >>> moved = held + torch.tensor([[0.3], [0.3], [0.0]])
        >>> Unchanged(tolerance=0.1).build().choose(moved, torch.arange(3), held)
        tensor([1])
    """

    tolerance: float = 0.0
    """Largest skipped change, as a share of the norm of the receiver's copy, at least 0."""
    differences: bool = False
    """True sends the difference to the receiver's copy in place of the row: smaller values, so smaller quantization
    steps; in float32 the sum at the receiver has a rounding error."""

    def __post_init__(self) -> None:
        if not self.tolerance >= 0.0:
            raise ValueError(f"tolerance must be at least 0, got {self.tolerance}")

    def build(self) -> _UnchangedRows:
        return _UnchangedRows(self.tolerance, self.differences)

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this cache, or an empty string."""
        return needs_rows_of_this_epoch(system) or (needs_fading_errors(system) if self.differences else "")


class _UnchangedRows(Chooser):
    def __init__(self, tolerance: float, differences: bool) -> None:
        self._tolerance, self._differences = tolerance, differences

    @property
    def differences(self) -> bool:
        return self._differences

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> Tensor | None:
        change = (x.index_select(0, rows) - held).norm(dim=1)  # (n, D) -> (n,)
        # Negated, so that a row with NaN is sent, and then refused by the codec.
        is_sent = ~(change <= self._tolerance * held.norm(dim=1))  # (n,) bool
        return is_sent.nonzero().flatten()  # (n,) -> (k,) int64, ascending
