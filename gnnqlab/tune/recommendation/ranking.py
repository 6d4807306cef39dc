"""Ranking of candidates by an objective, and the link rates at which the first one changes.

The cost of an option is, until Vanilla's accuracy and for one epoch of Vanilla until then,

    time to accuracy    seconds of an epoch × expected epochs (:class:`AccuracyRisk`)
    bytes               bytes of an epoch × expected epochs
    memory              bytes of live tensors of the worker that needs the most

Of options whose costs differ by less than predictions can tell, the simplest is chosen: Vanilla before others, as
published before with common optimizations, and exact ones before those that approximate.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.tune.forecast import Forecast
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.recommendation.accuracy_risk import REFERENCES, AccuracyRisk, find_risks
from gnnqlab.tune.recommendation.candidates import Candidate, approximations
from gnnqlab.tune.recommendation.places import ProbedPlaces
from gnnqlab.tune.timing import with_probed_parts
from gnnqlab.units import human_bit_rate

__all__ = [
    "OBJECTIVES",
    "Option",
    "RateChange",
    "choose",
    "first_of_each_system",
    "make_options",
    "rank",
    "scan_links",
    "studied_noise",
]

OBJECTIVES = ("time to accuracy", "bytes", "memory")
TIE = 0.02
"""Relative difference of costs below which the simpler option is chosen."""
MARGIN = 0.05
"""The same between an option that approximates and one that does not."""
RATES_MBIT = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
"""Scanned rates of a link."""
_HALVINGS = 3
"""Bisections between two scanned rates."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """A candidate with its forecast and the risk of its accuracy."""

    candidate: Candidate
    forecast: Forecast
    risk: AccuracyRisk

    @property
    def label(self) -> str:
        return self.candidate.label

    @property
    def is_exact(self) -> bool:
        """True if the training equals that of one process, except for bfloat16 sums of weight gradients."""
        return not approximations(self.candidate.published)

    def cost(self, objective: str) -> float:
        """Return the cost of this option.

        Args:
            objective: one of ``OBJECTIVES``; for ``memory`` a trial of two epochs in this process measures it once.
        """
        if objective == "memory":
            return float(sum(self.forecast.memory.values()))
        amount = self.forecast.epoch_s if objective == "time to accuracy" else float(self.forecast.bytes_sent)
        return amount * self.risk.factor


def make_options(places: ProbedPlaces, candidates: Iterable[Candidate]) -> tuple[list[Option], dict[str, str]]:
    """Forecast candidates on their places, and judge the risk of each.

    Args:
        places: probes by partition, exchange and products.
        candidates: systems to forecast.

    Returns:
        Options, and label -> reason of candidates that the model or the graph does not allow, or that have no forecast.
    """
    forecasts: dict[str, Forecast] = {}
    refused: dict[str, str] = {}
    by_label = {candidate.label: candidate for candidate in candidates}
    for label, candidate in by_label.items():
        try:
            place = places.find(candidate.system, services=candidate.services)
            forecasts[label] = place.forecast(system=candidate.system)
        except ValueError as error:
            refused[label] = str(error)
    # By name, from the probe's own place, where Theorem 3's factors were traced; studied systems too, so that a risk
    # does not depend on the other candidates.
    names = dict.fromkeys([*REFERENCES, *(by_label[label].name for label in forecasts)])
    noise = {name: _noise(places.probe, make_system(name)) for name in names}
    risks = find_risks([by_label[label] for label in forecasts], noise)
    options = [
        Option(candidate=by_label[label], forecast=forecast, risk=risks[label]) for label, forecast in forecasts.items()
    ]
    return options, refused


def studied_noise(probe: Probe) -> dict[str, float | None]:
    """Return the gradient noise of each of ``REFERENCES`` on the probe's place; ``None`` if it is not bounded."""
    return {name: _noise(probe, make_system(name)) for name in REFERENCES}


def _noise(probe: Probe, system: System) -> float | None:
    """Return the noise of a system's gradients on the probe's place; ``None`` if it is not bounded there.

    Without Theorem 3's factors it is the variance of messages, which gives systems the same order.
    """
    if system.sampler.p == 0.0:  # hidden edges are no noise of messages, which forecasts bound
        return None
    try:
        forecast = probe.forecast(system=with_probed_parts(system, probe.config.system))
    except ValueError:  # a part that needs another cut
        return None
    if forecast.no_variance or forecast.noise_share is not None:
        return forecast.noise_share
    return forecast.total_variance


def rank(options: Iterable[Option], objective: str) -> list[Option]:
    """Return the options by cost, the cheapest first; of equal costs the simplest first."""
    return sorted(options, key=lambda each: (each.cost(objective), each.candidate.steps, each.label))


def choose(ranked: Sequence[Option], objective: str) -> Option:
    """Return the simplest of the options whose costs are as low as predictions can tell.

    Args:
        ranked: the result of :func:`rank`, with at least one option.
        objective: its objective.
    """
    first = ranked[0]
    least = first.cost(objective)

    def is_as_good(option: Option) -> bool:
        tolerance = MARGIN if option.is_exact and not first.is_exact else TIE
        return option.cost(objective) <= (1 + tolerance) * least

    return min(filter(is_as_good, ranked), key=lambda each: (each.candidate.steps, each.cost(objective)))


def first_of_each_system(ranked: Iterable[Option]) -> list[Option]:
    """Return the best option of each system, in the order of the ranking."""
    firsts: dict[str, Option] = {}
    for option in ranked:
        firsts.setdefault(option.candidate.name, option)
    return list(firsts.values())


@dataclass(frozen=True, kw_only=True)
class RateChange:
    """Rate of the link from which on another system is chosen."""

    bits_per_s: float
    before: str
    """System below this rate."""
    after: str
    """System from this rate on."""

    def __str__(self) -> str:
        return f"from {human_bit_rate(self.bits_per_s)} on: {self.after} instead of {self.before}"


def scan_links(places: ProbedPlaces, options: Sequence[Option], objective: str) -> list[RateChange]:
    """Return the rates at which the choice changes, by the forecasts of options over other links.

    Bit-widths are those of the probed link, also of a policy that weighs seconds.

    Args:
        places: probes of the options.
        options: systems to choose from.
        objective: one of ``OBJECTIVES``.
    """
    hosts = places.probe.wire.hosts
    predictions = {
        each.label: places.find(each.candidate.system, services=each.candidate.services).prediction(each.forecast)
        for each in options
    }

    def chosen_at(mbit: float) -> str:
        linked_options = []
        for option in options:
            place = places.find(option.candidate.system, services=option.candidate.services)
            linked = place.with_link(f"{mbit:g}mbit", hosts=hosts)
            prediction = predictions[option.label].with_link(linked.timing, linked.wire)
            forecast = replace(option.forecast, phases=prediction.phases)
            linked_options.append(replace(option, forecast=forecast))
        return choose(rank(linked_options, objective), objective).candidate.name

    chosen = {float(rate): chosen_at(rate) for rate in RATES_MBIT}
    changes = []
    for low, high in itertools.pairwise(RATES_MBIT):
        before, after = chosen[low], chosen[high]
        if before == after:
            continue
        bottom, top = float(low), float(high)
        for _ in range(_HALVINGS):
            middle = float(f"{(bottom * top) ** 0.5:.2g}")  # two digits: predictions tell no more
            if chosen_at(middle) == before:
                bottom = middle
            else:
                top = middle
        changes.append(RateChange(bits_per_s=1e6 * top, before=before, after=after))
    return changes
