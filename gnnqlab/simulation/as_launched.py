"""Threads of one process that train like launched workers, for systems without adaptive parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gnnqlab.bits.exact_at import DIRECTIONS
from gnnqlab.bits.policy import in_force
from gnnqlab.message.direction import by_direction, of_direction
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import Observers
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_context

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.cut import Cut

__all__ = ["threads_as_launched"]


def threads_as_launched(
    graph: Graph,
    cut: Cut,
    system: System,
    model: ModelSettings,
    settings: TrainSettings,
    observers: Sequence[Observers] = (),
) -> tuple[ThreadedWorkers, Any]:
    """Create the workers of a system with bit-widths by settings and epoch, and return them with their bit policy.

    Raises:
        ValueError: if bit-widths or schedule adapt, which threads of one process cannot repeat.
    """
    # Policies by settings and epoch do not depend on the worker: the one built for rank 0 serves all workers.
    shard = cut.shard(graph, 0)
    policy = by_direction(system.bits, partial(in_force, worker=worker_context(shard, settings)))
    # Decisions during training depend on values that are measured or reduced in launched workers only.
    names = [
        type(of_direction(system.bits, direction)).__name__
        for direction in DIRECTIONS
        if not of_direction(policy, direction).by_settings
    ]
    workers = ThreadedWorkers(graph, cut, system, model, settings, bits=policy, as_launched=True, observers=observers)
    exchange = workers.trainers[0].exchange
    if exchange is not None and exchange.schedule.adapts:
        names.append(type(system.schedule).__name__)
    if names:
        raise ValueError(
            f"bit-widths and schedule must follow from settings and epoch to be repeated here, got {names[0]}, "
            "which adapts during training; choose bits Fixed(), UniformRandom() or Growing(), and a fixed schedule"
        )
    return workers, policy
