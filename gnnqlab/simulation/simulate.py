"""Simulation of a system in this process, with observers; shards, channels and codecs are those of a launched run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.sources import load
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import Observer, Observers
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.recorders import report_epoch, take_decisions
from gnnqlab.train.loop.trainer import Trainer

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Simulation", "simulate"]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A simulated training and its observers."""

    losses: tuple[float, ...]
    """Loss of each epoch, before its step."""
    observers: tuple[tuple[Observer, ...], ...]
    """Observers of each worker, in the order of the argument."""

    @property
    def tables(self) -> dict[str, DataFrame]:
        """Tables of the observers by name of their class, with a column ``rank``."""
        import pandas as pd

        rows: dict[str, list[dict[str, Any]]] = {}
        for rank, observers in enumerate(self.observers):
            for observer in observers:
                lines = rows.setdefault(type(observer).__name__, [])
                lines += ({"rank": rank, **row} for row in observer.table())
        return {name: pd.DataFrame(lines) for name, lines in rows.items()}


def simulate(
    graph: GraphLike,
    system: str | System = "vanilla",
    *,
    observers: Iterable[type[Observer]] = (),
    workers: int = 2,
    epochs: int = 1,
    model: str | ModelSettings = "gcn",
    partition: Partitioner | None = None,
    seed: int = 0,
    **shape: Any,
) -> Simulation:
    """Train some epochs with every worker as a thread of this process, and return losses and observers.

    Messages pass through queues in place of sockets; losses, messages and decisions are those of a launched run,
    seconds are not. Losses of two workers are bitwise equal; of more, gradients are summed in another order.

    Args:
        graph: a graph, its name or path, or another library's graph.
        system: a system's name, or a :class:`System`, without decisions by measured seconds.
        observers: classes; each worker gets an instance of each, constructed without arguments.
        workers: number of partitions, at least 2 for messages.
        epochs: number of epochs to train.
        model: a model's name or settings.
        partition: a partitioner in place of the system's own.
        seed: of weights, noise and dropout.
        **shape: ``layers``, ``hidden``, ``dropout`` and other settings of the model.

    Raises:
        ValueError: if the system adapts by measured seconds (AdaQP's assignment, SYLVIE's coordinator), which differ
            between threads and processes, or by sums over processes (bases of `LowRank`); launch it with
            ``observers=`` instead.
        ObserverFailed: if an observer raises.

    Example:
        >>> class Bytes(Observer):
        ...     rows = ()
        ...     def on_message_encoded(self, message):
        ...         self.rows = [*self.rows, {"layer": message.layer, "bytes": message.num_bytes}]
        ...     def table(self):
        ...         return self.rows
        >>> seen = simulate("sbm:60,3,6", observers=[Bytes], layers=2, hidden=8)
        >>> seen.tables["Bytes"].groupby("rank").size().tolist()
        [4, 4]
    """
    loaded_graph = load(graph)
    recipe = make_system(system)
    partitioner = partition or recipe.partition
    if partitioner.partition_every:
        raise ValueError(
            f"a simulated system must have one partition, got partition_every {partitioner.partition_every}; choose "
            "partition_every 0, or launch it"
        )
    cut = cut_graph(loaded_graph, partitioner, workers)
    kinds = tuple(observers)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Observer)):
            raise ValueError(f"observers must be subclasses of gnnqlab.Observer, got {kind!r}; give the class itself")
    # Each worker has its own instances, because workers are threads.
    of_worker = [Observers([kind() for kind in kinds], rank) for rank in range(workers)]
    settings = ModelSettings(name=model, **shape) if isinstance(model, str) else model
    threads = ThreadedWorkers(
        loaded_graph,
        cut,
        recipe,
        settings,
        TrainSettings(seed=seed),
        as_launched=True,
        joined=True,
        observers=of_worker,
    )
    _refuse_decisions(threads)  # after building, because parts create their callbacks
    losses = threads.run(partial(_train, epochs=epochs))[0]  # reduced, so equal on all workers
    return Simulation(losses=tuple(losses), observers=tuple(each.all for each in of_worker))


def _refuse_decisions(threads: ThreadedWorkers) -> None:
    """Refuse callbacks that threads cannot run as processes do."""
    if len(threads.trainers) == 1:
        return
    for axis, callbacks in threads.adaptives.items():
        for callback in callbacks:
            if callback.by_seconds or callback.needs_processes:
                basis = "measured seconds" if callback.by_seconds else "sums over processes"
                raise ValueError(
                    f"a simulated system must not decide by {basis}, got {callback.name!r} of the axis {axis}, which "
                    "adapts during training; launch it with observers= instead"
                )


def _train(trainer: Trainer, epochs: int) -> list[float]:
    """Train one worker as `gnnqlab.train.loop.fit` does, without files; return its losses."""
    losses = []
    trainer.clock.take()  # reset: the processor time of this thread starts at 0
    for epoch in range(epochs):
        loss = trainer.epoch(epoch)
        # Taken in every epoch, as in a launched run; else callbacks and channels would collect them.
        take_decisions(trainer, epoch)
        arrivals = trainer.take_arrivals()
        for callback in trainer.adaptives.values():
            callback.observe(arrivals)
        report_epoch(trainer.observers, epoch, loss, {"epoch": epoch, "rank": trainer.observers.rank, "loss": loss})
        losses.append(loss)
    return losses
