"""What a setting is predicted to do: seconds of an epoch by phase, bytes, widths, and the noise in the gradients.

Letters: P workers.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gnnqlab.systems.system import System
from gnnqlab.systems.unbiased import refuse_biased

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Forecast"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """One system with its settings on one graph and link, before it is trained."""

    system: str
    lam: float | None
    """λ; ``None`` for a system that assigns nothing, as is the group size."""
    group_size: int | None
    widths: tuple[int, ...] | None
    """To choose from; ``None`` for a system that chooses none, as is the period."""
    period: int | None
    """Epochs between choices; of an assignment it does not change a usual epoch, but how stale widths become."""
    phases: dict[str, float]
    """Seconds of an epoch by phase; ``wire`` is what of the transfers nothing hides. They add up to ``epoch_s``."""
    wire_s: float
    """Seconds that rows are under way, hidden or not."""
    vanilla_s: float
    """Epoch of Vanilla on the same link."""
    bytes_payload: int
    """By all workers in an epoch, as in ``run.records``: codes of rows. Headers and gradients of weights are neither
    here nor there."""
    bytes_params: int
    """By all workers in an epoch: zero-points and scales."""
    variances: dict[tuple[int, str], float]
    """What ``variance`` returns; empty where it is refused."""
    bounds: dict[str, float]
    """Theorem 3's bound of each weight, ``layer.weight``, at the last traced epoch; empty where it was not traced, and
    where variance is refused."""
    noise_share: float | None
    """The bounds of all weights together over the squared norm of the exact gradient."""
    rows: dict[int, int]
    """Bit-width -> rows an epoch, all layers and both directions."""
    tiers: dict[str, tuple[float, float]]
    """``inner`` (within a host) and ``outer`` (between hosts) -> bytes of rows by all workers in an epoch, and seconds
    for which they are under way, hidden or not; tiers pass side by side, so their seconds do not add up."""
    pair_bits: Array
    """Mean bits an element from worker to worker, ``(P, P)``; NaN where nothing travels."""
    link: str
    error: float | None = None
    """Median relative error of such predictions in finished runs, if there were any."""
    recipe: System = field(repr=False)
    """All parts of the system."""
    epoch: int | None = None
    """The epoch that is predicted; ``None``: a usual one."""
    base: int | None = None
    """The base width that is assumed, for a policy that moves one."""
    biased: str = ""
    """Why messages are wrong on average (:mod:`gnnqlab.systems.unbiased`): then no variance is forecast."""
    untraced: str = ""
    """Why the variance of rows in this codec is not known by a trace; then none is forecast either."""
    assumes: tuple[str, ...] = ()
    """What had to be assumed, in words; empty where all is known beforehand."""
    tried: Callable[[], dict[str, int]] | None = field(default=None, repr=False)
    """Finds ``memory``, when it is asked for."""

    @cached_property
    def memory(self) -> dict[str, int]:
        """Bytes of live tensors by purpose, of the worker that needs the most, as at the peak in ``run.memory``.

        Found by a trial in this process, see :mod:`gnnqlab.tune.memory`.

        Raises:
            ValueError: if no probe made this forecast.
        """
        if self.tried is None:
            raise ValueError(
                "memory is known to forecasts of a probe, got one made by hand; ask gq.probe(...).forecast"
            )
        return self.tried()

    @property
    def bytes_sent(self) -> int:
        """By all workers in an epoch, parameters of rows included; headers and gradients of weights not."""
        return self.bytes_payload + self.bytes_params

    @property
    def epoch_s(self) -> float:
        """Predicted seconds of a usual epoch: no evaluation, no assignment."""
        return sum(self.phases.values())

    @property
    def speedup(self) -> float:
        """Over Vanilla on the same link."""
        return self.vanilla_s / self.epoch_s

    @property
    def variance(self) -> dict[tuple[int, str], float]:
        """V of each (layer, direction): ``Σ β / (2^b - 1)^2``, what the assigner minimises; old rows and those that do
        not travel bring errors of their own.

        Raises:
            ValueError: if messages are biased: the theorem that V stands on is not about them; or if a trace does not
                know what their codec makes of them.
        """
        self._refuse("a forecast of variance")
        return self.variances

    @property
    def no_variance(self) -> str:
        """Why variance is refused; empty where it is forecast."""
        return self.biased or self.untraced

    def _refuse(self, what: str) -> None:
        refuse_biased(self.biased, what)
        if self.untraced:
            raise ValueError(f"{what} cannot be had: {self.untraced}")

    @property
    def total_variance(self) -> float:
        """V over all layers and directions; errors as of `variance`."""
        return sum(self.variance.values())

    @property
    def total_bound(self) -> float | None:
        """Theorem 2's Q²: the bounds of all weights together; ``None`` if none was traced, errors as of `variance`."""
        self._refuse("a forecast of Theorem 3's bound")
        return sum(self.bounds.values()) if self.bounds else None

    @property
    def mean_bits(self) -> float:
        """Bits of a row on average."""
        rows = sum(self.rows.values())
        return sum(width * count for width, count in self.rows.items()) / rows if rows else float("nan")

    def to_frame(self) -> DataFrame:
        """Return the phases: one row each, ``seconds`` and ``share`` of the epoch."""
        import pandas as pd

        frame = pd.DataFrame({"seconds": pd.Series(self.phases, dtype=float)})
        frame["share"] = frame["seconds"] / self.epoch_s
        return frame.rename_axis("phase")

    def by_tier(self) -> DataFrame:
        """Return ``bytes`` and ``seconds`` of an epoch by tier, as ``gq.compare(runs).tiers()`` has them measured."""
        import pandas as pd

        frame = pd.DataFrame.from_dict(self.tiers, orient="index", columns=["bytes", "seconds"])
        return frame.rename_axis("tier")

    def _title(self) -> str:
        settings = "" if self.lam is None else f" λ = {self.lam:g}, groups of {self.group_size}"
        spread = "" if self.error is None else f" ± {self.error:.0%}"
        noise = "" if self.noise_share is None else f", noise at most {self.noise_share:.2g}× the squared gradient"
        outer, _ = self.tiers["outer"]
        between = f" ({outer / 1e3:.0f} kB between hosts)" if outer else ""
        more = noise + (f"; assumes {'; '.join(self.assumes)}" if self.assumes else "")
        sent = f"{self.bytes_sent / 1e3:.0f} kB{between}"
        return (
            f"{self.system}{settings} over {self.link}: {self.epoch_s * 1e3:.2f} ms an epoch{spread}, "
            f"{self.speedup:.2f}× Vanilla, {sent}, {self.mean_bits:.2f} bits a row{more}"
        )

    def __repr__(self) -> str:
        return f"<Forecast {self._title()}>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        frame["seconds"] = frame["seconds"].map("{:.3g}".format)
        frame["share"] = frame["share"].map("{:.1%}".format)
        return f"<p>{html.escape(self._title())}</p>{frame.to_html()}"
