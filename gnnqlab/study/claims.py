"""Quantitative claims of the papers as data: numbers as reported, rule, verdict here, and the scaled experiment.

The entries are in ``claims.toml``. A claim is judged by a mean and half its 95 % interval, see :meth:`Claim.judge`;
:func:`gnnqlab.study.reproduce` runs its experiment.
"""

from __future__ import annotations

import math
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.by_name import did_you_mean
from gnnqlab.study.quantities import QUANTITIES

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "PAPERS", "RULES", "SHOWS", "TAKES", "VERDICTS", "BenchExperiment", "Claim", "StudyExperiment", "claims_frame",
    "find_claim", "load_claims",
]  # fmt: skip

PAPERS = {
    "adaqp": "AdaQP",
    "sylvie": "SYLVIE",
    "cdfgnn": "CDFGNN",
    "tango": "TANGO",
    "mixgcn": "MixGCN",
    "grappa": "Grappa",
}
"""First part of an id -> name of the paper."""
HOLDS, IN_PART, FAILS, NOT_MEASURED = "holds", "in part", "does not hold", "not measured"
VERDICTS = (HOLDS, IN_PART, FAILS, NOT_MEASURED)
RULES = ("at least", "at most", "above", "below", "within", "near")
SHOWS = ("value", "ratio", "points", "difference", "share", "change")
"""Numbers of a benchmark's row: its value, its ratio, its points, the value minus the rival's, the value as a
percentage of the rival's, and the change from the rival's in per cent."""
TAKES = ("mean", "least")
"""Number of several rows: their mean with its interval, or the least one."""


@dataclass(frozen=True, kw_only=True)
class StudyExperiment:
    """Trainings of two systems with the same seeds, as a :class:`gnnqlab.study.Study`."""

    system: str
    quantity: str
    """Key of :data:`gnnqlab.study.quantities.QUANTITIES`."""
    baseline: str = "vanilla"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the system; the others are its own defaults."""
    baseline_settings: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 2
    baseline_workers: int | None = None
    """Workers of the baseline, if their number differs."""
    seeds: int = 5
    """Largest number of seeds."""
    minutes: float
    """Approximate duration of one seed on two cores."""
    grid: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the study: graphs, models, epochs, link."""

    @property
    def labels(self) -> tuple[str, str]:
        """Return the names of system and baseline with their settings."""
        system, baseline = (
            ":".join([name, *(f"{key}={value}" for key, value in settings.items())])
            for name, settings in ((self.system, self.settings), (self.baseline, self.baseline_settings))
        )
        return system, baseline

    @property
    def text(self) -> str:
        """Return systems, model, graph, number of workers, and link."""
        link = self.grid.get("link", "")
        if "comm_share" in self.grid:
            link = f"{self.grid['comm_share']:.0%} of Vanilla's epoch"
        systems = " and ".join(dict.fromkeys(self.labels))
        place = f"{self.grid['models'][0]} on {self.grid['graphs'][0]}, {self.workers} workers"
        return f"{systems}: {place}" + (f", link {link}" if link else "")


