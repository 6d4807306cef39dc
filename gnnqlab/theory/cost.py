"""Cost model of an exchange: ``seconds = θ · bytes + γ`` for every ordered pair of workers (AdaQP Eq. 10).

θ is in seconds per byte, γ in seconds; both are fitted from timed transfers and never negative. Index ``[s, r]`` is the
transfer from worker s to worker r. All arrays are float64.

Letters: P workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["REPEATS", "LinkCost", "all_at_once_s", "epoch_s", "exchange_s", "fit", "ring_round_s", "ring_s"]

Array = NDArray[np.float64]
Samples = Iterable[tuple[int, float]]
"""``(bytes, seconds)`` of single transfers."""

REPEATS = 5
"""Smallest number of transfers of one size for a median; a single sample is too noisy."""


def fit(sizes_bytes: ArrayLike, seconds: ArrayLike) -> tuple[float, float, float]:
    """Fit ``seconds = θ · bytes + γ`` to timed transfers of one pair (AdaQP, the cost model under Eq. 10).

    The fit uses the median of each size; θ, γ >= 0 minimise the squared *relative* error of the medians, so that
    messages of a few kilobytes determine γ as well as large ones determine θ.

    Differs: the released code fits one sample per size, and its γ may be negative.

    Args:
        sizes_bytes: ``(n,)``, each size at least :data:`REPEATS` times, in any order.
        seconds: duration of each transfer, ``(n,)``, positive.

    Returns:
        θ in seconds per byte, γ in seconds, and R² of the medians (1 if the line goes through all of them).

    Raises:
        ValueError: if there are fewer than two sizes, or fewer than five transfers of a size.

    Example:
        >>> theta, gamma, r_squared = fit([100] * 5 + [300] * 5, [3.0] * 4 + [9.0] + [7.0] * 5)
        >>> round(theta, 9), round(gamma, 9), round(r_squared, 9)
        (0.02, 1.0, 1.0)
    """
    medians = _medians(zip(np.asarray(sizes_bytes).tolist(), np.asarray(seconds, dtype=np.float64).tolist()))
    rare_sizes = {size: count for size, (_, count) in medians.items() if count < REPEATS}
    if rare_sizes:
        size, count = next(iter(rare_sizes.items()))
        raise ValueError(f"every size must be timed at least {REPEATS} times, got {count} of {size} bytes")
    if len(medians) < 2:
        raise ValueError(f"transfers must have at least two different sizes, got {sorted(medians)}")
    theta, gamma, r_squared = _line(_moments({size: value for size, (value, _) in medians.items()}))
    return float(theta), float(gamma), float(r_squared)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkCost:
    """θ, γ and R² of every ordered pair of workers."""

    theta_s_per_byte: Array
    """``(P, P)``; the diagonal is zero."""
    gamma_s: Array
    """``(P, P)``."""
    r_squared: Array
    """``(P, P)``; 1 on the diagonal, and for rates that were set instead of measured."""
    moments: Array
    """Sums over median transfers for the fit, ``(P, P, 2, 6)``, weighted by ``1 / seconds²`` and by 1."""

    @property
    def workers(self) -> int:
        """Number of workers, P."""
        return self.theta_s_per_byte.shape[0]

    @classmethod
    def measured(cls, workers: int, samples: Mapping[tuple[int, int], Samples]) -> LinkCost:
        """Fit every pair from its timed transfers.

        Args:
            workers: P.
            samples: (sender, receiver) -> ``(bytes, seconds)`` of its transfers, as for :func:`fit`.

        Raises:
            ValueError: if a pair is missing, or has too few transfers.
        """
        moments = np.zeros((workers, workers, 2, 6))
        for sender in range(workers):
            for receiver in range(workers):
                if sender == receiver:
                    continue
                if (sender, receiver) not in samples:
                    raise ValueError(f"every pair must be timed, got no transfer from {sender} to {receiver}")
                medians = _medians(samples[sender, receiver])
                if len(medians) < 2 or min(count for _, count in medians.values()) < REPEATS:
                    raise ValueError(
                        f"each pair needs at least two sizes, each timed at least {REPEATS} times, got "
                        f"{ {size: count for size, (_, count) in sorted(medians.items())} } "
                        f"(bytes: times) from {sender} to {receiver}"
                    )
                moments[sender, receiver] = _moments({size: value for size, (value, _) in medians.items()})
        return cls._from_moments(moments)

    @classmethod
    def uniform(cls, workers: int, *, bytes_per_s: float, latency_s: float = 0.0) -> LinkCost:
        """Build the model of identical links, for plans and tests.

        Example:
            >>> LinkCost.uniform(2, bytes_per_s=100.0, latency_s=1.0).seconds([[0, 50], [0, 0]]).tolist()
            [[0.0, 1.5], [0.0, 0.0]]
        """
        if not bytes_per_s > 0 or latency_s < 0:
            raise ValueError(f"rate must be positive and latency not negative, got {bytes_per_s} and {latency_s}")
        # Two exact points of the line, as if timed; `updated` combines them with transfers of training.
        pair_moments = _moments({size: latency_s + size / bytes_per_s for size in (2**12, 2**20)})
        moments = np.zeros((workers, workers, 2, 6))
        moments[~np.eye(workers, dtype=bool)] = pair_moments
        cost = cls._from_moments(moments)
        off_diagonal = 1.0 - np.eye(workers)
        # θ and γ as passed; the fit above only provides moments, and would change them by rounding.
        return cls(
            theta_s_per_byte=off_diagonal / bytes_per_s,
            gamma_s=off_diagonal * latency_s,
            r_squared=np.ones((workers, workers)),
            moments=cost.moments,
        )

    def updated(self, samples: Mapping[tuple[int, int], Samples], *, keep: float = 0.5) -> LinkCost:
        """Return the model updated with transfers of training.

        The weight of old medians is multiplied by ``keep``, each new one has weight 1, and the line is fitted again. A
        size with fewer than five transfers is ignored; a pair without any new median is unchanged.

        Args:
            samples: (sender, receiver) -> ``(bytes, seconds)``; pairs may be missing.
            keep: factor on the weight of old medians, in (0, 1].

        Raises:
            ValueError: if ``keep`` is outside (0, 1] or a pair is unknown.
        """
        if not 0 < keep <= 1:
            raise ValueError(f"keep must lie in (0, 1], got {keep}")
        moments = self.moments.copy()
        for (sender, receiver), transfers in samples.items():
            if sender == receiver or not (0 <= sender < self.workers and 0 <= receiver < self.workers):
                raise ValueError(f"pairs must be two of {self.workers} workers, got {(sender, receiver)}")
            # A few transfers of a size have no reliable median, so they are dropped.
            medians = {size: value for size, (value, count) in _medians(transfers).items() if count >= REPEATS}
            if medians:
                moments[sender, receiver] = keep * moments[sender, receiver] + _moments(medians)
        fresh_cost = self._from_moments(moments)
        is_changed = (moments != self.moments).any(axis=(2, 3))  # (P, P, 2, 6) -> (P, P)
        return LinkCost(
            theta_s_per_byte=np.where(is_changed, fresh_cost.theta_s_per_byte, self.theta_s_per_byte),
            gamma_s=np.where(is_changed, fresh_cost.gamma_s, self.gamma_s),
            r_squared=np.where(is_changed, fresh_cost.r_squared, self.r_squared),
            moments=moments,
        )

    def seconds(self, sent_bytes: ArrayLike) -> Array:
        """Compute the seconds of each transfer, ``(P, P)``; a pair with nothing to send takes no time.

        Args:
            sent_bytes: ``(P, P)``, including quantization parameters.

        Raises:
            ValueError: if the shape is not ``(P, P)``.
        """
        amount = np.asarray(sent_bytes, dtype=np.float64)
        if amount.shape != self.theta_s_per_byte.shape:
            raise ValueError(f"bytes must have shape {self.theta_s_per_byte.shape}, got {amount.shape}")
        return np.where(amount > 0, self.theta_s_per_byte * amount + self.gamma_s, 0.0)  # no γ without a message

    @classmethod
    def _from_moments(cls, moments: Array) -> LinkCost:
        theta, gamma, r_squared = _line(moments)
        return cls(theta_s_per_byte=theta, gamma_s=gamma, r_squared=r_squared, moments=moments)


def ring_round_s(cost: LinkCost, sent_bytes: ArrayLike) -> Array:
    """Compute the seconds of each ring round, ``(P - 1,)``, those of its slowest pair (AdaQP Eq. 10, Fig. 8).

    In round k, worker r sends to r + k (mod P).
    """
    seconds = cost.seconds(sent_bytes)
    sender = np.arange(cost.workers)
    # The next round begins when the slowest pair has finished.
    return np.array([seconds[sender, (sender + k) % cost.workers].max() for k in range(1, cost.workers)])


def ring_s(cost: LinkCost, sent_bytes: ArrayLike) -> float:
    """Compute the seconds of an exchange in ring rounds, the sum over rounds.

    Example:
        >>> ring_s(LinkCost.uniform(3, bytes_per_s=10.0), [[0, 20, 20], [30, 0, 10], [10, 40, 0]])
        6.0
    """
    return float(ring_round_s(cost, sent_bytes).sum())


def all_at_once_s(cost: LinkCost, sent_bytes: ArrayLike) -> float:
    """Compute the seconds of an exchange whose messages are all posted at once: the sum at its busiest end.

    Links have the same rate in both directions. Messages from worker s queue at its sending end, messages to worker r
    at its receiving end, and the exchange takes as long as the busiest of all ends.

    Differs: the paper has ring rounds, in which no worker receives from two others at once.

    Example:
        >>> all_at_once_s(LinkCost.uniform(3, bytes_per_s=10.0), [[0, 20, 20], [30, 0, 10], [10, 40, 0]])
        6.0
    """
    seconds = cost.seconds(sent_bytes)
    return float(max(seconds.sum(axis=end).max(initial=0.0) for end in (0, 1)))  # receiving ends, sending ends


def exchange_s(cost: LinkCost, sent_bytes: ArrayLike, *, transport: str = "direct") -> float:
    """Compute the seconds of one exchange over a transport by name: ``ring``, or ``direct`` (all at once).

    Raises:
        ValueError: if the name is neither.
    """
    if transport not in ("ring", "direct"):
        raise ValueError(f"transport must be 'ring' or 'direct', got {transport!r}")
    return ring_s(cost, sent_bytes) if transport == "ring" else all_at_once_s(cost, sent_bytes)


def epoch_s(exchanges_s: ArrayLike, central_s: ArrayLike, other_s: float, *, overlapped: bool) -> float:
    """Predict an epoch from its exchanges, one per layer and direction.

    Args:
        exchanges_s: seconds of each exchange on the wire.
        central_s: seconds of the computation that is independent of each exchange (central nodes).
        other_s: seconds of the rest: marginal rows, dense products, loss, optimizer, encoding and decoding.
        overlapped: True if central rows are computed during their exchange.

    Example:
        >>> [epoch_s([3.0, 1.0], [2.0, 2.0], 4.0, overlapped=overlapped) for overlapped in (True, False)]
        [9.0, 12.0]
    """
    wire_times, central_times = np.asarray(exchanges_s, dtype=np.float64), np.asarray(central_s, dtype=np.float64)
    # With overlap each exchange is hidden behind its own central computation, up to its length.
    layer_seconds = np.maximum(wire_times, central_times) if overlapped else wire_times + central_times
    return float(layer_seconds.sum() + other_s)


def _medians(samples: Iterable[tuple[float, float]]) -> dict[int, tuple[float, int]]:
    """Return size -> (median seconds, number of transfers).

    Raises:
        ValueError: if a transfer has no positive size or no positive, finite time.
    """
    times_by_size: dict[int, list[float]] = {}
    for size, seconds in samples:
        if not (size > 0 and 0 < seconds < np.inf):
            raise ValueError(f"transfers must have positive bytes and finite positive seconds, got {(size, seconds)}")
        times_by_size.setdefault(int(size), []).append(seconds)
    return {size: (float(np.median(times)), len(times)) for size, times in times_by_size.items()}


def _moments(medians: Mapping[int, float]) -> Array:
    """Compute the sums of ``w · (1, x, y, x², xy, y²)`` with ``w = 1 / y²`` and with ``w = 1``, ``(2, 6)``."""
    x = np.array(list(medians), dtype=np.float64)
    y = np.array(list(medians.values()))  # (n,) seconds
    terms = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y])  # (6, n)
    return np.stack([(terms / y**2).sum(axis=1), terms.sum(axis=1)])  # relative errors weigh by 1 / y^2


def _line(moments: Array) -> tuple[Array, Array, Array]:
    """Solve the non-negative least squares of ``y = θ x + γ`` from moments ``(..., 2, 6)``; R² is unweighted."""
    one, x, y, xx, xy, _ = np.moveaxis(moments[..., 0, :], -1, 0)  # (..., 6) -> six of (...)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = one * xx - x * x
        free_fit = (one * xy - x * y) / spread, (y * xx - x * xy) / spread  # θ, γ of unconstrained least squares
        no_gamma, no_theta = xy / xx, y / one
    has_timings = one > 0  # pairs with timings; the diagonal has none
    # With one size the spread is 0 up to rounding errors, and the line goes through the origin.
    is_solvable = has_timings & (spread > 1e-9 * one * xx) & (free_fit[0] >= 0) & (free_fit[1] >= 0)
    # With two unknowns: if the unconstrained optimum is infeasible, the best feasible point has θ = 0 or γ = 0.
    is_flat = has_timings & ~is_solvable & np.nan_to_num(free_fit[0] < 0) & (spread > 1e-9 * one * xx)
    theta = np.where(is_solvable, free_fit[0], np.where(is_flat, 0.0, no_gamma))
    gamma = np.where(is_solvable, free_fit[1], np.where(is_flat, no_theta, 0.0))
    theta, gamma = np.where(has_timings, theta, 0.0), np.where(has_timings, gamma, 0.0)

    # R² uses the unweighted moments.
    one, x, y, xx, xy, yy = np.moveaxis(moments[..., 1, :], -1, 0)
    # Sum of squared residuals, Σ (y - θx - γ)².
    error = yy - 2 * theta * xy - 2 * gamma * y + theta**2 * xx + 2 * theta * gamma * x + gamma**2 * one
    with np.errstate(divide="ignore", invalid="ignore"):
        total = yy - y * y / one
        r_squared = 1 - np.maximum(error, 0) / total  # a negative error is a rounding error
    return theta, gamma, np.where(has_timings & (total > 1e-12 * yy), r_squared, 1.0)
