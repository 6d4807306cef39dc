"""Short trainings of the best options and Vanilla, whose measured epochs decide."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.study import Contestant, Study
from gnnqlab.train.config.run_config import LaunchSettings, TrainSettings
from gnnqlab.tune.recommendation.ranking import Option
from gnnqlab.tune.recommendation.result import Recommendation

__all__ = ["confirm_best", "contestant_of", "study_settings"]

_TRAINED = 3
"""Number of options that are trained with Vanilla."""
_OWN = ("epochs", "seed", "evaluate_every", "gradients")
"""Settings of a training that the study sets itself."""


def contestant_of(option: Option) -> Contestant:
    """Return an option as a contestant of a study."""
    candidate = option.candidate
    name = candidate.name + (f" on {candidate.partition}" if candidate.partition else "")
    return Contestant(name=name, system=candidate.published, services="every" if candidate.services else "published")


def study_settings(recommendation: Recommendation) -> dict[str, Any]:
    """Return the settings of the probe's configuration as arguments of a study."""
    config = recommendation.probe.config
    train = _changed(config.train, TrainSettings(), without=_OWN)
    launch = _changed(config.launch, LaunchSettings(), without=("comm_share", "vanilla_share"))
    return {"models": [config.model], "workers": config.workers, **launch, **train}


def confirm_best(
    recommendation: Recommendation, graph: GraphLike, epochs: int, folder: Path, say: Callable[[str], None]
) -> Recommendation:
    """Train the best options and Vanilla, and choose by the measured epochs.

    Args:
        recommendation: the predictions.
        graph: its graph.
        epochs: of each training.
        folder: of the study and its runs.
        say: called with a line of text before.
    """
    import pandas as pd

    options = {each.label: each for each in (recommendation.best, *recommendation.options[:_TRAINED])}
    options = dict(list(options.items())[:_TRAINED])
    options.setdefault(recommendation.vanilla.label, recommendation.vanilla)
    say(f"training {', '.join(options)} for {epochs} epochs each")
    contestants = {contestant_of(option).label: option for option in options.values()}
    study = Study(
        systems=[contestant_of(option) for option in options.values()],
        graphs=[graph],
        seeds=[recommendation.probe.config.train.seed],
        folder=folder,
        epochs=epochs,
        **study_settings(recommendation),
    ).run()
    (results,) = study.results().values()
    rows = []
    for label, option in contestants.items():
        (result,) = results[label]
        measured_s = result.settled_s()
        rows.append(
            {
                "option": option.label,
                "predicted_s": option.forecast.epoch_s,
                "measured_s": measured_s,
                "error": option.forecast.epoch_s / measured_s - 1,
                "predicted_bytes": option.forecast.bytes_sent,
                "measured_bytes": result.bytes_sent,
                "best_validation": result.best,
            }
        )
    confirmed = pd.DataFrame(rows).set_index("option")
    return replace(recommendation, study=study, confirmed=confirmed, best=_fastest(recommendation, options, confirmed))


def _fastest(recommendation: Recommendation, options: dict[str, Option], confirmed: Any) -> Option:
    """Return the option with the lowest measured cost; predictions only select the options to train."""
    if recommendation.objective != "time to accuracy":  # bytes and memory do not depend on a run's speed
        return recommendation.best
    costs = {label: confirmed["measured_s"][label] * option.risk.factor for label, option in options.items()}
    return options[min(costs, key=lambda label: costs[label])]


def _changed(settings: Any, default: Any, *, without: Collection[str]) -> dict[str, Any]:
    """Return the settings of a section that differ from its defaults."""
    names = [field.name for field in fields(settings) if field.init and field.name not in without]
    return {name: getattr(settings, name) for name in names if getattr(settings, name) != getattr(default, name)}