@dataclass(frozen=True, kw_only=True)
class BenchExperiment:
    """Command of ``gnnqlab bench`` and the rows that hold the number, found by regular expressions of whole columns."""

    command: str
    """Words after ``gnnqlab bench``."""
    minutes: float
    """Approximate duration on two cores."""
    show: str = ""
    """One of ``SHOWS``; empty if the claim is not one number of the table."""
    take: str = "mean"
    """One of ``TAKES``."""
    exact: bool = False
    """True for counted numbers, which have no spread."""
    table: str = ""
    """Name of the stored table; by default that of the benchmark."""
    case: str = ".*"
    contestant: str = ".*"
    metric: str = ".*"
    rival: str = ".*"

    @property
    def text(self) -> str:
        """Return the whole command."""
        return f"gnnqlab bench {self.command}"

    @property
    def words(self) -> list[str]:
        """Return the words after ``gnnqlab bench``."""
        return shlex.split(self.command)

    @property
    def stored_table(self) -> str:
        """Return the name of the stored table with rows of this command."""
        return self.table or self.words[0]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One quantitative claim of a paper.

    Example:
        >>> claim = find_claim("adaqp:table4-throughput")
        >>> claim.reported, claim.judge(2.5, 0.2), claim.judge(1.5, 0.2), claim.judge(1.1, 0.2)
        ((2.19, 3.01), 'holds', 'in part', 'does not hold')
    """

    id: str
    """``PAPER:PLACE-TOPIC``."""
    place: str
    """Table, figure or section."""
    claim: str
    """The statement, in this project's words."""
    reported: tuple[float, ...]
    """Numbers of the paper in ``unit``; empty if a figure only draws them."""
    unit: str
    verdict: str
    """One of ``VERDICTS``, over all that was measured."""
    rule: str = ""
    """One of ``RULES``; empty if no number decides."""
    tolerance: float = 0.0
    """Accepted distance from the reported numbers."""
    here: str = ""
    """Measured numbers and their source; empty if nothing was measured."""
    missing: str = ""
    """Measurement that could change the verdict, or the reason why there is none."""
    notebook: str = ""
    """Number of the notebook that measures it."""
    shown_in: tuple[str, ...] = ()
    """Numbers of other notebooks whose table of claims has it."""
    experiment: StudyExperiment | BenchExperiment | None = None

    @property
    def paper(self) -> str:
        """Return the first part of the id."""
        return self.id.partition(":")[0]

    @property
    def neutral(self) -> float:
        """Return the value of no effect: 1 for ratios, 0 for differences and shares."""
        return 1.0 if self.unit.startswith("×") else 0.0

    @property
    def reported_text(self) -> str:
        """Return the reported numbers with their unit."""
        if not self.reported:
            return "drawn, no number"
        return f"{', '.join(f'{number:g}' for number in self.reported)} {self.unit}".replace("-", "\N{MINUS SIGN}")

    @property
    def experiment_text(self) -> str:
        """Return the scaled experiment in one line; empty without one."""
        if self.experiment is not None:
            return self.experiment.text
        return f"notebook {self.notebook}" if self.notebook else ""

    def judge(self, mean: float, half: float) -> str:
        """Return the verdict about a measured number.

        ``at least``: the claim holds if the mean reaches the lowest reported number and the whole interval lies on its
        side of no effect; in part if only the interval does. If the reported number lies on the other side of no
        effect, the claim holds if the whole interval reaches it, and in part if some of it does. ``at most`` is the
        reverse, with the highest number. ``above`` and ``below`` need the whole interval on that side of no effect.
        ``within`` and ``near``: the claim holds if the reported range, widened by the tolerance, contains the
        interval, in part if they overlap. A number without interval is judged one step lower.

        Args:
            mean: in the unit of the claim.
            half: half the 95 % interval; 0 for a counted number, NaN for one value without interval.

        Raises:
            ValueError: if the claim has no rule.
        """
        if not self.rule:
            raise ValueError(f"{self.id} must have a rule to be judged, got none; {self._way()}")
        spread = 0.0 if math.isnan(half) else half
        verdict = self._judge_range(mean, spread) if self.rule in ("within", "near") else self._judge_side(mean, spread)
        if math.isnan(half):
            return IN_PART if verdict == HOLDS else FAILS
        return verdict

    def _judge_range(self, mean: float, half: float) -> str:
        numbers = self.reported or (self.neutral,)
        low, high = min(numbers) - self.tolerance, max(numbers) + self.tolerance
        if low <= mean - half and mean + half <= high:
            return HOLDS
        return IN_PART if mean - half <= high and low <= mean + half else FAILS

    def _judge_side(self, mean: float, half: float) -> str:
        sign = 1.0 if self.rule in ("at least", "above") else -1.0
        # Mirrored for "at most" and "below", so that larger is always nearer to the claim.
        value, neutral = sign * mean, sign * self.neutral
        if self.rule in ("above", "below"):
            return HOLDS if value - half > neutral else FAILS
        target = min(sign * number for number in self.reported) - self.tolerance
        if target > neutral:
            has_direction = value - half > neutral
            return HOLDS if has_direction and value >= target else IN_PART if has_direction else FAILS
        return HOLDS if value - half >= target else IN_PART if value + half >= target else FAILS

    def _way(self) -> str:
        """Return the way to measure a claim that has no rule, or the reason why there is none."""
        if self.experiment is not None:
            return f"run {self.experiment.text} and compare its table"
        return f"open notebook {self.notebook}: gnnqlab notebooks" if self.notebook else f"missing: {self.missing}"

    def require_measurable(self) -> StudyExperiment | BenchExperiment:
        """Return the experiment of a claim that one number decides.

        Raises:
            ValueError: if there is none; the message has the reason or the way.
        """
        if self.experiment is None or not self.rule:
            raise ValueError(f"{self.id} must have an experiment with a rule, got none; {self._way()}")
        return self.experiment


