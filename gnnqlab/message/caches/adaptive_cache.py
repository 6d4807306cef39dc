"""CDFGNN's adaptive cache: skip rows that changed by at most a share ε, and adapt ε to the accuracy (section 4).

Works with any exchange that sends rows. With a halo, z is the embedding of a boundary node as it is sent (for GAT the
projected embedding, not its attention), and δ the gradient of a halo row, sent to its owner.

Letters: n rows of a route, k of them sent, D columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from torch import Tensor

from gnnqlab.adaptive import DECISIONS, Adaptive, Entry, Sharing, State, Training
from gnnqlab.kernels.rowwise.row_change import row_changes, row_moves
from gnnqlab.message.caches.cache import Cache, Chooser, needs_fading_errors, needs_rows_of_this_epoch
from gnnqlab.message.caches.cached_parts import ActiveNodes, ActiveTotals, CachedParts
from gnnqlab.message.caches.row_cache_state import RowCacheState
from gnnqlab.message.channels.selection import AllRowsOfRoute
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.partition.plan import Plan
from gnnqlab.settings import OneOf, Range, check
from gnnqlab.worker_context import WorkerContext

__all__ = ["AdaptiveCache", "CacheAtWork", "Threshold"]

RULES = ("text", "equation", "fixed")
TOTALS = ("active", "moved")


@dataclass(frozen=True, kw_only=True)
class AdaptiveCache(Cache):
    """Skip rows that changed by at most a share ε of their size; adapt ε to the training accuracy.

    Row z is sent if ``max|z - h| > ε max|z|``, h the *receiver's* copy; gradients likewise. The message is the
    difference z - h, and both ends add its decoded value to h, so rounding errors never accumulate. Under a vertex-cut
    Algorithm 2 tests partial sums: each copy of a node, the master too, caches the partial sum that it last used, the
    total is the sum of the cached ones, and it is sent to all mirrors if any of them was updated (``totals="active"``).
    After an epoch (Eq. 6, λ1 > 1 > λ2)

        relaxed:   ε = min(λ1 ε, ε + ξ)    tightened: ε = max(λ2 ε, ε - ξ)

    ``text`` relaxes if the training accuracy exceeds its moving mean by more than μ2, and tightens if it is below the
    mean by more than μ1, as the paper explains in prose, with ε limited to [ν2, ν1]. ``equation`` is Eq. 6 as printed,
    with the opposite sign (erratum CD-3). The mean is over the previous epochs (Eq. 7), and the accuracy is that of the
    training pass, with dropout: its counts are all-reduced with the weight gradients, without a separate evaluation.

    ``text`` relaxes while accuracy rises, that is during most of a training, which costs accuracy on graphs that train
    slowly: ``amazon_computers`` lost 5.5 points in 200 epochs, and none with ``equation``, at 1.4 times the bytes and
    equal time (``gnnqlab bench cdfgnn``).

    Differs: ``totals="moved"`` adds the master's present partial sum, and sends a total if the total itself moved
    (erratum CD-8); attention, whose parts are no sums, always does. The paper scatters whole totals while it quantizes
    differences (erratum CD-4); here both are differences. It gives no initial ε or mean; the B of its messages is the
    axis ``bits``. With ``Assigned`` bit-widths the variance is that of the differences last sent, while the predicted
    seconds include skipped rows.

    Example:
        >>> cache = AdaptiveCache()
        >>> [round(cache.next_epsilon(0.05, accuracy=accuracy, mean=0.7), 6) for accuracy in (0.8, 0.6, 0.7)]
        [0.0525, 0.045, 0.05]
    """

    assumes: ClassVar[str] = "every row is sent: the skipped rows are only known in training"
    """Assumption of forecasts."""
    steerable: ClassVar[tuple[str, ...]] = ("epsilon", "rule")
    """Settings that may change during training."""
    former_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"totals": "moved"})
    """Until 0.9.0 there were only totals that moved themselves."""
    epsilon: Annotated[float, Range(0, 1)] = 0.05
    """Initial ε, in [0, 1]; with rule ``fixed`` that of all epochs. Not given in the paper."""
    rule: Annotated[str, OneOf(RULES)] = "text"
    """``text``, ``equation``, or ``fixed`` (constant ε)."""
    totals: Annotated[str, OneOf(TOTALS)] = "active"
    """Totals of a vertex-cut to send: of ``active`` nodes, a partial sum of which was updated (Algorithm 2), or totals
    that ``moved`` themselves. No effect under an edge-cut."""
    first_mean: Annotated[float, Range(0, 1)] = 0.0
    """Mean accuracy before the first epoch, in [0, 1]. Not given in the paper."""
    memory: Annotated[float, Range(0, 1, open_high=True)] = 0.8
    """Weight of the previous mean in the moving mean (Eq. 7), in [0, 1)."""
    mu1: Annotated[float, Range(0, 1)] = 0.001
    """Minimum decrease of the accuracy below its mean that counts as a loss."""
    mu2: Annotated[float, Range(0, 1)] = 0.02
    """Minimum increase of the accuracy above its mean that counts as a gain."""
    nu1: Annotated[float, Range(0, 1)] = 0.3
    """Upper limit for relaxing ε."""
    nu2: Annotated[float, Range(0, 1)] = 0.001
    """Lower limit for tightening ε."""
    xi: Annotated[float, Range(0, 1, open_low=True)] = 0.01
    """Maximum change of ε per epoch; 0.02 in the paper's prose, 0.01 in its list of defaults."""
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
            epsilon: ε of this epoch.
            accuracy: accuracy of its training pass, in [0, 1].
            mean: moving mean of the previous epochs.
        """
        is_gain, is_loss = accuracy > mean + self.mu2, accuracy < mean - self.mu1
        # The prose relaxes after a gain; the printed equation relaxes after a loss.
        relaxes, tightens = (is_gain, is_loss) if self.rule == "text" else (is_loss, is_gain)
        if self.rule == "fixed":
            return epsilon
        # Eq. 6: of a factor and an addend the smaller change, so that ε moves by at most ξ per epoch.
        if relaxes and epsilon < self.nu1:
            value = min(self.lambda1 * epsilon, epsilon + self.xi)
            return min(value, self.nu1) if self.rule == "text" else value  # as printed, ν1 bounds only the old ε
        if tightens and epsilon > self.nu2:
            tightened_epsilon = max(self.lambda2 * epsilon, epsilon - self.xi)
            return max(tightened_epsilon, self.nu2) if self.rule == "text" else tightened_epsilon
        return epsilon

    def expected_share(self) -> float:
        """Return the share of rows that forecasts assume to be sent: 1, see ``assumes``."""
        return 1.0

    def at_work(self) -> CacheAtWork:
        """Create the run-time state of one worker; its choosers share one ε."""
        return CacheAtWork(self)

    def build(self) -> _MovedRows:
        """Create a chooser with the initial ε."""
        return CacheAtWork(self).build()

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this cache, or an empty string."""
        return needs_rows_of_this_epoch(system) or needs_fading_errors(system)


