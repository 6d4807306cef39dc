"""Forecast of a setting: seconds of an epoch by phase, bytes, bit-widths, and noise of the gradients.

Letters: P workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gnnqlab.cards import table_html
from gnnqlab.systems.system import System
from gnnqlab.systems.unbiased import refuse_biased
from gnnqlab.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Forecast"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Forecast:
    """Predicted results of one system with its settings on one graph and link."""

    system: str
    lam: float | None
    """λ; like the group size ``None`` for a system without assignments."""
    group_size: int | None
    bit_widths: tuple[int, ...] | None
    """Bit-widths to choose from; like the period ``None`` for a system that chooses none."""
    period: int | None
    """Epochs between choices; it does not change the time of a typical epoch, but how stale assignments become."""
    phases: dict[str, float]
    """Seconds of an epoch by phase; ``wire`` is the exposed part of transfers. The sum is ``epoch_s``."""
    wire_s: float
    """Seconds of all transfers of rows, hidden or exposed."""
    vanilla_s: float
    """Seconds of an epoch of Vanilla on the same link."""
    bytes_payload: int
    """Bytes of codes by all workers in an epoch, as in ``run.records``; without headers and weight gradients."""
    bytes_params: int
    """Bytes of zero-points and scales by all workers in an epoch."""
    bytes_bases: int = 0
    """Bytes of refreshed bases by all workers in an epoch, a mean over a period for a typical one."""
    variances: dict[tuple[int, str], float]
    """Values of ``variance``; empty if it is refused."""
    bounds: dict[str, float]
    """Theorem 3's bound of each weight, ``layer.weight``, at the last traced epoch; empty if it was not traced or
    variance is refused."""
    noise_share: float | None
    """Sum of the bounds of all weights over the squared norm of the exact gradient."""
    rows: dict[int, int]
    """Bit-width -> rows per epoch, over all layers and both directions."""
    tiers: dict[str, tuple[float, float]]
    """``inner`` (within a host) and ``outer`` (between hosts) -> bytes of rows by all workers in an epoch, and seconds
    of their transfers, hidden or exposed; tiers transfer in parallel, so their seconds do not add up."""
    pair_bits: Array
    """Mean bits per element from worker to worker, ``(P, P)``; NaN without messages."""
    link: str
    error: float | None = None
    """Median relative error of such predictions for finished runs; ``None`` without such runs."""
    recipe: System = field(repr=False)
    """All parts of the system."""
    epoch: int | None = None
    """Predicted epoch; ``None``: a typical one."""
    base: int | None = None
    """Assumed base bit-width, for a policy that moves one."""
    biased: str = ""
    """Reason why messages are biased (:mod:`gnnqlab.systems.unbiased`), so that no variance is forecast."""
    untraced_reason: str = ""
    """Reason why a trace does not give the variance of this codec, so that none is forecast."""
    assumes: tuple[str, ...] = ()
    """Assumptions as text; empty if everything is known beforehand."""
    measure_memory: Callable[[], dict[str, int]] | None = field(default=None, repr=False)
    """Function that measures ``memory`` on first access."""

    @cached_property
    def memory(self) -> dict[str, int]:
        """Bytes of live tensors by purpose, at the peak of the worker that needs the most, as in ``run.memory``.

        Measured by a trial in this process, see :mod:`gnnqlab.tune.memory`.

        Raises:
            ValueError: if the forecast was not made by a probe.
        """
        if self.measure_memory is None:
            raise ValueError(
                "memory needs a forecast of a probe, got one that was constructed directly; use gq.probe(...).forecast"
            )
        return self.measure_memory()  # a trial of some seconds, so the property stores its result

    @property
    def bytes_sent(self) -> int:
        """Bytes by all workers in an epoch: codes, quantization parameters and bases, without headers and gradients."""
        return self.bytes_payload + self.bytes_params + self.bytes_bases

    @property
    def epoch_s(self) -> float:
        """Predicted seconds of a typical epoch, without evaluation and assignment."""
        return sum(self.phases.values())  # phases do not overlap: `wire` is the exposed part alone

    @property
    def speedup(self) -> float:
        """Predicted speed-up over Vanilla on the same link."""
        return self.vanilla_s / self.epoch_s

    @property
    def variance(self) -> dict[tuple[int, str], float]:
        """V of each (layer, direction): ``Σ β / (2^b - 1)^2``, the assigner's objective.

        Stale and skipped rows add errors that are not part of V.

        Raises:
            ValueError: if messages are biased, to which the theorem behind V does not apply, or if a trace does not
                give the variance of their codec.
        """
        self._refuse("a forecast of variance")
        return self.variances

    @property
    def no_variance(self) -> str:
        """Reason why variance is refused; empty if it is forecast."""
        return self.biased or self.untraced_reason

    def _refuse(self, operation: str) -> None:
        refuse_biased(self.biased, operation)
        if self.untraced_reason:
            raise ValueError(f"{operation} is not possible: {self.untraced_reason}")

    @property
    def total_variance(self) -> float:
        """Sum of V over all layers and directions; raises as `variance`."""
        return sum(self.variance.values())

    @property
    def total_bound(self) -> float | None:
        """Theorem 2's Q²: the sum of all weights' bounds; ``None`` if none was traced; raises as `variance`."""
        self._refuse("a forecast of Theorem 3's bound")
        return sum(self.bounds.values()) if self.bounds else None

    @property
    def mean_bits(self) -> float:
        """Mean bit-width over rows."""
        rows = sum(self.rows.values())
        return sum(width * count for width, count in self.rows.items()) / rows if rows else float("nan")

    def to_frame(self) -> DataFrame:
        """Return a table of phases: ``seconds`` and ``share`` of the epoch."""
        import pandas as pd

        frame = pd.DataFrame({"seconds": pd.Series(self.phases, dtype=float)})
        frame["share"] = frame["seconds"] / self.epoch_s
        return frame.rename_axis("phase")

    def by_tier(self) -> DataFrame:
        """Return ``bytes`` and ``seconds`` of an epoch by tier; ``gq.compare(runs).tiers()`` has measured ones."""
        import pandas as pd

        frame = pd.DataFrame.from_dict(self.tiers, orient="index", columns=["bytes", "seconds"])
        return frame.rename_axis("tier")

    def _title(self) -> str:
        settings = "" if self.lam is None else f" λ = {self.lam:g}, groups of {self.group_size}"
        spread = "" if self.error is None else f" ± {self.error:.0%}"
        noise = "" if self.noise_share is None else f", noise at most {self.noise_share:.2g}× the squared gradient"
        outer_bytes, _ = self.tiers["outer"]
        outer_text = f" ({human_bytes(outer_bytes)} between hosts)" if outer_bytes else ""
        suffix = noise + (f"; assumes {'; '.join(self.assumes)}" if self.assumes else "")
        sent_text = human_bytes(self.bytes_sent) + outer_text
        bits_text = f", {self.mean_bits:.2f} bits per row" if self.rows else ""
        return (
            f"{self.system}{settings} over {self.link}: {human_seconds(self.epoch_s)} per epoch{spread}, "
            f"{self.speedup:.2f}× Vanilla, {sent_text}{bits_text}{suffix}"
        )

    def __repr__(self) -> str:
        return f"<Forecast {self._title()}>"

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        columns = {"time": frame["seconds"].map(human_seconds), "share": frame["share"].map("{:.1%}".format)}
        return table_html(frame.assign(**columns)[[*columns]], caption=self._title())
