"""AdaQP's bi-objective problem: a bit-width for each group of one layer and direction (Eq. 12).

Minimise over bit-widths b_g of the allowed set::

    λ · (V - V_utopia) / (V_nadir - V_utopia)  +  (1 - λ) · (T - T_utopia) / (T_nadir - T_utopia)

    V = Σ_g β_g / (2^b_g - 1)^2                  variance from rounding (Eq. 11)
    T = Σ_r Z_r                                  seconds of the exchange
    Z_r >= Σ_i in l (θ_i · bytes_i + γ_i)        for every link l of round r (Eq. 10)

Utopia is V with the largest and T with the smallest bit-width everywhere, nadir is V with the smallest and T with the
largest; times are the maximum over the links of each round in both. λ = 1 counts only variance, λ = 0 only time. The
normalisation is needed because V and T have different units.

A codec whose variance depends otherwise on the bit-width has its own factors of β in place of ``1 / (2^b - 1)^2``.

Differs: the paper sets no scale for λ, and the released code takes the minimum over devices at utopia.

Transfers queue on *links*. In ring rounds every device pair is a link of its own, and a round lasts as long as its
slowest pair. If everything is posted at once there is one round, and every transfer queues twice: on its sender's link
with all other messages of the sender, and on its receiver's link with all other messages to the receiver.

Letters: G groups, I device pairs, L links, R rounds, B widths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnnqlab.bits.row import ParamBytes, row_bytes, two_parameters
from gnnqlab.bits.variance import min_max_share

__all__ = ["Array", "Index", "Problem", "Solution"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Widths = NDArray[np.uint8]

_FLOATS = two_parameters(4)
KNOWN = (1, 2, 3, 4, 8, 16, 32)


@dataclass(frozen=True, eq=False)
class Problem:
    """Problem of one layer and direction, with groups in any order; all arrays are checked on construction."""

    widths: tuple[int, ...]
    """Allowed bit-widths, ascending."""
    columns: int
    """D, elements in a row."""
    lam: float
    """λ in [0, 1]: 1 counts only variance, 0 only time."""
    group_pair: Index
    """Device pair of each group, ``(G,)``."""
    group_rows: Index
    """Rows in each group, ``(G,)``."""
    group_beta: Array
    """Sum of β over each group, ``(G,)``."""
    pair_link: Index
    """Link that each pair's transfers queue on, ``(I,)``."""
    link_round: Index
    """Round of each link, ``(L,)``."""
    theta_s_per_byte: Array
    """θ of each pair, ``(I,)``."""
    gamma_s: Array
    """γ of each pair, ``(I,)``."""
    param_bytes: ParamBytes = _FLOATS
    """Bytes of quantization parameters per row at each bit-width, from the codec."""
    pair_far_link: Index | None = None
    """Second link of each pair's transfers, at their other end, ``(I,)``; ``None``: transfers queue once."""
    width_shares: tuple[float, ...] | None = None
    """Factor of β at each bit-width, ``(B,)``, from the codec; ``None``: ``1 / (2^b - 1)^2``."""

    def __post_init__(self) -> None:
        # Converted once here, so that no index or sum of the solver converts again.
        for name in ("group_pair", "group_rows", "pair_link", "link_round", "pair_far_link"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.int64))
        for name in ("group_beta", "theta_s_per_byte", "gamma_s"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        object.__setattr__(self, "widths", tuple(int(width) for width in self.widths))
        self._check()

    def _check(self) -> None:
        if not self.widths or list(self.widths) != sorted(set(self.widths)) or not set(self.widths) <= set(KNOWN):
            raise ValueError(f"widths must be some of {KNOWN}, ascending, got {self.widths}")
        if not 0 <= self.lam <= 1:
            raise ValueError(f"λ must lie in [0, 1], got {self.lam}")
        if self.columns < 1:
            raise ValueError(f"columns must be at least 1, got {self.columns}")
        if self.group_rows.size == 0:
            raise ValueError("there must be at least one group of rows to assign a bit-width to, got no messages")
        groups, pairs, links = self.group_rows.size, self.theta_s_per_byte.size, self.link_round.size
        sizes = {"group_pair": groups, "group_beta": groups, "pair_link": pairs, "gamma_s": pairs}
        for name, length in {**sizes, "width_variance": len(self.widths)}.items():
            if getattr(self, name).shape != (length,):
                raise ValueError(f"{name} must have {length} entries, got shape {getattr(self, name).shape}")
        if self.group_rows.min() < 1:
            raise ValueError(f"every group must have at least one row, got {self.group_rows.min()}")
        for name in ("group_beta", "theta_s_per_byte", "gamma_s", "width_variance"):
            values = getattr(self, name)
            is_wrong = ~(np.isfinite(values) & (values >= 0))
            if is_wrong.any():
                raise ValueError(
                    f"{name} must be finite and not negative, got {values[is_wrong][0]} at {int(is_wrong.argmax())}"
                )
        # An idle link would be an empty segment in `by_link`, and an idle pair would add its γ.
        for name, index, limit in (("group_pair", self.group_pair, pairs), ("pair_link", self._queues(), links)):
            if index.min() < 0 or index.max() >= limit or np.bincount(index, minlength=limit).min() == 0:
                raise ValueError(f"{name} must name each of {limit} at least once and no other; leave out idle ones")
        if self.link_round.min() < 0 or np.bincount(self.link_round, minlength=self.num_rounds).min() == 0:
            raise ValueError("link_round must count rounds from 0 without gaps; leave out idle rounds")
        self._check_far_links()

    def _check_far_links(self) -> None:
        far_link = self.pair_far_link
        if far_link is None:
            return
        if (far_link == self.pair_link).any():
            raise ValueError(
                f"the ends of a pair must be two links, got {far_link[far_link == self.pair_link][0]} for both"
            )
        if rounds := self.num_rounds - 1:
            raise ValueError(f"pairs that queue at both ends must all be in one round, got {rounds + 1} rounds")

    def _queues(self) -> Index:
        """Concatenate the links of all pairs: ``(I,)``, or ``(2 I,)`` with two ends."""
        if self.pair_far_link is None:
            return self.pair_link
        if self.pair_far_link.shape != self.pair_link.shape:
            raise ValueError(f"pair_far_link must have {self.pair_link.size} entries, got {self.pair_far_link.shape}")
        return np.concatenate([self.pair_link, self.pair_far_link])

    @property
    def num_rounds(self) -> int:
        return int(self.link_round.max()) + 1

    @cached_property
    def width_bytes(self) -> Array:
        """Bytes of one row at each width, ``(B,)``."""
        sizes = [row_bytes(width, self.columns, self.param_bytes) for width in self.widths]
        return np.array(sizes, dtype=np.float64)

    @cached_property
    def width_variance(self) -> Array:
        """Factor of β at each bit-width, ``(B,)``."""
        return np.array(self.width_shares or [min_max_share(width) for width in self.widths])

    @cached_property
    def cheapest(self) -> int:
        """Index of the bit-width with the fewest bytes; among equals, the least variance."""
        return int(np.lexsort((self.width_variance, self.width_bytes))[0])

    @cached_property
    def finest(self) -> int:
        """Index of the bit-width with the least variance; among equals, the fewest bytes."""
        return int(np.lexsort((self.width_bytes, self.width_variance))[0])

    @cached_property
    def group_s_per_byte(self) -> Array:
        """Seconds per additional byte in every row of a group, ``(G,)``."""
        return self.group_rows * self.theta_s_per_byte[self.group_pair]  # (I,)[(G,)] -> (G,)

    @cached_property
    def group_link(self) -> Index:
        """Link of each group, ``(G,)``."""
        return self.pair_link[self.group_pair]

    @cached_property
    def group_far_link(self) -> Index | None:
        """Second link of each group, ``(G,)``; ``None`` if transfers queue at one end."""
        return None if self.pair_far_link is None else self.pair_far_link[self.group_pair]

    @cached_property
    def in_order(self) -> bool:
        """True if groups are sorted by link."""
        return bool((self.group_link[1:] >= self.group_link[:-1]).all())

    def by_link(self, values: Array) -> Array:
        """Sum a value per group over each link, ``(G,)`` to ``(L,)``; a group with two links counts on both."""
        links = self.link_round.size
        if self.group_far_link is not None:
            near, far = (np.bincount(link, values, minlength=links) for link in (self.group_link, self.group_far_link))
            return (near + far).astype(np.float64)
        if self.in_order:  # much faster than bincount
            # Every link has a group, so no segment is empty (reduceat would put the next value there).
            return np.add.reduceat(values, self._link_starts)
        return np.bincount(self.group_link, values, minlength=links).astype(np.float64)

    def group_price(self, multipliers: Array) -> Array:
        """Return the price of a second of each group from the prices of its links, ``(L,)`` to ``(G,)``."""
        near_price: Array = multipliers[self.group_link]
        return near_price if self.group_far_link is None else near_price + multipliers[self.group_far_link]

    @cached_property
    def _link_starts(self) -> Index:
        return np.searchsorted(self.group_link, np.arange(self.link_round.size))  # (L,), if groups are in order

    @cached_property
    def link_gamma_s(self) -> Array:
        """Fixed seconds of each link: γ of all its pairs, ``(L,)``."""
        queues = self._queues()
        gamma_s = np.resize(self.gamma_s, queues.size)  # once for each end
        return np.bincount(queues, gamma_s, minlength=self.link_round.size).astype(np.float64)

    @cached_property
    def link_s_per_byte(self) -> Array:
        """Seconds per additional byte in every row of a link, ``(L,)``."""
        return self.by_link(self.group_s_per_byte)

    @cached_property
    def link_beta(self) -> Array:
        """Sum of β over each link, ``(L,)``."""
        return self.by_link(self.group_beta)

    def variance(self, choice: Index) -> float:
        """Return V for a choice: the index of a bit-width per group, ``(G,)``."""
        return float((self.group_beta * self.width_variance[choice]).sum())

    def link_s(self, choice: Index) -> Array:
        """Return the seconds of every link, ``(L,)``."""
        return self.link_gamma_s + self.by_link(self.group_s_per_byte * self.width_bytes[choice])

    def round_s(self, link_s: Array) -> Array:
        """Return ``Z_r``, the slowest link of every round, ``(R,)``."""
        slowest_s = np.zeros(self.num_rounds)
        np.maximum.at(slowest_s, self.link_round, link_s)  # (L,) -> (R,)
        return slowest_s

    def seconds(self, choice: Index) -> float:
        """Return T."""
        return float(self.round_s(self.link_s(choice)).sum())

    @cached_property
    def ends(self) -> tuple[float, float, float, float]:
        """Utopia and nadir of V, utopia and nadir of T."""
        # With two ends every group counts twice in `link_beta`.
        total = float((self.link_beta if self.pair_far_link is None else self.group_beta).sum())
        v = [total * float(self.width_variance[index]) for index in (self.finest, self.cheapest)]
        # All groups at one bit-width: seconds of the links, (L,), for utopia and nadir of T.
        links = [self.link_gamma_s + self.link_s_per_byte * self.width_bytes[i] for i in (self.cheapest, self.finest)]
        t = [float(self.round_s(link_s).sum()) for link_s in links]
        return v[0], v[1], t[0], t[1]

    @cached_property
    def weights(self) -> tuple[float, float]:
        """Weights of one unit of V and of one second of T in the objective; 0 if utopia and nadir are equal."""
        utopia_v, nadir_v, utopia_t, nadir_t = self.ends
        spread_v, spread_t = nadir_v - utopia_v, nadir_t - utopia_t
        return (
            self.lam / spread_v if spread_v > 0 else 0.0,
            (1 - self.lam) / spread_t if spread_t > 1e-12 * nadir_t else 0.0,  # a smaller spread is rounding
        )

    def objective(self, variance: float, seconds: float) -> float:
        """Return the normalised objective, 0 at utopia of both and at most 1."""
        weight_v, weight_t = self.weights
        return weight_v * (variance - self.ends[0]) + weight_t * (seconds - self.ends[2])

    def choice(self, widths: ArrayLike) -> Index:
        """Convert bit-widths to their indices, ``(G,)``.

        Raises:
            ValueError: if one is not allowed, or there is not exactly one per group.
        """
        chosen_widths = np.asarray(widths)
        if chosen_widths.shape != self.group_rows.shape or not np.isin(chosen_widths, self.widths).all():
            raise ValueError(f"each of {self.group_rows.size} groups needs one of the widths {self.widths}")
        return np.searchsorted(np.array(self.widths), chosen_widths)

    def solution(self, choice: Index, bound: float) -> Solution:
        """Evaluate a choice: objective, variance, times and bound.

        Args:
            choice: index of a bit-width per group.
            bound: lower bound on the objective of every assignment.
        """
        link_s = self.link_s(choice)
        variance, seconds = self.variance(choice), float(self.round_s(link_s).sum())
        objective = max(0.0, self.objective(variance, seconds))  # below 0 there are only rounding errors
        return Solution(
            widths=np.array(self.widths, dtype=np.uint8)[choice],  # (B,)[(G,)] -> (G,)
            objective=objective,
            variance=variance,
            seconds=seconds,
            link_s=link_s,
            bound=min(bound, objective),
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """An assignment of bit-widths to groups, with a bound on its distance to the optimum."""

    widths: Widths
    """Bits of each group, uint8 ``(G,)``."""
    objective: float
    """Normalised objective of :class:`Problem`."""
    variance: float
    """V."""
    seconds: float
    """T."""
    link_s: Array
    """Seconds of each link, ``(L,)``."""
    bound: float
    """Proved lower bound on the objective of every assignment."""

    @property
    def gap(self) -> float:
        """Largest possible distance to the optimum, relative to the objective; 0 if proved optimal."""
        distance = self.objective - self.bound
        # A smaller distance is a rounding error: all terms are at most 1.
        return distance / self.objective if distance > 1e-14 else 0.0
