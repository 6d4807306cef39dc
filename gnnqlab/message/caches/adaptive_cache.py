"""CDFGNN's adaptive cache: a row travels once it has moved by more than ε, and ε follows the accuracy (section 4).

Rows stay home on any exchange that sends rows: with a halo z is the row of a boundary node as it is sent (for GAT, too:
the projected row, not its attention), δ the gradient of a halo row on its way home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import Tensor

from gnnqlab.adaptive import DECISIONS, Adaptive, Entry, Sharing, State, Training
from gnnqlab.kernels.rowwise.row_change import row_changes, row_moves
from gnnqlab.message.caches.cache import Cache, Chooser, needs_fading_errors, needs_rows_of_this_epoch
from gnnqlab.message.caches.row_cache_state import RowCacheState
from gnnqlab.settings import OneOf, Range, check
from gnnqlab.worker_context import WorkerContext

__all__ = ["AdaptiveCache", "CacheAtWork", "Threshold"]

RULES = ("text", "equation", "fixed")


@dataclass(frozen=True, kw_only=True)
class AdaptiveCache(Cache):
    """A row stays home while it has moved by no more than a share ε of its size, and ε moves with the accuracy.

    Algorithm 2: row z travels where ``max|z - h| > ε max|z|``, h what its *receiver* holds; gradients alike. What
    travels is the difference z - h, and both ends add its decoded value to h, so errors of rounding never add up.
    After an epoch (Eq. 6, λ1 > 1 > λ2)

        relaxed:   ε = min(λ1 ε, ε + ξ)    tightened: ε = max(λ2 ε, ε - ξ)

    ``text`` relaxes where the training accuracy is above its moving mean by more than μ2, and tightens where it is
    below it by more than μ1, as the paper explains it, and keeps ε within [ν2, ν1]. ``equation`` is Eq. 6 as printed,
    the other way round (erratum CD-3). The mean is that of the epochs before (Eq. 7), and the accuracy the training
    pass's own, dropout and all: its counts travel with the weight gradients, and nothing is evaluated for them.

    ``text`` relaxes while accuracy rises, so through most of a training, and a graph that trains slowly pays for it:
    ``amazon_computers`` lost 5.5 points in 200 epochs, by ``equation`` none, with 1.4 times the bytes and the same
    seconds (``gnnqlab bench cdfgnn``).

    Differs: the paper scatters whole totals while it quantizes differences (erratum CD-4); here both are differences.
    It names no first ε and no first mean; the B of its messages is the axis ``bits``. With ``Assigned`` widths the
    variance is that of the differences last sent, while its seconds count rows that stay home too.

    Example:
        >>> cache = AdaptiveCache()
        >>> [round(cache.next_epsilon(0.05, accuracy=accuracy, mean=0.7), 6) for accuracy in (0.8, 0.6, 0.7)]
        [0.0525, 0.045, 0.05]
    """

    assumes: ClassVar[str] = "every row travels: what stays home is known in training alone"
    """What forecasts have to assume."""
    steerable: ClassVar[tuple[str, ...]] = ("epsilon", "rule")
    """Settings that may change while a run trains."""
    epsilon: Annotated[float, Range(0, 1)] = 0.05
    """First ε, in [0, 1]; with rule ``fixed`` that of all epochs. Not given in the paper."""
    rule: Annotated[str, OneOf(RULES)] = "text"
    """``text``, ``equation``, or ``fixed``: ε stays."""
    first_mean: Annotated[float, Range(0, 1)] = 0.0
    """Accuracy before the first epoch, in [0, 1]. Not given in the paper."""
    memory: Annotated[float, Range(0, 1, open_high=True)] = 0.8
    """Share of the mean that stays after an epoch (Eq. 7), in [0, 1)."""
    mu1: Annotated[float, Range(0, 1)] = 0.001
    """How far below its mean the accuracy has to be to count as a loss."""
    mu2: Annotated[float, Range(0, 1)] = 0.02
    """How far above its mean the accuracy has to be to count as a gain."""
    nu1: Annotated[float, Range(0, 1)] = 0.3
    """Largest ε that is moved to."""
    nu2: Annotated[float, Range(0, 1)] = 0.001
    """Smallest ε that is moved to."""
    xi: Annotated[float, Range(0, 1, open_low=True)] = 0.01
    """Most by which ε moves after an epoch; the prose says 0.02, the list of defaults 0.01."""
    lambda1: Annotated[float, Range(1)] = 1.05
    """Factor by which ε grows, at least 1."""
    lambda2: Annotated[float, Range(0, 1)] = 0.9
    """Factor by which ε shrinks, at most 1."""

    def __post_init__(self) -> None:
        check(self)
        if self.nu2 > self.nu1:
            raise ValueError(f"nu2, the smallest epsilon, must not be above nu1, got {self.nu2} and {self.nu1}")

    def next_epsilon(self, epsilon: float, *, accuracy: float, mean: float) -> float:
        """Return ε of the next epoch (Eq. 6, in the reading of ``rule``).

        Args:
            epsilon: ε of this one.
            accuracy: of its training pass, in [0, 1].
            mean: moving mean of the epochs before.
        """
        gained, lost = accuracy > mean + self.mu2, accuracy < mean - self.mu1
        relaxes, tightens = (gained, lost) if self.rule == "text" else (lost, gained)
        if self.rule == "fixed":
            return epsilon
        if relaxes and epsilon < self.nu1:
            relaxed = min(self.lambda1 * epsilon, epsilon + self.xi)
            return min(relaxed, self.nu1) if self.rule == "text" else relaxed
        if tightens and epsilon > self.nu2:
            tightened = max(self.lambda2 * epsilon, epsilon - self.xi)
            return max(tightened, self.nu2) if self.rule == "text" else tightened
        return epsilon

    def expected_share(self) -> float:
        """Return the share of rows that travel, as forecasts expect it: all, see ``assumes``."""
        return 1.0

    def at_work(self) -> CacheAtWork:
        """Return what runs on one worker: its choosers share one ε."""
        return CacheAtWork(self)

    def build(self) -> _MovedRows:
        """Return who chooses, by the first ε."""
        return CacheAtWork(self).build()

    def refuses(self, system: Any) -> str:
        """Say why a system cannot hold rows."""
        return needs_rows_of_this_epoch(system) or needs_fading_errors(system)


class CacheAtWork(RowCacheState):
    """The cache of one worker: every chooser asks it for ε."""

    def __init__(self, settings: AdaptiveCache) -> None:
        super().__init__(alike=True)
        self.settings, self.epsilon = settings, settings.epsilon
        self._room: Tensor | None = None

    def build(self) -> _MovedRows:
        return _MovedRows(self)

    def room(self, held: Tensor) -> Tensor:
        """Return memory for the differences of one message; the next message of this worker takes it again."""
        if self._room is None or self._room.numel() < held.numel() or self._room.device != held.device:
            self._room = held.new_empty(held.numel())
        return self._room

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [Threshold(self, training.worker)]


class _MovedRows(Chooser):
    differences: ClassVar[bool] = True

    def __init__(self, cache: CacheAtWork) -> None:
        self._cache = cache

    @property
    def epsilon(self) -> float:
        return self._cache.epsilon

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> Tensor:
        return row_moves(x, rows, held, self._cache.epsilon)

    def changes(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
        return row_changes(x, rows, held, self._cache.epsilon, self._cache.room(held))


class Threshold(Adaptive):
    """Moves ε after an epoch, on all workers alike, and keeps what receivers hold over a checkpoint.

    Without those rows a training that was stopped would send all of them anew and go on another way: with ε > 0 what
    receivers hold is not what there is.

    Args:
        cache: whose.
        seat: of this worker; by default of the only one.
    """

    name = "epsilon"
    wants: Mapping[str, Sharing] = {"right": "sum", "rows": "sum"}
    wants_accuracy = True

    def __init__(self, cache: CacheAtWork, worker: WorkerContext | None = None) -> None:
        self.cache, self.worker, self.mean = cache, worker, cache.settings.first_mean
        self._counts = (0.0, 0.0)
        self._decided: list[Entry] = []

    def counted(self, right: float, rows: float) -> None:
        self._counts = right, rows

    def says(self, epoch_s: float | None) -> Mapping[str, float | None]:
        return dict(zip(("right", "rows"), self._counts))

    def after_epoch(self, epoch: int, loss: float, shared: Mapping[str, float | None]) -> None:
        right, rows = shared["right"], shared["rows"]
        assert right is not None and rows is not None
        accuracy, mean, before, settings = right / max(rows, 1.0), self.mean, self.cache.epsilon, self.cache.settings
        self.cache.epsilon = settings.next_epsilon(before, accuracy=accuracy, mean=mean)
        self.mean = settings.memory * mean + (1 - settings.memory) * accuracy
        if self.cache.epsilon != before:
            side = "above" if accuracy > mean else "below"
            why = f"training accuracy {accuracy:.4f} is {side} its moving mean {mean:.4f}"
            self._decide(epoch + 1, why, {"accuracy": accuracy, "mean_accuracy": mean})

    def _decide(self, epoch: int, why: str, facts: dict[str, float]) -> None:
        epsilon = self.cache.epsilon
        line = {"epoch": epoch, "what": f"epsilon {epsilon:.4g}", "why": why, "epsilon": epsilon}
        self._decided.append((DECISIONS, {**line, **facts}))

    def entries(self) -> Sequence[Entry]:
        decided, self._decided[:] = list(self._decided), []
        return decided

    def state(self) -> State:
        facts = {"epsilon": self.cache.epsilon, "mean": self.mean}
        return State(facts, own=None if self.worker is None else self.cache.kept(self.worker))

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.cache.epsilon, self.mean = facts["epsilon"], facts["mean"]
        if self.worker is not None:
            self.cache.put_back(tensors, self.worker)

    def steer(self, settings: AdaptiveCache, *, version: int) -> None:
        """Put settings in force; a new rule goes on from where ε is, unless ε was named, or nothing else was."""
        old, self.cache.settings = self.cache.settings, settings
        if settings.epsilon != old.epsilon or settings == old:
            self.cache.epsilon = settings.epsilon