@cache
def _all_claims() -> tuple[Claim, ...]:
    data = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
    claims = tuple(_claim(entry, data["base"]) for entry in data["claim"])
    ids = [claim.id for claim in claims]
    if repeated := sorted({each for each in ids if ids.count(each) > 1}):
        raise ValueError(f"ids of claims must differ, got {repeated} more than once")
    return claims


def _claim(entry: Mapping[str, Any], bases: Mapping[str, Mapping[str, Any]]) -> Claim:
    """Build a claim from its entry; its study has the settings of a base, changed by its own.

    Raises:
        ValueError: if a word is none of its list.
    """
    values = dict(entry)
    study, bench = values.pop("study", None), values.pop("bench", None)
    experiment: StudyExperiment | BenchExperiment | None = None
    if study is not None:
        settings = {**bases[study["base"]], **{name: value for name, value in study.items() if name != "base"}}
        own = {name: settings.pop(name) for name in StudyExperiment.__dataclass_fields__ if name in settings}
        experiment = StudyExperiment(**own, grid=settings)
        _check(values["id"], "quantity", experiment.quantity, QUANTITIES)
    elif bench is not None:
        experiment = BenchExperiment(**bench)
        _check(values["id"], "show", experiment.show, ("", *SHOWS))
        _check(values["id"], "take", experiment.take, TAKES)
    values |= {"reported": tuple(map(float, values["reported"])), "shown_in": tuple(values.get("shown_in", ()))}
    claim = Claim(**values, experiment=experiment)
    for name, known in (("paper", PAPERS), ("verdict", VERDICTS), ("rule", ("", *RULES))):
        _check(claim.id, name, getattr(claim, name), known)
    if claim.rule in ("at least", "at most", "within") and not claim.reported:
        raise ValueError(f"{claim.id}: rule {claim.rule!r} needs a reported number; choose above, below or near")
    return claim


def _check(place: str, name: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"{place}: {name} must be one of {tuple(known)}, got {value!r}{did_you_mean(value, known)}")


def load_claims(paper: str | None = None, verdict: str | None = None) -> list[Claim]:
    """Return the claims of all papers or of one, with any verdict or with one.

    Args:
        paper: key of ``PAPERS``.
        verdict: one of ``VERDICTS``.

    Raises:
        ValueError: if there is no such paper or verdict.

    Example:
        >>> [claim.id for claim in load_claims("adaqp", "not measured")][:2]
        ['adaqp:table1-share-grows', 'adaqp:figure10-computation']
    """
    for name, value, known in (("paper", paper, tuple(PAPERS)), ("verdict", verdict, VERDICTS)):
        if value is not None and value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}{did_you_mean(value, known)}")
    return [
        claim for claim in _all_claims()
        if (paper is None or claim.paper == paper) and (verdict is None or claim.verdict == verdict)
    ]  # fmt: skip


def find_claim(name: str) -> Claim:
    """Return the claim with an id.

    Raises:
        ValueError: if there is none.
    """
    claims = {claim.id: claim for claim in _all_claims()}
    if name not in claims:
        raise ValueError(f"a claim must be one of gnnqlab reproduce --list, got {name!r}{did_you_mean(name, claims)}")
    return claims[name]


def claims_frame(*ids: str, paper: str | None = None, verdict: str | None = None) -> pd.DataFrame:
    """Return claims as a table: paper, place, claim, reported numbers, numbers here, verdict, and missing measurements.

    Args:
        *ids: ids in the order of the rows; by default all claims.
        paper, verdict: as for :func:`load_claims`; without ``ids`` only.

    Example:
        >>> claims_frame("tango:figure8-dgl")[["paper", "reported", "verdict"]].values.tolist()
        [['TANGO', '1.2, 1.5 × as fast', 'holds']]
    """
    import pandas as pd

    claims = [find_claim(name) for name in ids] if ids else load_claims(paper, verdict)
    rows = [
        {
            "id": claim.id,
            "paper": PAPERS[claim.paper],
            "place": claim.place,
            "claim": claim.claim,
            "reported": claim.reported_text,
            "here": claim.here or NOT_MEASURED,
            "verdict": claim.verdict,
            "missing": claim.missing,
            "experiment": claim.experiment_text,
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).set_index("id")
