"""Live bytes by purpose that a system is going to need: a trial of two epochs on workers in this process.

Each worker is a thread with a ledger of its own, as launched workers have; codec, cache, bits and schedule are the
system's. Nothing is launched. The trial itself takes about the memory of all workers together.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources import load
from gnnqlab.measure.in_process import ThreadedWorkers
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.systems.system import System
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.ledger import PURPOSES, Ledger, counting
from gnnqlab.train.trainer import Trainer

__all__ = ["foreseen_memory"]


def foreseen_memory(
    graph: Graph | str | Path,
    model: ModelSettings,
    system: System,
    *,
    workers: int,
    settings: TrainSettings | None = None,
) -> dict[str, int]:
    """Return bytes by purpose of the worker that needs the most, at the peak of an epoch and its evaluation.

    Not counted: what a policy that assigns widths needs while it does (``assigned``, ``orchestrated``).

    Args:
        graph: the whole graph, or its name or path.
        model: its settings.
        system: all its parts are used; widths are those of the first epochs.
        workers: number of partitions.
        settings: seed and learning rate.

    Raises:
        ValueError: if a name or a value is wrong.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import vanilla
        >>> recipe = replace(vanilla(), partition=Random())
        >>> found = foreseen_memory("sbm:60,3,6", ModelSettings(layers=2, hidden=8), recipe, workers=2)
        >>> list(found)
        ['weights', 'adjacency', 'kept', 'rows', 'halo', 'buffers']
    """
    whole = graph if isinstance(graph, Graph) else load(graph)
    cut = cut_graph(whole, system.partition, workers)
    threads = ThreadedWorkers(whole, cut, system, model, settings or TrainSettings(), as_launched=True)
    threads.step(0)  # sets things up: buffers, moments of the optimizer
    threads.run(lambda trainer: trainer.evaluate(0))
    counts = threads.run(_counted)
    return max(counts, key=lambda count: sum(count.values()))


def _counted(trainer: Trainer) -> dict[str, int]:
    opened: tuple[ExitStack, Ledger] = counting(trainer)
    stack, ledger = opened
    with stack:
        trainer.gradients(1)
        trainer.optimizer.step()
        trainer.evaluate(1)
    return {purpose: ledger.at_peak[purpose] for purpose in PURPOSES}
