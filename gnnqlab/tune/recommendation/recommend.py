"""``gq.recommend``: the system, partitioner and number of workers for a graph, a model and a link."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.terminal import say_on_screen, show_elapsed
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.probe import Probe, probe
from gnnqlab.tune.recommendation.alternatives import list_alternatives
from gnnqlab.tune.recommendation.candidates import Candidate, list_candidates
from gnnqlab.tune.recommendation.confirm import confirm_best
from gnnqlab.tune.recommendation.places import ProbedPlaces
from gnnqlab.tune.recommendation.ranking import (
    OBJECTIVES,
    Option,
    RateChange,
    choose,
    first_of_each_system,
    make_options,
    rank,
    scan_links,
)
from gnnqlab.tune.recommendation.result import Recommendation
from gnnqlab.tune.recommendation.untrained import estimate_probe

__all__ = ["rank_systems", "recommend"]

_TRACED = 24
"""Epochs of a probe: ranges of the first assignment, the bound, and losses about which SYLVIE's rule decides."""
_SCANNED = 6
"""Systems other than Vanilla that a scan of link rates compares."""


def recommend(
    graph: GraphLike | RunConfig,
    *,
    workers: int = 2,
    hosts: int | None = None,
    link: str | None = None,
    model: str | ModelSettings = "gcn",
    objective: str = "time to accuracy",
    systems: Sequence[str] | None = None,
    estimate: bool = False,
    confirm: bool = False,
    epochs: int = 30,
    known: Probe | None = None,
    out: Path | str | None = None,
    say: Callable[[str], None] = say_on_screen,
    **settings: Any,
) -> Recommendation:
    """Rank all systems and partitioners, with and without common optimizations, from one probe.

    Args:
        graph: a graph, its name or path, or the whole configuration of a run of Vanilla.
        workers: number of partitions, at least 2.
        hosts: number of hosts with equally many workers; 2 if there is a link, else 1.
        link: rate of each host's link, for instance ``100mbit``.
        model: a model's name, or its settings.
        objective: ``time to accuracy``: seconds until Vanilla's accuracy; ``bytes``: bytes sent until then;
            ``memory``: the worker that needs the most.
        systems: names of systems to rank; all registered ones by default. Vanilla is always included.
        estimate: True for no probe: bytes from the cut alone, seconds by constants. Only systems on the edge-cut with
            float32 products.
        confirm: True to train the best three and Vanilla, whose measured epochs decide then.
        epochs: of each confirming training, at least 6.
        known: existing probe of the same graph, model, workers and link, without other systems' parts.
        out: folder of confirming runs; by default they are deleted.
        say: called with a line of text about each step; by default prints it on a terminal and in a notebook.
        **settings: as for :func:`gnnqlab.configure`: ``layers``, ``hidden``, ``seed`` ...

    Returns:
        A :class:`Recommendation`: ``.best``, ``.reason``, ``.changes``, ``.alternatives``, ``.config``;
        ``.to_frame()`` has all options with their numbers.

    Raises:
        ValueError: if the objective, a name or a value is wrong, before anything is measured.

    Example:
        ``gq.recommend("digits", workers=4, hosts=2, link="100mbit").reason``
    """
    objective = _check(objective, workers, epochs, estimate=estimate)
    candidates = list_candidates(systems, partitions=not estimate)
    if isinstance(graph, RunConfig):
        config = graph
    else:
        place: dict[str, Any] = {"workers": workers, "hosts": hosts, "link": link, "model": model}
        given = {name: value for name, value in place.items() if value is not None}
        config = configure(graph, **given, **settings)
    if config.workers < 2:
        raise ValueError(f"workers must be at least 2 to compare systems, got {config.workers}; one process needs none")
    loaded_graph = graph if isinstance(graph, Graph) else load(config.graph)
    if known is None:
        say("estimating from the cut" if estimate else "probing: traces ranges, launches two short runs")
        known = estimate_probe(loaded_graph, config) if estimate else probe(config, epochs=_TRACED)
    found = rank_systems(known, loaded_graph, candidates, objective=objective, say=say)
    if not confirm:
        return found
    if out is not None:
        return confirm_best(found, graph if not isinstance(graph, RunConfig) else config.graph, epochs, Path(out), say)
    with tempfile.TemporaryDirectory(prefix="gnnqlab-recommend-", ignore_cleanup_errors=True) as folder:
        return confirm_best(
            found, graph if not isinstance(graph, RunConfig) else config.graph, epochs, Path(folder), say
        )


