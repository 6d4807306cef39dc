"""The axis ``cache``: which rows changed enough to be sent again; the others stay as their receiver has them.

The seat is between plan and codec. The sender knows what the *receiver* holds of each row, because both update it with
the same decoded message; so errors of rounding never add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from gnnqlab.axis_part import AxisPart, Running, complete, not_predicted
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
    "at_work",
    "needs_fading_errors",
    "needs_rows_of_this_epoch",
]


Held = dict[tuple[str, int], Tensor]
"""(``send`` or ``receive``, peer) -> what the receiver has of a route's rows, float32 ``(n, D)``."""


class Chooser(ABC):
    """Base class of what chooses the rows of the messages of one place, on one worker."""

    @property
    def epsilon(self) -> float | None:
        """Return the threshold by which rows are chosen, if there is one; the books of messages read it."""
        return None

    @property
    @abstractmethod
    def differences(self) -> bool:
        """Whether what travels is the difference to what the receiver has, or the row itself."""

    @abstractmethod
    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> Tensor | None:
        """Return the places of the rows that travel, ascending, int64; ``None``: all.

        Args:
            x: float32 ``(N, D)``.
            rows: which of its rows there are to send, int64 ``(n,)``.
            held: what the receiver has of them, ``(n, D)``.
        """

    def changes(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor | None, Tensor] | None:
        """Return the places and the differences ``(k, D)`` of the rows that travel, by one pass over the rows.

        ``None``: this chooser makes no such pass, and channels call :meth:`choose`.
        """
        return None


class BlockChooser(Protocol):
    """Says whether the block of one place travels, on the worker that owns it."""

    def refreshes(self, x: Tensor, held: Tensor | None, epoch: int) -> bool:
        """Return whether it travels, and take it for granted that it then does.

        Args:
            x: the block, float32 ``(n, D)``.
            held: what receivers have of it; ``None``: nothing.
            epoch: now.
        """


class RunningCache(Running, ABC):
    """Base class of what runs of a cache on one worker."""

    @abstractmethod
    def build(self) -> Any:
        """Return who chooses for one place, a :class:`Chooser`; ``None``: every row is sent, and nothing is held."""

    def held_at(self, place: ExchangeKey) -> Held | None:
        """Return where the channel of a place keeps rows that go into checkpoints; ``None``: in the channel alone."""
        return None

    def chooser_at(self, place: ExchangeKey) -> BlockChooser:
        """Return what decides about the block of a place; channels call it of caches that are ``of_blocks``."""
        raise NotImplementedError(f"{type(self).__name__} chooses rows, not blocks")

    def selection_at(self, place: ExchangeKey, plan: Plan) -> Any:
        """Return which rows a place sends, where no :class:`Chooser` decides it, else ``None``; `Wires` calls it.

        Returns:
            A :class:`gnnqlab.message.channels.selection.AllRowsOfRoute`, or one of a class derived from it.
        """
        return None


class Cache(AxisPart, RunningCache):
    """Base class of recipe parts of the axis; one that does not change while it trains runs itself."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("build",),)
    of_blocks: ClassVar[bool] = False
    """Whether whole blocks are held, which an exchange of blocks alone sends; exchanges read it."""

    @property
    def assumes(self) -> str:
        """Return the assumption of :meth:`share`, in words, or an empty text; forecasts read it."""
        return ""

    def at_work(self) -> RunningCache:
        """Return what runs on one worker."""
        return self

    def expected_share(self) -> float:
        """Return the share of rows that travel, where it is known before a training; forecasts read it."""
        raise not_predicted("cache", self, "expected_share")

    def share(self, direction: str, epoch: int | None) -> float:
        """Return the expected share of a direction's rows in an epoch, or, ``None``, in a usual one."""
        return float(self.expected_share())

    def biased(self, direction: str) -> str:
        """Return why messages are wrong on average, or an empty text; :mod:`gnnqlab.systems.unbiased` calls it."""
        return ""


def at_work(cache: Cache) -> RunningCache:
    """Return what runs of a cache on one worker: what its method ``at_work`` makes, or the cache itself.

    Example:
        >>> at_work(NoCache())
        NoCache()
    """
    complete(cache, Cache)
    running = cache.at_work()
    complete(running, RunningCache)
    return running


def needs_rows_of_this_epoch(system: Any) -> str:
    """Say why a system cannot hold rows: they are those of one epoch, and all of them."""
    if system.schedule.lag:
        return (
            "a row that stays home is as its receiver has it now, and this schedule's rows are those of an epoch "
            "before; choose schedule Synchronous() or Overlapped()"
        )
    if system.sampler.p < 1.0:
        return "a receiver holds all rows, while a sampler leaves some out; choose sampler AllRows()"
    return ""


def needs_fading_errors(system: Any, directions: tuple[str, ...] = ("forward", "backward")) -> str:
    """Say why what a message leaves of a row cannot come back in a later one: it would grow.

    A codec tells by ``min_contractive_bits`` the narrowest width at which a row loses more range to its message than is left.

    Args:
        directions: in which it comes back.
    """
    for direction in directions:
        codec, bits = (of_direction(part, direction) for part in (system.codec, system.bits))
        least, narrowest = codec.min_contractive_bits, min(bits.choices)
        if narrowest < least:
            return (
                f"what a message leaves of a row comes back in the next, and at {narrowest} bit {type(codec).__name__} "
                "may leave twice the row's range, so that it grows from epoch to epoch; choose bits of at least "
                f"{least}, or codec Rotated() or Linear()"
            )
    return ""


@dataclass(frozen=True)
class NoCache(Cache):
    """Every row is sent, whatever changed."""

    def build(self) -> None:
        return None

    def expected_share(self) -> float:
        """Return the share of rows that travel, as forecasts expect it: all."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Unchanged(Cache):
    """A row stays home while it has moved by no more than a share of what its receiver has of it.

    Row x travels where ``|x - h| > tolerance |h|`` in the Euclidean norm, h what the receiver holds; forward rows and
    gradients alike. With tolerance 0 rows that did not change at all stay home, which changes no result where messages
    are exact.

    Example:
        >>> import torch
        >>> held = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
        >>> moved = held + torch.tensor([[0.3], [0.3], [0.0]])
        >>> Unchanged(tolerance=0.1).build().choose(moved, torch.arange(3), held)
        tensor([1])
    """

    tolerance: float = 0.0
    """Share of its length by which a row may have moved, at least 0."""
    differences: bool = False
    """Whether the difference to what the receiver has travels in place of the row: smaller numbers, so finer steps of a
    quantizing codec; over float32 the sum of both is off by a rounding."""

    def __post_init__(self) -> None:
        if not self.tolerance >= 0.0:
            raise ValueError(f"tolerance must be at least 0, got {self.tolerance}")

    def build(self) -> _UnchangedRows:
        return _UnchangedRows(self.tolerance, self.differences)

    def refuses(self, system: Any) -> str:
        """Say why a system cannot hold rows."""
        return needs_rows_of_this_epoch(system) or (needs_fading_errors(system) if self.differences else "")


class _UnchangedRows(Chooser):
    def __init__(self, tolerance: float, differences: bool) -> None:
        self._tolerance, self._differences = tolerance, differences

    @property
    def differences(self) -> bool:
        return self._differences

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> Tensor | None:
        moved = (x.index_select(0, rows) - held).norm(dim=1)
        travels = ~(moved <= self._tolerance * held.norm(dim=1))  # a row that is not finite travels, and is refused
        return travels.nonzero().flatten()
