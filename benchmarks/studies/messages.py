"""Comparison of all systems where messages outweigh the weights, with the most that any way of sending could gain.

AdaQP's and SYLVIE's claims are about graphs whose messages are thousands of times as large as the weight gradients. On
small graphs gradients fill the link, and no system can gain much (``bench systems``). Here are graphs with more nodes,
four workers on two hosts and 300 epochs, SANCUS among the others, and PipeGCN with both forms of dropout (erratum
PI-2), all as published.

Column ``ceiling``: Vanilla's epoch over the same epoch without its messages. Computation and the all-reduce of weight
gradients remain, so no system that leaves these as they are can be faster.

Each training is stored: an interrupted table continues with the same command, and the time left is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.engine.graphs import find_graphs
from benchmarks.engine.trained import TrainingOptions, study_rows
from benchmarks.studies.systems import SHAPE, format_rows, services_by_label, table
from gnnqlab.study import Contestant

__all__ = ["GRAPHS", "LINES", "contestants", "format_rows", "messages"]

GRAPHS = ("amazon_computers", "tolokers", "coauthor_physics", "sbm:40000,16,50")
"""The graphs with the fewest nodes first."""
LINES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "vanilla": ("vanilla", {}),
    "random-bits": ("random-bits", {}),
    "adaqp": ("adaqp", {}),
    "pipegcn, receiver's dropout": ("pipegcn", {"dropped_by": "receiver"}),
    "pipegcn, owner's dropout": ("pipegcn", {"dropped_by": "owner"}),
    "bns-gcn": ("bns-gcn", {}),
    "sylvie": ("sylvie", {}),
    "cdfgnn": ("cdfgnn", {}),
    "sancus": ("sancus", {}),
}
"""Line -> recipe and its settings."""
EPOCHS, EVERY, WORKERS, HOSTS = 300, 10, 4, 2
COMM_SHARE = 0.75
"""Share of communication in Vanilla's epoch, as in AdaQP's Table 1."""


def contestants(names: Sequence[str] | None = None) -> list[Contestant]:
    """Return the lines of the table, always with Vanilla.

    Args:
        names: parts of the names of lines; by default all.

    Raises:
        ValueError: if a name is part of no line's name.

    Example:
        >>> [line.label for line in contestants(["pipegcn"])]
        ['vanilla', "pipegcn, receiver's dropout", "pipegcn, owner's dropout"]
    """
    from gnnqlab.systems import make_system

    unknown_names = [name for name in names or () if not any(name in line for line in LINES)]
    if unknown_names:
        raise ValueError(f"a line must be one of {list(LINES)}, got {unknown_names}")
    return [
        Contestant(name=line, system=make_system(recipe, **settings))
        for line, (recipe, settings) in LINES.items()
        if names is None or line == "vanilla" or any(name in line for name in names)
    ]


def messages(
    *,
    models: Sequence[str] = ("gcn",),
    systems: Sequence[str] | None = None,
    hosts: int = HOSTS,
    link: str | None = None,
    comm_share: float | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every line on every graph, and compare the trainings with Vanilla's.

    Args:
        models: names of models, in the shape of AdaQP Table 8.
        systems: parts of the names of lines; by default all.
        hosts: number of emulated hosts.
        link: rate of each host's link.
        comm_share: alternatively, share of communication in Vanilla's epoch; ``COMM_SHARE`` if neither is set.
        **options: see :class:`benchmarks.engine.trained.TrainingOptions`; by default the ``GRAPHS`` that exist here,
            ``EPOCHS`` and four workers.

    Returns:
        Rows of :func:`benchmarks.studies.systems.table`.

    Raises:
        ValueError: if there is no seed, or a graph, model or line is unknown.
    """
    share = COMM_SHARE if link is None and comm_share is None else comm_share
    lines = contestants(systems)
    run_options = TrainingOptions(**{"trainings": "runs/bench-messages", "workers": (WORKERS,), **options})
    settings = {**SHAPE, "epochs": EPOCHS, "evaluate_every": EVERY, "hosts": hosts, "link": link, "comm_share": share}
    return study_rows(
        lambda case, results: table(case, results, services_by_label(lines)),
        lines,
        case="{graph}, {model}, {workers} workers over {link}, {epochs} epochs, {seeds}",
        graphs=find_graphs(run_options.graph, GRAPHS, between=";"),
        models=models,
        **run_options.merge_into(settings),
    )
