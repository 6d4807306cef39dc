"""Risk that a system misses Vanilla's accuracy, from the stored tables of studies, or from the noise of gradients.

A study trains a system and Vanilla with the same seeds and counts the trainings that reach Vanilla's best validation
score less half a point. The share that reach it, and the epochs until then relative to Vanilla's, are the risk. A
system without such a study has the risk of the studied system whose gradient noise (Theorem 3's bound over the squared
gradient) is the next higher one on the same graph; without a bound, the highest counted risk. If a study compared test
scores only, the risk is at least that of studied systems with less noise.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gnnqlab.results import load
from gnnqlab.tune.recommendation.candidates import Candidate, approximations

__all__ = ["REFERENCES", "AccuracyRisk", "find_risks", "read_studies", "risk_of_noise"]

REFERENCES = ("adaqp", "random-bits", "sylvie")
"""Systems with quantized messages whose trainings were counted."""

_STUDIES = ("systems", "precision", "broadcasts", "tango", "codecs-trainings", "accuracy", "exact")
"""Stored tables, the first one with a system counts."""
_ROWS = {
    "adaqp-q": "adaqp",  # the same messages
    "exact": "2 bits",
    "fixed-bits": "2-bit",
    "sancus": "sancus, variation",
    "tango": "int8, scale by tensor",
}
"""System -> name of its rows in a table, if it differs."""
_MARGIN = 0.5
"""Points below Vanilla's score that count as its accuracy."""
_LEAST = 0.05
"""Least share of trainings that reach the accuracy, so that costs stay finite."""


@dataclass(frozen=True, kw_only=True)
class AccuracyRisk:
    """Share of trainings that reach Vanilla's accuracy, and their epochs until then."""

    reached: float
    """Share of trainings that reach Vanilla's accuracy, in [0, 1]."""
    epochs: float
    """Epochs until then relative to Vanilla's, at least 1: no system is credited with fewer."""
    source: str
    """Origin of both numbers in words."""
    counted: bool = True
    """True if trainings were counted; false if the share follows from test scores or from noise."""

    @property
    def factor(self) -> float:
        """Expected epochs until Vanilla's accuracy relative to Vanilla's, if a training that misses it is repeated.

        Example:
            >>> AccuracyRisk(reached=0.5, epochs=1.5, source="").factor
            3.0
        """
        return self.epochs / max(self.reached, _LEAST)


Reference = tuple[float | None, str, AccuracyRisk]
"""Gradient noise, name and risk of a studied system."""
NONE = AccuracyRisk(reached=1.0, epochs=1.0, source="trains as one process does")


@functools.cache
def read_studies() -> Mapping[str, AccuracyRisk]:
    """Return name of a table's row -> risk, from the stored tables of studies.

    Example:
        >>> 0 < read_studies()["adaqp"].reached <= 1 <= read_studies()["adaqp"].epochs
        True
    """
    tables = load()
    risks: dict[str, AccuracyRisk] = {}
    for part in _STUDIES:
        rows_by_name: dict[str, list[dict[str, Any]]] = {}
        for row in tables[part]["rows"] if part in tables else ():
            # Tables of one process name the setting in the case, and compare with float32.
            name = row.get("contestant") or str(row["case"]).rpartition(", ")[2]
            if row.get("rival") in ("vanilla", "float32") or "reach it" in str(row["figure"]):
                rows_by_name.setdefault(name, []).append(row)
        for name, rows in rows_by_name.items():
            risk = _counted(rows, part) or _estimated(rows, part)
            if risk is not None:
                risks.setdefault(name, risk)
    return risks


def find_risks(candidates: Iterable[Candidate], noise: Mapping[str, float | None]) -> dict[str, AccuracyRisk]:
    """Return label -> risk of each candidate.

    Args:
        candidates: systems to judge.
        noise: name of a system -> its gradient noise, ``None`` if it is not bounded; of the candidates, and of the
            studied systems ``REFERENCES``.
    """
    studies = read_studies()
    counted = [(noise.get(name), name, studies[name]) for name in REFERENCES if name in studies]
    # Noisier ones last; without a bound a studied system is no reference.
    references = sorted((entry for entry in counted if entry[0] is not None), key=lambda entry: entry[0] or 0.0)
    risks = {}
    for candidate in candidates:
        own_name = _ROWS.get(candidate.name, candidate.name)
        study = studies.get(own_name + ("+" if candidate.services else ""), studies.get(own_name))
        own_noise = noise.get(candidate.name)
        if candidate.name == "vanilla" or not approximations(candidate.published):
            risks[candidate.label] = NONE
        elif study is None:
            risks[candidate.label] = _by_noise(own_noise, references, studies.values())
        else:
            risks[candidate.label] = study if study.counted else _not_below(study, own_noise, references)
    return risks