def rank_systems(
    known: Probe,
    graph: Graph,
    candidates: Sequence[Candidate],
    *,
    objective: str = "time to accuracy",
    say: Callable[[str], None] = lambda line: None,
) -> Recommendation:
    """Rank candidates from a probe of Vanilla.

    Args:
        known: probe, or estimate, of Vanilla's parts.
        graph: its graph.
        candidates: systems to rank, with Vanilla as published.
        objective: one of ``OBJECTIVES``.
        say: called with a line of text about each step.

    Raises:
        ValueError: if Vanilla itself has no forecast.
    """
    places = ProbedPlaces(known, graph)
    refused: dict[str, str] = {}
    if not known.timing.launched and not known.trace.losses:  # an estimate has only its own place
        refused = {each.label: "needs a probe; leave estimate out" for each in candidates if not _on_place(each, known)}
    if objective == "memory":  # trials take the most time, and common optimizations change no memory
        candidates = [each for each in candidates if not each.services and not each.partition]
    say(f"forecasting {len(candidates) - len(refused)} options")
    with show_elapsed("forecasting"):
        options, reasons = make_options(places, [each for each in candidates if each.label not in refused])
        ranked = rank(options, objective)
    vanilla = next((each for each in ranked if each.label == "vanilla"), None)
    if vanilla is None:
        raise ValueError(f"vanilla must have a forecast to compare with, got none: {reasons['vanilla']}")
    changes: list[RateChange] = []
    if known.wire.hosts > 1 and objective == "time to accuracy":
        say("scanning rates of the link")
        with show_elapsed("scanning"):
            changes = _scan(places, ranked, objective)
    return Recommendation(
        objective=objective,
        probe=known,
        options=tuple(ranked),
        best=choose(ranked, objective),
        vanilla=vanilla,
        alternatives=tuple(list_alternatives(known)),
        changes=tuple(changes),
        refused={**refused, **reasons},
    )


def _on_place(candidate: Candidate, known: Probe) -> bool:
    system, probed = candidate.system, known.config.system
    return all(getattr(system, axis) == getattr(probed, axis) for axis in ("partition", "exchange", "compute"))


def _scan(places: ProbedPlaces, ranked: Sequence[Option], objective: str) -> list[RateChange]:
    """Return the changes over other rates among the best systems, and Vanilla with and without optimizations."""
    firsts = [each for each in first_of_each_system(ranked) if each.candidate.name != "vanilla"][:_SCANNED]
    chosen = [*firsts, *(each for each in ranked if each.label in ("vanilla", "vanilla+"))]
    return scan_links(places, chosen, objective)


def _check(objective: str, workers: int, epochs: int, *, estimate: bool) -> str:
    """Return the objective by its full name."""
    if objective == "time":
        objective = OBJECTIVES[0]
    if objective not in OBJECTIVES:
        names = ("time", *OBJECTIVES[1:])  # as on the command line; the long form is accepted too
        raise ValueError(f"systems are ranked by one of {names}, got {objective!r}")
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 2:
        raise ValueError(f"workers must be at least 2 to compare systems, got {workers}; one process needs none")
    if epochs < 6:
        raise ValueError(f"epochs must be at least 6 to confirm, because the first ones are left out, got {epochs}")
    if estimate and objective == "memory":
        raise ValueError("objective 'memory' needs trials of every system, got estimate=True; leave estimate out")
    return objective