class CacheAtWork(RowCacheState):
    """Run-time state of one worker: the current ε, and copies of the rows that it sends and receives."""

    def __init__(self, settings: AdaptiveCache) -> None:
        super().__init__(both_ends=True)
        self.settings, self.epsilon = settings, settings.epsilon
        self._room: Tensor | None = None
        self._active: dict[ExchangeKey, ActiveNodes] = {}

    def build(self) -> _MovedRows:
        return _MovedRows(self)

    def selection_at(self, place: ExchangeKey, plan: Plan) -> AllRowsOfRoute | None:
        """Return the selection of Algorithm 2 for partial sums and their totals; ``None`` for other rows."""
        if self.settings.totals != "active":
            return None
        layer, direction, round_ = place
        if plan.accumulate and plan.parts:
            active = self._active[place] = ActiveNodes()
            return CachedParts(self.build(), self.held_at(place), active, plan.rank)
        # Totals follow the partial sums that form them: those of the round before.
        gathered = self._active.get(ExchangeKey(layer, direction, round_ - 1))
        return None if gathered is None else ActiveTotals(self.build(), self.held_at(place), gathered)

    def room(self, held: Tensor) -> Tensor:
        """Return a buffer for the differences of one message, reused by the next message of this worker."""
        # One buffer is enough: a message is encoded before the differences of the next one are computed.
        if self._room is None or self._room.numel() < held.numel() or self._room.device != held.device:
            self._room = held.new_empty(held.numel())  # (n D,) float32, as large as the largest message so far
        return self._room

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [Threshold(self, training.worker)]