def risk_of_noise(noise: float | None, studied: Mapping[str, float | None]) -> AccuracyRisk:
    """Return the risk of messages with some gradient noise, by comparison with the studied systems.

    Args:
        noise: gradient noise of the settings, ``None`` if it is not bounded; 0 for float32 messages.
        studied: name of each of ``REFERENCES`` -> its gradient noise on the same graph.
    """
    if noise == 0:
        return NONE
    studies = read_studies()
    counted = [(studied[name], name, studies[name]) for name in REFERENCES if studied.get(name) and name in studies]
    return _by_noise(noise, sorted(counted, key=lambda entry: entry[0] or 0.0), studies.values())


def _by_noise(noise: float | None, references: Sequence[Reference], studies: Iterable[AccuracyRisk]) -> AccuracyRisk:
    """Return the risk of the studied system with the next higher noise; the highest counted risk without one."""
    for bound, name, risk in references:
        if noise is not None and bound is not None and bound >= noise:
            text = f"gradient noise {noise:.2g}, at most that of {name} ({bound:.2g}); {risk.source}"
            return replace(risk, source=text, counted=False)
    highest = max((risk for risk in studies if risk.counted), key=lambda risk: risk.factor)
    reason = "no bound of its noise" if noise is None else f"gradient noise {noise:.2g}, above all studied systems"
    return replace(highest, source=f"no study; {reason}: the highest risk of a study", counted=False)


def _not_below(study: AccuracyRisk, noise: float | None, references: Sequence[Reference]) -> AccuracyRisk:
    """Return a risk by test scores, or that of a studied system with less noise if it is higher."""
    for bound, name, risk in references:
        if noise is not None and bound is not None and bound <= noise and risk.factor > study.factor:
            text = f"gradient noise {noise:.2g}, more than that of {name} ({bound:.2g}); {risk.source}"
            study = replace(risk, source=text, counted=False)
    return study


def _counted(rows: list[dict[str, Any]], part: str) -> AccuracyRisk | None:
    """Return the risk from rows that count the trainings which reach the accuracy; ``None`` if there are none."""
    reached = total = 0
    epochs = []
    whole = {row["case"]: row["ratio"] for row in rows if row.get("metric") == "whole training"}
    for row in rows:
        match = re.search(r"\((?:.*?; )?(\d+) of (\d+) (?:reach it|seeds)", str(row["figure"]))
        if row.get("reached_by") is not None:
            reached, total = reached + int(row["reached_by"]), total + int(row["seeds"])
            # Share of the training until the accuracy, relative to Vanilla's share.
            epochs.append(row["ratio"] / row["faster_to_target"])
        elif match:
            reached, total = reached + int(match[1]), total + int(match[2])
            if row["case"] in whole:
                epochs.append(whole[row["case"]] / row["ratio"])
    if not total:
        return None
    known_epochs = [value for value in epochs if value == value]  # NaN: no seed reached it
    factor = max(1.0, statistics.median(known_epochs)) if known_epochs else 1.0
    return AccuracyRisk(reached=reached / total, epochs=factor, source=f"bench {part}: {reached} of {total} trainings")


def _estimated(rows: list[dict[str, Any]], part: str) -> AccuracyRisk | None:
    """Return the risk from differences of test scores: the share of a normal distribution above half a point."""
    shares = []
    for row in rows:
        match = re.search(r"test score.*?([+-]?[\d.]+) ± ([\d.]+) points", str(row["figure"]))
        seeds = re.search(r"(\d+) seed", f"{row['figure']} {row['case']}")
        if match and seeds and int(seeds[1]) > 1:
            points, half = float(match[1]), float(match[2])
            deviation = half * math.sqrt(int(seeds[1])) / _quantile(int(seeds[1]))
            shares.append(statistics.NormalDist(points, max(deviation, 1e-9)).cdf(-_MARGIN))
    if not shares:
        return None
    reached = 1 - statistics.fmean(shares)
    text = f"bench {part}: {reached:.0%} of trainings by the difference of test scores"
    return AccuracyRisk(reached=reached, epochs=1.0, source=text, counted=False)


def _quantile(seeds: int) -> float:
    """Return the factor of a 95 % interval over a number of seeds (Student's t)."""
    from scipy.special import stdtrit

    return float(stdtrit(seeds - 1, 0.975))
