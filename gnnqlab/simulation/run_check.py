"""``gq.theory.check(run)``: Theorem 3 of AdaQP held against the gradients of a run's own system."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.graph.sources import load
from gnnqlab.run.run import Run
from gnnqlab.simulation.gradient_noise import trained_weights
from gnnqlab.simulation.theory_check import gradient_variance
from gnnqlab.train.checkpoints.checkpoint import newest_checkpoint
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.records.active_bit_widths import load_widths

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["TheoryCheck", "check"]


@dataclass(frozen=True, eq=False)
class TheoryCheck:
    """Measured gradient variance beside Theorem 3's bound, weight by weight."""

    frame: DataFrame
    """What `gnnqlab.simulation.theory_check.gradient_variance` returns."""
    system: str
    widths: str
    """Which bit-widths the messages had, in words."""
    repeats: int
    trained: int
    """Epochs that the weights had been trained for."""

    @property
    def bound(self) -> dict[str, float]:
        """Theorem 3's bound of each weight, and of ``all``; named ``layer.weight``."""
        return self._column("bound")

    @property
    def measured(self) -> dict[str, float]:
        """Variance over the repeats, every message quantized."""
        return self._column("measured")

    @property
    def holds(self) -> bool:
        """Whether the bound of all weights together lies above what was measured."""
        return self.measured["all"] <= self.bound["all"]

    def to_frame(self) -> DataFrame:
        """Return one row a weight and one for all, see `gnnqlab.simulation.theory_check.gradient_variance`."""
        return self.frame.copy()

    def _column(self, name: str) -> dict[str, float]:
        names = [
            row.weight if row.layer < 0 else f"{row.layer}.{row.weight}"
            for row in self.frame[["layer", "weight"]].itertuples()
        ]
        return dict(zip(names, self.frame[name].astype(float).tolist(), strict=True))

    def _title(self) -> str:
        return (
            f"Theorem 3 for {self.system}, {self.widths}: {self.repeats} passes at weights of epoch {self.trained}; "
            f"the bound of all weights together {'holds' if self.holds else 'is passed'}{self._passed()}"
        )

    def _passed(self) -> str:
        """Say which single weights pass their own bound, if any do."""
        bounds, measured = self.bound, self.measured
        above = [name for name in bounds if name != "all" and measured[name] > bounds[name]]
        return f", that of {', '.join(above)} is passed" if above else ", and that of each by itself"

    def __repr__(self) -> str:
        lines = [
            f"  {name:<20} measured {self.measured[name]:.3e}   bound {bound:.3e}" for name, bound in self.bound.items()
        ]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        shown = self.frame[["layer", "weight", "measured", "bound", "ratio", "worst"]]
        return f"<p>{html.escape(self._title())}</p>{shown.to_html(index=False, float_format='{:.3g}'.format)}"


def check(
    run: Run | RunConfig,
    *,
    repeats: int = 64,
    trained: int | None = None,
    weights: Tensor | None = None,
    bits: BitPolicy | None = None,
) -> TheoryCheck:
    """Measure the gradient variance of a run's system on its graph and set it beside Theorem 3's bound.

    The run's graph, partitioner, system, model and seed are used, and of a run that assigned bit-widths its last
    assignment. The workers are threads of this process; dropout is off, since its masks would change with the noise.

    Args:
        run: a run, or its configuration. A configuration that assigns widths has not assigned any: its start width
            is used.
        repeats: backward passes, at least 2.
        trained: epochs that the first weights are trained for, in this process with exact messages, before anything
            is measured; by default none, and of a run that kept checkpoints the newest one's weights are used.
        weights: flat weights to measure at, in the place of these.
        bits: instead of the system's own widths.

    Returns:
        A :class:`TheoryCheck`: ``.bound`` and ``.measured`` by weight, ``.to_frame()`` with all columns.

    Raises:
        ValueError: if the run keeps layer-0 rows, its model or its messages are none that the theorem speaks of (those
            with feedback or to the nearest are biased, see :mod:`gnnqlab.systems.unbiased`; those of other codes have
            another variance), or ``trained`` is negative.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> found = check(configure("sbm:60,3,6", system="fixed-bits", bits=4, layers=2, hidden=8), repeats=8)
        >>> found.widths, sorted(found.bound)
        ('4 bits', ['0.weight', '1.weight', 'all'])
    """
    config = run if isinstance(run, RunConfig) else run.config
    config.require_nodes("gq.theory.check")
    if config.train.layer0 == "once":
        raise ValueError(
            "the check sends the rows of layer 0 in every pass, this run sent them once; use a configuration with "
            "layer0 'resend'"
        )
    if trained is not None and trained < 0:
        raise ValueError(f"trained must not be negative, got {trained}")
    graph = load(config.graph)
    policy, words = (bits, "widths as given") if bits is not None else _policy(run, config)
    if weights is None and trained is None and isinstance(run, Run):
        checkpoint = newest_checkpoint(run.folder)
        if checkpoint is not None:
            weights, trained = checkpoint.tensors["values"], checkpoint.epoch
    if weights is None and trained:
        weights = trained_weights(graph, config.model, trained, seed=config.train.seed)
    frame = gradient_variance(
        graph,
        config.placed,
        config.model,
        workers=config.workers,
        repeats=repeats,
        weights=weights,
        bits=policy,
        seed=config.train.seed,
    )
    return TheoryCheck(frame, config.system.name, words, repeats, trained or 0)


def _policy(run: Run | RunConfig, config: RunConfig) -> tuple[BitPolicy, str]:
    """Return the widths that a run's messages had, and what they are."""
    policy = config.system.bits
    if not isinstance(policy, Assigned):
        choices = policy.choices
        return policy, human_bits(choices[0]) if len(choices) == 1 else f"widths {choices} as the system draws them"
    installed = None if isinstance(run, RunConfig) else load_widths(run.folder, policy)
    if installed is None:
        return policy, f"start width, {human_bits(policy.start)}"
    return installed, f"last assignment, λ = {policy.lam:g}"