class _MovedRows(Chooser):
    """Chooser of the rows that changed by more than ε (Algorithm 2)."""

    differences: ClassVar[bool] = True

    def __init__(self, cache: CacheAtWork) -> None:
        self._cache = cache

    @property
    def epsilon(self) -> float:
        return self._cache.epsilon

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> Tensor:
        # Algorithm 2: a row is sent if max|z - h| > ε max|z|.
        return row_moves(x, rows, held, self._cache.epsilon)  # (n, D) -> (k,) int64

    def changes(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
        return row_changes(x, rows, held, self._cache.epsilon, self._cache.room(held))  # (n, D) -> (k,), (k, D)


class Threshold(Adaptive):
    """Callback that adapts ε after an epoch, identically on all workers, and saves the copies in checkpoints.

    Without the saved copies a resumed training would send all rows and diverge from the uninterrupted one, because
    with ε > 0 the receivers' copies differ from the current rows.

    Args:
        cache: run-time state with ε.
        worker: context of this worker; by default that of a single worker.
    """

    name = "epsilon"
    reductions: Mapping[str, Sharing] = {"right": "sum", "rows": "sum"}
    wants_accuracy = True

    def __init__(self, cache: CacheAtWork, worker: WorkerContext | None = None) -> None:
        self.cache, self.worker, self.mean = cache, worker, cache.settings.first_mean
        self._counts = (0.0, 0.0)
        self._decided: list[Entry] = []

    def receive_score_counts(self, right: float, rows: float) -> None:
        self._counts = right, rows

    def values_to_reduce(self, epoch_s: float | None) -> Mapping[str, float | None]:
        return dict(zip(("right", "rows"), self._counts))

    def after_epoch(self, epoch: int, loss: float, shared: Mapping[str, float | None]) -> None:
        hits, rows = shared["right"], shared["rows"]  # all-reduced, so all workers compute the same ε
        assert hits is not None and rows is not None
        accuracy, mean, epsilon, settings = hits / max(rows, 1.0), self.mean, self.cache.epsilon, self.cache.settings
        self.cache.epsilon = settings.next_epsilon(epsilon, accuracy=accuracy, mean=mean)
        self.mean = settings.memory * mean + (1 - settings.memory) * accuracy  # Eq. 7, after ε has used the old mean
        if self.cache.epsilon != epsilon:
            side = "above" if accuracy > mean else "below"
            reason = f"training accuracy {accuracy:.4f} is {side} its moving mean {mean:.4f}"
            # Logged under the next epoch, the first one that uses the new ε.
            self._decide(epoch + 1, reason, {"accuracy": accuracy, "mean_accuracy": mean})

    def _decide(self, epoch: int, reason: str, facts: dict[str, float]) -> None:
        epsilon = self.cache.epsilon
        line = {"epoch": epoch, "what": f"epsilon {epsilon:.4g}", "why": reason, "epsilon": epsilon}
        self._decided.append((DECISIONS, {**line, **facts}))

    def entries(self) -> Sequence[Entry]:
        entries, self._decided[:] = list(self._decided), []
        return entries

    def state(self) -> State:
        # ε and its mean are equal on all workers; the copies are this worker's own.
        facts = {"epsilon": self.cache.epsilon, "mean": self.mean}
        return State(facts, own=None if self.worker is None else self.cache.rows_to_save(self.worker))

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.cache.epsilon, self.mean = facts["epsilon"], facts["mean"]
        if self.worker is not None:
            self.cache.restore_rows(tensors, self.worker)  # copies of all workers; this one takes its own

    def steer(self, settings: AdaptiveCache, *, version: int) -> None:
        """Apply new settings; a new rule continues from the current ε, unless ``epsilon`` changed or nothing did."""
        old_settings, self.cache.settings = self.cache.settings, settings
        if settings.epsilon != old_settings.epsilon or settings == old_settings:
            self.cache.epsilon = settings.epsilon
