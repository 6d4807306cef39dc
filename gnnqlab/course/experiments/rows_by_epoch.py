"""Rows of messages as a training goes on: the same kinds, from weights of one epoch after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.codec_error import Rows, trained_rows
from gnnqlab.simulation.gradient_noise import trained_weights
from gnnqlab.systems.system import System

__all__ = ["rows_by_epoch"]


def rows_by_epoch(
    graph: Graph,
    model: ModelSettings,
    epochs: Sequence[int],
    *,
    workers: int,
    most: int,
    system: System | None = None,
    seed: int = 0,
) -> Iterator[tuple[int, dict[Rows, Tensor]]]:
    """Yield each epoch with what workers would send in it, as `trained_rows` returns it.

    Args:
        epochs: numbers of epochs trained before, rising from 0 on.
        workers: how many send.
        most: rows of each kind of message that are drawn.
        system: its partitioner is used; METIS by default.
        seed: of weights and draws.

    Raises:
        ValueError: if epochs do not rise.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import make_system
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> shape = ModelSettings(layers=2, hidden=8)
        >>> found = rows_by_epoch(load("sbm:60,3,6"), shape, (0, 2), workers=2, most=20, system=recipe)
        >>> [(epoch, len(kinds)) for epoch, kinds in found]
        [(0, 4), (2, 4)]
    """
    if list(epochs) != sorted(set(epochs)) or not epochs or epochs[0] < 0:
        raise ValueError(f"epochs must rise from 0 on, got {list(epochs)}; for instance (0, 5, 20, 60)")
    for epoch in epochs:
        weights = trained_weights(graph, model, epoch, seed=seed)
        yield epoch, trained_rows(graph, model, weights, workers=workers, most=most, system=system, seed=seed)
