"""``gq.theory.check(run)``: comparison of AdaQP's Theorem 3 with the gradients of a run's own system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.cards import table_html
from gnnqlab.former_names import FormerMember
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
    """Measured gradient variance and Theorem 3's bound, by weight."""

    frame: DataFrame
    """Table from `gnnqlab.simulation.theory_check.gradient_variance`."""
    system: str
    widths: str
    """Bit-widths of the messages, as text."""
    repeats: int
    trained: int
    """Number of epochs for which the weights had been trained."""

    @property
    def bound(self) -> dict[str, float]:
        """Theorem 3's bound of each weight, and of ``all``; keys are ``layer.weight``."""
        return self._column("bound")

    @property
    def measured(self) -> dict[str, float]:
        """Variance over the repeats, every message quantized."""
        return self._column("measured")

    @property
    def is_within_bound(self) -> bool:
        """True if the measured variance of all weights together is within its bound."""
        return self.measured["all"] <= self.bound["all"]

    holds = FormerMember("is_within_bound")

    def to_frame(self) -> DataFrame:
        """Return one row per weight and one for all, see `gnnqlab.simulation.theory_check.gradient_variance`."""
        return self.frame.copy()

    def _column(self, name: str) -> dict[str, float]:
        names = [  # the last row, of layer -1, is `all`
            row.weight if row.layer < 0 else f"{row.layer}.{row.weight}"
            for row in self.frame[["layer", "weight"]].itertuples()
        ]
        return dict(zip(names, self.frame[name].astype(float).tolist(), strict=True))

    def _title(self) -> str:
        verdict = "holds" if self.is_within_bound else "is exceeded"
        return (
            f"Theorem 3 for {self.system}, {self.widths}: {self.repeats} passes at weights of epoch {self.trained}; "
            f"the bound of all weights together {verdict}{self._single_bounds()}"
        )

    def _single_bounds(self) -> str:
        """Return the part of the title about bounds of single weights."""
        bounds, measured_variances = self.bound, self.measured
        names = [name for name in bounds if name != "all" and measured_variances[name] > bounds[name]]
        return f", that of {', '.join(names)} is exceeded" if names else ", and so does that of each weight"

    def __repr__(self) -> str:
        lines = [
            f"  {name:<20} measured {self.measured[name]:.3e}   bound {bound:.3e}" for name, bound in self.bound.items()
        ]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        columns = ["layer", "measured", "bound", "ratio", "worst"]
        return table_html(self.frame.set_index("weight")[columns], caption=self._title())


def check(
    run: Run | RunConfig,
    *,
    repeats: int = 64,
    trained: int | None = None,
    weights: Tensor | None = None,
    bits: BitPolicy | None = None,
) -> TheoryCheck:
    """Measure the gradient variance of a run's system on its graph and compare it with Theorem 3's bound.

    The run's graph, partitioner, system, model and seed are used, and the last assignment of a run that assigned
    bit-widths. The workers are threads of this process; dropout is off, because its masks would change with the noise.

    Args:
        run: a run, or its configuration. For a configuration with assigned bit-widths the start bit-width is used,
            because there is no assignment yet.
        repeats: number of backward passes, at least 2.
        trained: number of epochs of exact training in this process before the measurement; by default none, or the
            weights of a run's newest checkpoint.
        weights: flat weights to measure at instead.
        bits: bit policy instead of the system's own.

    Returns:
        A :class:`TheoryCheck`: ``.bound`` and ``.measured`` by weight, ``.to_frame()`` with all columns.

    Raises:
        ValueError: if the run caches layer-0 rows, the theorem does not cover its model or its messages (error feedback
            and rounding to nearest are biased, see :mod:`gnnqlab.systems.unbiased`; other codes have another variance),
            or ``trained`` is negative.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> found = check(configure("sbm:60,3,6", system="fixed-bits", bits=4, layers=2, hidden=8), repeats=8)
        >>> found.widths, sorted(found.bound)
        ('4 bits', ['0.weight', '1.weight', 'all'])
    """
    config = run if isinstance(run, RunConfig) else run.config
    config.require_nodes("gq.theory.check", class_weights=False)
    if config.train.input_features == "cache":
        raise ValueError(
            "the check sends the rows of layer 0 in every pass, got a run that sent them once; use a configuration "
            "with input_features 'resend'"
        )
    if trained is not None and trained < 0:
        raise ValueError(f"trained must not be negative, got {trained}")
    graph = load(config.graph)
    policy, words = (bits, "bit-widths as given") if bits is not None else _policy(run, config)
    # Weights: as passed, else of the newest checkpoint, else after some epochs of exact training here.
    if weights is None and trained is None and isinstance(run, Run):
        checkpoint = newest_checkpoint(run.folder)
        if checkpoint is not None:
            weights, trained = checkpoint.tensors["values"], checkpoint.epoch  # (n,), flat
    if weights is None and trained:
        weights = trained_weights(graph, config.model, trained, seed=config.train.seed)
    frame = gradient_variance(
        graph,
        config.system_on_hosts,
        config.model,
        workers=config.workers,
        repeats=repeats,
        weights=weights,
        bits=policy,
        seed=config.train.seed,
    )
    return TheoryCheck(frame, config.system.name, words, repeats, trained or 0)


def _policy(run: Run | RunConfig, config: RunConfig) -> tuple[BitPolicy, str]:
    """Return the bit policy of a run's messages, and its description."""
    policy = config.system.bits
    if not isinstance(policy, Assigned):
        choices = policy.choices
        return policy, human_bits(choices[0]) if len(choices) == 1 else f"bit-widths {choices} as chosen by the system"
    # Bit-widths of the last assignment, which sender and receiver used at the end of the run.
    installed_policy = None if isinstance(run, RunConfig) else load_widths(run.folder, policy)
    if installed_policy is None:
        return policy, f"start bit-width, {human_bits(policy.start)}"
    return installed_policy, f"last assignment, λ = {policy.lam:g}"
